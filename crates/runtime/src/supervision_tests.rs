use super::*;

const STRATEGIES: [Strategy; 3] = [
    Strategy::OneForOne,
    Strategy::OneForAll,
    Strategy::RestForOne,
];
const ON_FAILURES: [OnFailure; 4] = [
    OnFailure::Restart,
    OnFailure::Resume,
    OnFailure::Stop,
    OnFailure::Escalate,
];
const KINDS: [FailureKind; 6] = [
    FailureKind::Error,
    FailureKind::Trap,
    FailureKind::Deadline,
    FailureKind::Limit,
    FailureKind::Denied,
    FailureKind::Host,
];

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1_000)
}

fn trap() -> Failure {
    Failure::of(FailureKind::Trap, "it broke")
}

fn restart(workers: Affected, after_ms: u64) -> Decision {
    Decision::Restart {
        workers,
        after: Duration::from_millis(after_ms),
    }
}

fn is_escalation(decision: &Decision) -> bool {
    matches!(decision, Decision::Escalate { .. })
}

fn expected_workers(strategy: Strategy, worker: u32) -> Affected {
    match strategy {
        Strategy::OneForOne => Affected::One(worker),
        Strategy::OneForAll => Affected::All,
        Strategy::RestForOne => Affected::From(worker),
    }
}

#[test]
fn every_combination_is_decided_as_its_rule_says() {
    for strategy in STRATEGIES {
        for on_failure in ON_FAILURES {
            for kind in KINDS {
                let mut supervisor = Supervisor::new(SupervisionRule {
                    strategy,
                    on_failure,
                    ..SupervisionRule::default()
                });
                let failure = Failure::of(kind, "it broke");
                let decision = supervisor.failed(1, 4, &failure, at_ms(0));
                let workers = expected_workers(strategy, 1);
                let expected = match (on_failure, kind) {
                    (_, FailureKind::Host) => restart(workers, 10),
                    (OnFailure::Restart, _) => restart(workers, 10),
                    (OnFailure::Resume, FailureKind::Error) => Decision::Resume,
                    (OnFailure::Resume, _) => restart(workers, 10),
                    (OnFailure::Stop, _) => Decision::Stop { workers },
                    (OnFailure::Escalate, _) => Decision::Escalate {
                        reason: "number 1 failed: it broke".to_owned(),
                    },
                };
                assert_eq!(decision, expected, "{strategy:?} {on_failure:?} {kind:?}");
            }
        }
    }
}

#[test]
fn those_affected_are_the_right_ones() {
    assert_eq!(Affected::One(2).among(5), 2..3);
    assert_eq!(Affected::All.among(5), 0..5);
    assert_eq!(Affected::From(2).among(5), 2..5);
    for strategy in STRATEGIES {
        let rule = SupervisionRule {
            strategy,
            ..SupervisionRule::default()
        };
        let alone = Supervisor::new(rule.clone()).failed(0, 1, &trap(), at_ms(0));
        assert_eq!(alone, restart(Affected::One(0), 10));
        let last = Supervisor::new(rule).failed(4, 5, &trap(), at_ms(0));
        let Decision::Restart { workers, .. } = last else {
            panic!("{last:?}");
        };
        let all = strategy == Strategy::OneForAll;
        assert_eq!(workers.among(5), if all { 0..5 } else { 4..5 });
    }
}

#[test]
fn the_wait_doubles_up_to_its_limit_and_success_resets_it() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: 1_000,
        backoff_ms_max: 100,
        ..SupervisionRule::default()
    });
    let mut wait = |worker| match supervisor.failed(worker, 2, &trap(), at_ms(0)) {
        Decision::Restart { after, .. } => after.as_millis(),
        other => panic!("{other:?}"),
    };
    let waits: Vec<_> = (0..6).map(|_| wait(0)).collect();
    assert_eq!(waits, [10, 20, 40, 80, 100, 100]);
    assert_eq!(wait(1), 10, "each worker has its own");
    (0..100).for_each(|_| assert_eq!(wait(0), 100));
    supervisor.succeeded(0);
    assert_eq!(
        supervisor.failed(0, 2, &trap(), at_ms(0)),
        restart(Affected::One(0), 10)
    );
}

#[test]
fn a_budget_used_up_escalates_and_time_refills_it() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: 3,
        within_ms: 1_000,
        ..SupervisionRule::default()
    });
    for ms in [0, 100, 200] {
        let decision = supervisor.failed(0, 2, &trap(), at_ms(ms));
        assert!(!is_escalation(&decision));
        supervisor.succeeded(0);
    }
    // Success between the failures does not refill the budget: that is what it is for.
    let decision = supervisor.failed(1, 2, &trap(), at_ms(300));
    let Decision::Escalate { reason } = decision else {
        panic!("{decision:?}");
    };
    assert!(reason.contains("3 restarts within 1000 ms"), "{reason}");
    assert!(reason.contains("it broke"), "{reason}");
    assert!(!is_escalation(&supervisor.failed(
        0,
        2,
        &trap(),
        at_ms(1_000)
    )));
    assert!(is_escalation(&supervisor.failed(
        0,
        2,
        &trap(),
        at_ms(1_050)
    )));
    assert!(!is_escalation(&supervisor.failed(
        0,
        2,
        &trap(),
        at_ms(1_100)
    )));
}

#[test]
fn no_restarts_at_all_can_be_asked_for() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: 0,
        ..SupervisionRule::default()
    });
    assert!(is_escalation(&supervisor.failed(0, 1, &trap(), at_ms(0))));
}

#[test]
fn a_clock_that_is_set_back_does_not_use_up_the_budget() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: 1,
        ..SupervisionRule::default()
    });
    supervisor.failed(0, 1, &trap(), at_ms(3_600_000));
    assert!(!is_escalation(&supervisor.failed(0, 1, &trap(), at_ms(0))));
}

#[test]
fn failures_of_the_host_wait_but_use_up_nothing() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: 2,
        ..SupervisionRule::default()
    });
    let host = Failure::of(FailureKind::Host, "the disk is full");
    let mut last = Decision::Resume;
    for _ in 0..1_000 {
        last = supervisor.failed(0, 1, &host, at_ms(0));
    }
    assert_eq!(last, restart(Affected::One(0), 5_000));
    // The control: as many failures of the worker itself are too many.
    let decisions: Vec<_> = (0..3)
        .map(|_| is_escalation(&supervisor.failed(0, 1, &trap(), at_ms(0))))
        .collect();
    assert_eq!(decisions, [false, false, true]);
}

#[test]
fn resuming_uses_up_nothing() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        on_failure: OnFailure::Resume,
        restarts_max: 1,
        ..SupervisionRule::default()
    });
    for _ in 0..100 {
        let decision = supervisor.failed(0, 1, &Failure::new("not today"), at_ms(0));
        assert_eq!(decision, Decision::Resume);
    }
    assert!(supervisor.failing.is_empty());
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        restarts_max: u32::MAX,
        within_ms: u64::MAX / 2,
        ..SupervisionRule::default()
    });
    let host = Failure::of(FailureKind::Host, "no memory");
    for worker in 0..5_000 {
        supervisor.failed(worker, 5_000, &host, at_ms(u64::from(worker)));
    }
    assert_eq!(supervisor.failing.len(), FAILING_WORKERS_MAX);
    assert!(supervisor.failing.contains_key(&4_999));
    assert!(!supervisor.failing.contains_key(&0));
    supervisor.restarts = vec![at_ms(0); RESTARTS_REMEMBERED_MAX].into();
    assert!(is_escalation(&supervisor.failed(0, 1, &trap(), at_ms(1))));
}

/// A flow over its stages: what the stages cannot settle reaches the flow.
struct Tree {
    flow: Supervisor,
    stages: Vec<Supervisor>,
    rule: SupervisionRule,
}

impl Tree {
    fn new(flow: SupervisionRule, stage: SupervisionRule) -> Self {
        let stages = (0..3).map(|_| Supervisor::new(stage.clone())).collect();
        Self {
            flow: Supervisor::new(flow),
            stages,
            rule: stage,
        }
    }

    /// What the stage decides, and the flow if the stage does not.
    fn failed(&mut self, stage: u32, now: Timestamp) -> (Decision, Option<Decision>) {
        let decision = self.stages[stage as usize].failed(0, 2, &trap(), now);
        let Decision::Escalate { reason } = &decision else {
            return (decision, None);
        };
        let failure = Failure::of(FailureKind::Trap, reason.clone());
        let above = self.flow.failed(stage, 3, &failure, now);
        if let Decision::Restart { workers, .. } = above {
            for stage in workers.among(3) {
                self.stages[stage as usize] = Supervisor::new(self.rule.clone());
            }
        }
        (decision, Some(above))
    }
}

fn tree(strategy: Strategy, on_failure: OnFailure) -> Tree {
    let flow = SupervisionRule {
        strategy,
        on_failure,
        restarts_max: 2,
        ..SupervisionRule::default()
    };
    let stage = SupervisionRule {
        restarts_max: 1,
        ..SupervisionRule::default()
    };
    Tree::new(flow, stage)
}

#[test]
fn a_flow_decides_for_the_stages_that_gave_up() {
    for strategy in STRATEGIES {
        for on_failure in ON_FAILURES {
            let mut tree = tree(strategy, on_failure);
            let (first, above) = tree.failed(1, at_ms(0));
            assert_eq!((first, above), (restart(Affected::One(0), 10), None));
            let (second, above) = tree.failed(1, at_ms(1));
            assert!(is_escalation(&second));
            let workers = expected_workers(strategy, 1);
            match (on_failure, above.unwrap()) {
                (OnFailure::Restart | OnFailure::Resume, above) => {
                    assert_eq!(above, restart(workers, 10));
                }
                (OnFailure::Stop, above) => assert_eq!(above, Decision::Stop { workers }),
                (OnFailure::Escalate, above) => assert!(is_escalation(&above)),
            }
        }
    }
}

#[test]
fn a_restarted_stage_has_its_budget_back_and_in_the_end_the_flow_gives_up() {
    let mut tree = tree(Strategy::RestForOne, OnFailure::Restart);
    let mut above = Vec::new();
    for ms in 0..6 {
        above.extend(tree.failed(1, at_ms(ms)).1);
    }
    let given_up: Vec<_> = above.iter().map(is_escalation).collect();
    assert_eq!(given_up, [false, false, true]);
    let Some(Decision::Escalate { reason }) = above.last() else {
        panic!("{above:?}");
    };
    assert!(reason.ends_with("it broke"), "the cause is kept: {reason}");
}

#[test]
fn rules_are_read_with_defaults_and_typing_errors_refused() {
    let rule: SupervisionRule =
        serde_json::from_str(r#"{"strategy":"rest-for-one","on_failure":"stop"}"#).unwrap();
    assert_eq!(rule.strategy, Strategy::RestForOne);
    assert_eq!((rule.tries_max, rule.restarts_max), (3, 20));
    assert!(serde_json::from_str::<SupervisionRule>(r#"{"tries":3}"#).is_err());
}

#[test]
fn extreme_rules_do_no_harm() {
    let mut supervisor = Supervisor::new(SupervisionRule {
        within_ms: u64::MAX,
        backoff_ms_min: u64::MAX,
        backoff_ms_max: u64::MAX,
        ..SupervisionRule::default()
    });
    for _ in 0..100 {
        supervisor.failed(u32::MAX, 3, &trap(), at_ms(0));
    }
    assert_eq!(Affected::One(u32::MAX).among(3), 3..3);
}
