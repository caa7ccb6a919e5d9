//! The controller over recorded loads, with simulated stages and a simulated clock.
//!
//! What must hold on every load and for every seed: workers stay within their bounds, the stage does not swing, latency comes back
//! wherever the workers that it may have suffice, nothing is lost, and the same seed gives the same run.

mod stage;
mod trace;

use std::time::Duration;

use super::controller::{Calm, Controller};
use super::record::{ScaleChange, ScaleReason};
use super::rule::{ScaleBy, ScaleRule};

use self::stage::{Outcome, Simulated, TICK_MS, World};
use self::trace::{Trace, trace, traces};

/// How many seeds each load is run with.
const SEEDS: u64 = 40;
/// So many seconds in a row the latency may be too high after the load grew.
const LATE_SECONDS_MAX: usize = 10;
const WORKERS_MAX: u32 = 12;

fn rule() -> ScaleRule {
    ScaleRule {
        max: WORKERS_MAX,
        ..ScaleRule::default()
    }
}

fn run(rule: &ScaleRule, world: &World, trace: &Trace) -> Outcome {
    let mut controller = Controller::new(rule.clone());
    Simulated::new(world.clone(), trace).run(&mut controller, rule.probe_period_ms, false)
}

/// How often it turned from growing to shrinking or back.
fn direction_changes(outcome: &Outcome) -> usize {
    let directions = outcome.changes.iter().map(|(_, change, _)| *change);
    let mut directions: Vec<_> = directions
        .filter(|change| *change != ScaleChange::Rebalance)
        .collect();
    directions.dedup();
    directions.len().saturating_sub(1)
}

/// The longest time in a row, in seconds, with too much latency although the workers could suffice.
fn longest_late(rule: &ScaleRule, world: &World, trace: &Trace, outcome: &Outcome) -> usize {
    let capacity = world.service * world.cores.min(f64::from(rule.max)) * 0.85;
    // Ticks at both ends of the way are not part of what probes measure.
    let latency_max = (rule.latency_ms_max + 2 * TICK_MS) as f64;
    let (mut longest, mut run) = (0, 0);
    for (rate, latency) in trace.per_second.iter().zip(&outcome.latency_ms) {
        let is_late = *latency > latency_max && *rate <= capacity;
        run = if is_late { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Everything that must hold; what does not, in words.
fn check(rule: &ScaleRule, world: &World, trace: &Trace, outcome: &Outcome) -> Result<(), String> {
    let at = format!("{} with seed {}", trace.name, world.seed);
    let workers = outcome.changes.iter().map(|(_, _, workers)| *workers);
    if let Some(wrong) = workers
        .into_iter()
        .find(|workers| !(rule.min..=rule.max).contains(workers))
    {
        return Err(format!("{at}: {wrong} workers"));
    }
    let changes = direction_changes(outcome);
    if changes > trace.direction_changes_max {
        return Err(format!(
            "{at}: turned {changes} times: {:?}",
            outcome.changes
        ));
    }
    let late = longest_late(rule, world, trace, outcome);
    if late > LATE_SECONDS_MAX {
        return Err(format!("{at}: late for {late} s: {:?}", outcome.changes));
    }
    if outcome.waiting_max > world.mailbox + 1.0 && !world.keyed {
        return Err(format!("{at}: {} waited", outcome.waiting_max));
    }
    if outcome.done > outcome.sent + 1.0 {
        return Err(format!("{at}: more done than sent"));
    }
    Ok(())
}

fn worlds(seed: u64) -> [World; 3] {
    let pool = World {
        seed,
        ..World::default()
    };
    // With a long mailbox the probes tell, with a short one the senders do.
    let long = World {
        mailbox: 20_000.0,
        ..pool.clone()
    };
    let keyed = World {
        keyed: true,
        ..pool.clone()
    };
    [pool, long, keyed]
}

#[test]
fn stages_keep_calm_and_quick_on_all_loads_and_seeds() {
    let rule = rule();
    let mut wrong = Vec::new();
    for trace in traces() {
        for seed in 0..SEEDS {
            for world in worlds(seed) {
                let outcome = run(&rule, &world, &trace);
                wrong.extend(check(&rule, &world, &trace, &outcome).err());
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn each_seed_gives_the_same_run_twice() {
    let rule = rule();
    for trace in traces() {
        for world in worlds(11) {
            let (first, second) = (run(&rule, &world, &trace), run(&rule, &world, &trace));
            assert_eq!(first, second, "{}", trace.name);
        }
    }
}

#[test]
fn latency_is_kept_by_the_number_of_workers_and_by_nothing_else() {
    let (rule, world, trace) = (rule(), World::default(), trace("staircase"));
    let mut controller = Controller::new(rule.clone());
    let simulated = Simulated::new(world.clone(), &trace);
    let deaf = simulated.run(&mut controller, rule.probe_period_ms, true);
    let found = check(&rule, &world, &trace, &deaf).unwrap_err();
    assert!(found.contains("late for"), "{found}");
}

#[test]
fn calm_comes_from_waiting_after_changes() {
    let hasty = Calm {
        grow_after: Duration::ZERO,
        shrink_after: Duration::ZERO,
        shrink_after_max: Duration::ZERO,
        ignored_periods: 0,
        flap_within: Duration::ZERO,
    };
    let rule = ScaleRule {
        underload_periods: 5,
        ..rule()
    };
    let swings = |calm: &Calm| {
        let trace = trace("bursts");
        let mut controller = Controller::with(rule.clone(), calm.clone());
        let simulated = Simulated::new(World::default(), &trace);
        direction_changes(&simulated.run(&mut controller, rule.probe_period_ms, false))
    };
    let max = trace("bursts").direction_changes_max;
    assert!(swings(&Calm::default()) <= max);
    assert!(swings(&hasty) > max, "{}", swings(&hasty));
}

#[test]
fn a_stage_without_free_cores_does_not_grow_and_grow() {
    let rule = rule();
    for seed in 0..SEEDS {
        let world = World {
            cores: 2.0,
            seed,
            ..World::default()
        };
        let mut controller = Controller::new(rule.clone());
        let trace = trace("step");
        let simulated = Simulated::new(world, &trace);
        let outcome = simulated.run(&mut controller, rule.probe_period_ms, false);
        let most = outcome.workers.iter().max().copied().unwrap_or_default();
        assert!(most < rule.max, "{:?}", outcome.changes);
        let decisions = controller.decisions();
        let stayed = decisions
            .iter()
            .find(|d| d.reason == ScaleReason::GrowthDoesNotHelp);
        let stayed = stayed.unwrap_or_else(|| panic!("{:?}", outcome.changes));
        assert!(stayed.explain().contains("would not help"));
        let useless = decisions.iter().filter_map(|d| d.achieved.as_ref());
        assert!(useless.into_iter().any(|achieved| !achieved.helped));
    }
}

#[test]
fn a_hot_key_is_moved_to_a_worker_for_itself_before_workers_are_added() {
    let rule = ScaleRule { min: 4, ..rule() };
    for seed in 0..SEEDS {
        let world = World {
            workers: 4,
            keyed: true,
            hot_share: 0.25,
            seed,
            ..World::default()
        };
        let trace = trace("hot-key");
        let outcome = run(&rule, &world, &trace);
        let first = outcome.changes.first().map(|(_, change, _)| *change);
        assert_eq!(first, Some(ScaleChange::Rebalance), "{:?}", outcome.changes);
        check(&rule, &world, &trace, &outcome).unwrap();
    }
}

#[test]
fn a_key_that_is_too_much_for_one_worker_makes_no_stage_grow_to_its_maximum() {
    let rule = rule();
    for seed in 0..SEEDS {
        let world = World {
            workers: 4,
            keyed: true,
            hot_share: 0.6,
            seed,
            ..World::default()
        };
        let mut controller = Controller::new(rule.clone());
        let trace = trace("hot-key");
        let simulated = Simulated::new(world, &trace);
        let outcome = simulated.run(&mut controller, rule.probe_period_ms, false);
        // In the last third, when the key is no longer hot, what waited is worked off.
        let third = outcome.workers.len() / 3;
        let most = outcome.workers[third..2 * third].iter().max();
        assert!(most < Some(&rule.max), "{:?}", outcome.changes);
        let why = |reason| controller.decisions().iter().any(|d| d.reason == reason);
        assert!(
            why(ScaleReason::HotBucket) || why(ScaleReason::GrowthDoesNotHelp),
            "{:?}",
            outcome.changes
        );
    }
}

#[test]
fn a_stage_at_its_maximum_says_so_once_and_slows_its_senders() {
    let rule = ScaleRule { max: 2, ..rule() };
    let mut controller = Controller::new(rule.clone());
    let (world, trace) = (World::default(), trace("zero-then-flood"));
    let simulated = Simulated::new(world.clone(), &trace);
    let outcome = simulated.run(&mut controller, rule.probe_period_ms, false);
    let decisions = controller.decisions();
    let at_maximum = decisions
        .iter()
        .filter(|d| d.reason == ScaleReason::AtMaximum);
    assert_eq!(at_maximum.count(), 1, "{decisions:?}");
    assert!(outcome.waiting_max <= world.mailbox + 1.0);
    assert_eq!(outcome.workers.last(), Some(&2));
}

#[test]
fn the_length_of_the_queue_can_be_the_rule() {
    let rule = ScaleRule {
        by: ScaleBy::QueueLength,
        queue_messages_max: 500,
        ..rule()
    };
    for name in ["staircase", "step", "noise", "bursts"] {
        for seed in 0..SEEDS {
            let world = World {
                mailbox: 20_000.0,
                seed,
                ..World::default()
            };
            let trace = trace(name);
            let outcome = run(&rule, &world, &trace);
            check(&rule, &world, &trace, &outcome).unwrap();
            assert!(outcome.workers.iter().any(|workers| *workers > 3));
        }
    }
}

#[test]
fn decisions_tell_what_was_measured_predicted_and_achieved() {
    let rule = rule();
    let mut controller = Controller::new(rule.clone());
    let trace = trace("staircase");
    let simulated = Simulated::new(World::default(), &trace);
    simulated.run(&mut controller, rule.probe_period_ms, false);
    let decisions = controller.decisions();
    let grown = decisions.iter().find(|d| d.change == ScaleChange::Grow);
    let grown = grown.expect("it grew");
    let achieved = grown.achieved.as_ref().expect("that was long ago");
    assert!(achieved.helped && achieved.done_per_second > grown.measured.done_per_second);
    assert!(grown.measured.service_per_second > 20_000.0);
    let text = grown.explain();
    for part in ["It grew from 1 to", "messages/s", "Predicted", "After"] {
        assert!(text.contains(part), "{text}");
    }
}
