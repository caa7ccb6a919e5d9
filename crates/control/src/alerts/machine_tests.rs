use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::Timestamp;
use proptest::prelude::*;

use super::conditions::{Finding, Look};
use super::machine::{Alerts, Settings};
use super::notice::{AlertState, Notice};
use super::observation::{Labels, NodeSeen, NodesSeen, Observation, Speakers};
use super::rule::{Condition, Rule, Severity};
use super::silence::{Silence, Silences};

const FOR: u64 = 10;
const GROUP_WAIT: u64 = 5;
const REPEAT: u64 = 1_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000 * (1_000_000 + seconds))
}

fn rule(condition: Condition) -> Rule {
    Rule {
        name: "r".to_owned(),
        severity: Severity::Critical,
        condition,
        for_seconds: FOR,
    }
}

fn alerts(condition: Condition) -> Alerts {
    let settings = Settings {
        group_wait: Duration::from_secs(GROUP_WAIT),
        repeat_every: Duration::from_secs(REPEAT),
        alerts_per_rule_max: 4,
    };
    Alerts::new(vec![rule(condition)], settings)
}

fn labels(key: &str) -> Labels {
    Labels::from([("key".to_owned(), key.to_owned())])
}

/// These are wrong.
fn look(keys: &[&str]) -> Vec<Look> {
    let findings = keys.iter().map(|key| Finding {
        labels: labels(key),
        value: 1.0,
        detail: (*key).to_owned(),
        is_shared: false,
    });
    vec![Look {
        findings: findings.collect(),
        is_partial: false,
    }]
}

/// The keys of those that fire and of those that have recovered.
fn told(notices: &[Notice]) -> Vec<(Vec<String>, Vec<String>)> {
    let keys = |list: &[super::Alert]| list.iter().map(|alert| alert.detail.clone()).collect();
    let told = notices.iter();
    told.map(|notice| (keys(&notice.firing), keys(&notice.recovered)))
        .collect()
}

/// Runs looks, each at its time; gives what was told when.
fn run(alerts: &mut Alerts, looks: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>, Vec<String>)> {
    let mut all = Vec::new();
    for (seconds, keys) in looks {
        let alone = NodesSeen::Alone;
        let notices = alerts.found(look(keys), &Speakers::of(&alone), at(*seconds));
        all.extend(
            told(&notices)
                .into_iter()
                .map(|(firing, recovered)| (*seconds, firing, recovered)),
        );
    }
    all
}

fn event(seconds: u64, firing: &[&str], recovered: &[&str]) -> (u64, Vec<String>, Vec<String>) {
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    (seconds, owned(firing), owned(recovered))
}

fn silence(until: u64) -> Silences {
    let mut silences = Silences::default();
    let one = Silence {
        id: 0,
        rule: Some("r".to_owned()),
        labels: Labels::new(),
        since_ms: 0,
        until_ms: at(until).as_millis(),
        why: String::new(),
    };
    silences.add(one, at(0)).unwrap();
    silences
}

#[test]
fn flapping_below_the_time_is_not_told() {
    let mut alerts = alerts(Condition::StageFailed);
    let mut looks: Vec<(u64, &[&str])> = Vec::new();
    for round in 0..20 {
        looks.push((round * 20, &["a"]));
        looks.push((round * 20 + 9, &["a"]));
        looks.push((round * 20 + 12, &[]));
    }
    assert_eq!(run(&mut alerts, &looks), []);
    assert!(alerts.list(at(400)).is_empty());
}

#[test]
fn an_episode_is_told_once_and_its_end_once() {
    let mut alerts = alerts(Condition::StageFailed);
    let looks: &[(u64, &[&str])] = &[
        (0, &["a"]),
        (9, &["a"]),
        (10, &["a"]),
        (15, &["a"]),
        (100, &["a"]),
        (110, &[]),
        (114, &[]),
        (115, &[]),
        (200, &[]),
    ];
    let expected = [event(15, &["a"], &[]), event(115, &[], &["a"])];
    assert_eq!(run(&mut alerts, looks), expected);
}

#[test]
fn what_fires_together_is_told_together() {
    let mut alerts = alerts(Condition::StageFailed);
    let looks: &[(u64, &[&str])] = &[
        (0, &["a"]),
        (4, &["a", "b"]),
        (10, &["a", "b"]),
        (14, &["a", "b"]),
        (15, &["a", "b", "c"]),
        (30, &["a", "b", "c"]),
        (40, &["c"]),
        (45, &["c"]),
    ];
    let expected = [
        event(15, &["a", "b"], &[]),
        event(35, &["c"], &[]),
        event(45, &[], &["a", "b"]),
    ];
    let mut looks = looks.to_vec();
    looks.insert(6, (35, &["a", "b", "c"]));
    assert_eq!(run(&mut alerts, &looks), expected);
}

#[test]
fn what_ends_before_its_notice_is_not_told() {
    let mut alerts = alerts(Condition::StageFailed);
    let looks: &[(u64, &[&str])] = &[(0, &["a"]), (10, &["a"]), (12, &[]), (20, &[])];
    assert_eq!(run(&mut alerts, looks), []);
}

#[test]
fn what_still_fires_is_repeated() {
    let mut alerts = alerts(Condition::StageFailed);
    run(&mut alerts, &[(0, &["a"]), (10, &["a"])]);
    let again = 15 + REPEAT;
    let looks: &[(u64, &[&str])] = &[(15, &["a"]), (again - 1, &["a"]), (again, &["a"])];
    let expected = [event(15, &["a"], &[]), event(again, &["a"], &[])];
    assert_eq!(run(&mut alerts, looks), expected);
    let alone = NodesSeen::Alone;
    let third = at(again + REPEAT);
    let notices = alerts.found(look(&["a"]), &Speakers::of(&alone), third);
    assert!(notices[0].is_repeat && notices[0].number == 3);
}

#[test]
fn silenced_alerts_are_listed_and_told_when_the_silence_ends() {
    let mut alerts = alerts(Condition::StageFailed);
    alerts.set_silences(silence(100));
    let looks: &[(u64, &[&str])] = &[(0, &["a", "b"]), (20, &["a", "b"]), (99, &["a"])];
    assert_eq!(run(&mut alerts, looks), []);
    let listed = alerts.list(at(99));
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].state, listed[0].silence),
        (AlertState::Silenced, Some(1))
    );
    assert_eq!(alerts.firing(), 0);
    assert_eq!(alerts.list(at(100))[0].state, AlertState::Firing);
    let looks: &[(u64, &[&str])] = &[(100, &["a"]), (105, &["a"]), (110, &[]), (115, &[])];
    let expected = [event(105, &["a"], &[]), event(115, &[], &["a"])];
    assert_eq!(run(&mut alerts, looks), expected);
}

#[test]
fn what_was_told_before_a_silence_is_told_again_after_it_and_its_end_within_it_is_not() {
    let mut alerts = alerts(Condition::StageFailed);
    run(
        &mut alerts,
        &[(0, &["a", "b"]), (10, &["a", "b"]), (15, &["a", "b"])],
    );
    alerts.set_silences(silence(100));
    let looks: &[(u64, &[&str])] = &[(20, &["a", "b"]), (30, &["a"]), (50, &["a"])];
    assert_eq!(run(&mut alerts, looks), []);
    let looks: &[(u64, &[&str])] = &[(100, &["a"]), (105, &["a"]), (110, &["a"])];
    assert_eq!(run(&mut alerts, looks), [event(105, &["a"], &[])]);
}

#[test]
fn there_is_a_bound_and_what_is_beyond_is_counted() {
    let mut alerts = alerts(Condition::StageFailed);
    let many: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let looks: &[(u64, &[&str])] = &[(0, &many), (10, &many)];
    run(&mut alerts, looks);
    let alone = NodesSeen::Alone;
    let notices = alerts.found(look(&many), &Speakers::of(&alone), at(15));
    assert_eq!((notices[0].firing.len(), notices[0].left_out), (4, 996));
    assert_eq!((alerts.list(at(15)).len(), alerts.left_out()), (4, 996));
}

#[test]
fn a_long_text_is_cut() {
    let mut alerts = alerts(Condition::StageFailed);
    let long = "é".repeat(10_000);
    run(&mut alerts, &[(0, &[long.as_str()])]);
    assert_eq!(alerts.list(at(0))[0].detail.chars().count(), 500);
}

fn heard(me: &str, nodes: &[(&str, bool)]) -> Observation {
    let nodes = nodes.iter().map(|(name, lives)| NodeSeen {
        name: (*name).to_owned(),
        lives: *lives,
        leaves: false,
    });
    Observation {
        nodes: NodesSeen::Heard {
            me: me.to_owned(),
            nodes: nodes.collect(),
        },
        ..Observation::default()
    }
}

/// Takes a node through what it hears; gives how many notices of alerts and of recoveries came of it.
fn count(alerts: &mut Alerts, steps: &[(u64, Observation)]) -> (usize, usize) {
    let (mut firing, mut recovered) = (0, 0);
    for (seconds, seen) in steps {
        for notice in alerts.step(seen, at(*seconds)) {
            firing += usize::from(!notice.firing.is_empty());
            recovered += usize::from(!notice.recovered.is_empty());
        }
    }
    (firing, recovered)
}

/// The same state of the cluster at several times.
fn during(times: std::ops::Range<u64>, seen: &Observation) -> Vec<(u64, Observation)> {
    times.step_by(5).map(|time| (time, seen.clone())).collect()
}

#[test]
fn the_first_node_by_name_tells_that_one_is_gone_and_that_it_is_back() {
    let gone = [("a", true), ("b", true), ("c", false)];
    let back = [("a", true), ("b", true), ("c", true)];
    for (me, expected) in [("a", (1, 1)), ("b", (0, 0))] {
        let mut alerts = alerts(Condition::NodeGone);
        let mut steps = during(0..50, &heard(me, &gone));
        steps.extend(during(50..100, &heard(me, &back)));
        assert_eq!(count(&mut alerts, &steps), expected, "{me}");
    }
    let mut listener = alerts(Condition::NodeGone);
    count(&mut listener, &during(0..50, &heard("b", &gone)));
    let listed = listener.list(at(50));
    assert_eq!(listed[0].state, AlertState::Firing);
    assert_eq!(listed[0].told_by.as_deref(), Some("a"));
}

#[test]
fn whoever_told_that_the_first_node_is_gone_tells_that_it_is_back() {
    let mut alerts = alerts(Condition::NodeGone);
    let mut steps = during(0..50, &heard("b", &[("a", false), ("b", true)]));
    steps.extend(during(50..100, &heard("b", &[("a", true), ("b", true)])));
    assert_eq!(count(&mut alerts, &steps), (1, 1));
}

#[test]
fn if_the_teller_is_gone_too_another_one_tells_of_the_recovery() {
    let mut alerts = alerts(Condition::NodeGone);
    let mut steps = during(
        0..50,
        &heard("b", &[("a", true), ("b", true), ("c", false)]),
    );
    steps.extend(during(
        50..100,
        &heard("b", &[("a", false), ("b", true), ("c", true)]),
    ));
    // That `a` is gone, and that `c` is back.
    assert_eq!(count(&mut alerts, &steps), (1, 1));
}

#[test]
fn a_node_that_is_cut_off_tells_that_and_neither_ends_nor_begins_other_alerts() {
    let mut alerts = alerts(Condition::NodeGone);
    let gone = heard("a", &[("a", true), ("b", false)]);
    count(&mut alerts, &during(0..50, &gone));
    let cut_off = Observation {
        nodes: NodesSeen::CutOff { me: "a".to_owned() },
        ..Observation::default()
    };
    assert_eq!(count(&mut alerts, &during(50..100, &cut_off)), (1, 0));
    assert_eq!(alerts.list(at(100)).len(), 2);
    assert_eq!(count(&mut alerts, &during(100..150, &gone)), (0, 1));
    assert_eq!(alerts.list(at(150)).len(), 1);
}

/// A time that passes, what is wrong then, and perhaps a silence of so many seconds from then on.
type Step = (u64, u8, Option<u64>);

const KEYS: [&str; 3] = ["a", "b", "c"];

fn keys_of(mask: u8) -> Vec<&'static str> {
    let keys = KEYS.iter().enumerate();
    keys.filter(|(bit, _)| mask & (1 << bit) != 0)
        .map(|(_, key)| *key)
        .collect()
}

/// What was told of each alert, and whether that was right at that time.
#[derive(Default)]
struct Witness {
    /// Since when each has been wrong.
    since: BTreeMap<&'static str, u64>,
    /// Of which somebody was told, and not yet of the end.
    told: BTreeSet<String>,
}

impl Witness {
    fn see(&mut self, now: u64, wrong: &[&'static str]) {
        self.since.retain(|key, _| wrong.contains(key));
        for key in wrong {
            self.since.entry(key).or_insert(now);
        }
    }

    fn hear(&mut self, now: u64, notice: &Notice) -> Result<(), TestCaseError> {
        for alert in &notice.recovered {
            prop_assert!(
                self.told.remove(&alert.detail),
                "an end without a beginning"
            );
        }
        for alert in &notice.firing {
            let since = self.since.get(alert.detail.as_str());
            let since = since.expect("what is told to fire is wrong");
            prop_assert!(now - since >= FOR, "told too early");
            let is_new = self.told.insert(alert.detail.clone());
            prop_assert!(is_new || notice.is_repeat, "told twice");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn each_episode_is_told_once_and_ended_once(
        steps in prop::collection::vec((1_u64..12, 0_u8..8), 0..100)
    ) {
        let mut alerts = alerts(Condition::StageFailed);
        let mut witness = Witness::default();
        let mut now = 0;
        let last = steps.last().map_or(0, |(_, mask)| *mask);
        // In the end everything has had the time to be told.
        let settle = [(FOR, last), (GROUP_WAIT, last), (GROUP_WAIT, last), (GROUP_WAIT, last)];
        for (passes, mask) in steps.into_iter().chain([(1, last)]).chain(settle) {
            now += passes;
            let wrong = keys_of(mask);
            witness.see(now, &wrong);
            let alone = NodesSeen::Alone;
            for notice in alerts.found(look(&wrong), &Speakers::of(&alone), at(now)) {
                witness.hear(now, &notice)?;
            }
            prop_assert_eq!(alerts.list(at(now)).len(), wrong.len());
        }
        let expected: BTreeSet<String> = keys_of(last).into_iter().map(str::to_owned).collect();
        prop_assert_eq!(witness.told, expected);
    }

    #[test]
    fn silences_keep_quiet_hide_nothing_and_lose_nothing(
        steps in prop::collection::vec((1_u64..12, 0_u8..8, prop::option::of(1_u64..60)), 0..100)
    ) {
        let mut alerts = alerts(Condition::StageFailed);
        let mut now = 0;
        let mut silent_until = 0;
        let mut told_since_silence: BTreeSet<String> = BTreeSet::new();
        let last = steps.last().map_or(0, |(_, mask, _)| *mask);
        let settle: [Step; 4] = [
            (100, last, None),
            (FOR, last, None),
            (GROUP_WAIT, last, None),
            (GROUP_WAIT, last, None),
        ];
        for (passes, mask, quiet) in steps.into_iter().chain([(1, last, None)]).chain(settle) {
            now += passes;
            if let Some(seconds) = quiet {
                silent_until = now + seconds;
                alerts.set_silences(silence(silent_until));
            }
            let is_silent = now < silent_until;
            let wrong = keys_of(mask);
            let alone = NodesSeen::Alone;
            let notices = alerts.found(look(&wrong), &Speakers::of(&alone), at(now));
            prop_assert!(!is_silent || notices.is_empty(), "told although silenced");
            if is_silent {
                told_since_silence.clear();
            }
            told_since_silence.retain(|key| wrong.contains(&key.as_str()));
            for alert in notices.iter().flat_map(|notice| &notice.firing) {
                told_since_silence.insert(alert.detail.clone());
            }
            let listed = alerts.list(at(now));
            prop_assert_eq!(listed.len(), wrong.len());
            let silenced = |alert: &super::Alert| alert.state == AlertState::Silenced;
            prop_assert_eq!(listed.iter().all(silenced), is_silent || listed.is_empty());
        }
        let expected: BTreeSet<String> = keys_of(last).into_iter().map(str::to_owned).collect();
        prop_assert_eq!(told_since_silence, expected);
    }

    #[test]
    fn memory_is_bounded(
        steps in prop::collection::vec((0_u64..30, prop::collection::vec(0_u32..1_000, 0..20)), 0..100)
    ) {
        let mut alerts = alerts(Condition::StageFailed);
        let mut now = 0;
        for (passes, numbers) in steps {
            now += passes;
            let keys: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let alone = NodesSeen::Alone;
            let notices = alerts.found(look(&keys), &Speakers::of(&alone), at(now));
            prop_assert!(alerts.list(at(now)).len() <= 4);
            for notice in notices {
                prop_assert!(notice.firing.len() <= 4 && notice.recovered.len() <= 4);
            }
        }
    }
}
