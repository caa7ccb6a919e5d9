//! Moves of buckets in a stage that is only simulated, with a simulated clock and everything that may happen meanwhile.
//!
//! What must hold for every seed: of each sender and key nothing is lost, doubled or out of order, whoever has a bucket has it alone,
//! nothing is held in the end, what waits has a bound, and the same seed gives the same run. Wrong ways to move must be noticed.

mod book;
mod chance;
mod changes;
mod worker;
mod world;

use self::chance::{Chance, Ending};
use self::world::World;

/// How many seeds there are.
const SEEDS: u64 = 400;

/// When, what, and two numbers about it.
type Step = (u64, &'static str, u32, u32);

/// What happened in a run.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    trace: Vec<Step>,
    moved: usize,
    stayed: usize,
    held: usize,
    put_back: usize,
    gone: usize,
    dismissed: usize,
    let_go: usize,
    replaced: usize,
    built_anew: usize,
    /// The most messages that a bucket had at a time.
    most: usize,
}

/// A wrong way to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// What was held goes before what was given.
    HeldFirst,
    /// The owner changes, and nobody asks the old one for what it has.
    Unasked,
    /// What comes while a bucket is on its way goes to the old owner.
    NotHeld,
    /// What is given too late is dropped.
    LateDropped,
    /// What is given too late goes behind what was held.
    PutBackLast,
    /// What is held at the end is forgotten.
    EndForgets,
    /// What waits when a bucket leaves does not count, so that it may take in as much again.
    WaitingForgotten,
}

impl Fault {
    /// Whether everything is looked at, and not only the messages that come.
    fn is_watched(self) -> bool {
        matches!(self, Self::None | Self::WaitingForgotten)
    }
}

/// The run of a seed; what is wrong with it is told with the seed and the last steps.
fn run(seed: u64, fault: Fault) -> Result<Outcome, String> {
    let (outcome, checked) = World::new(seed, fault).run();
    match checked {
        Ok(()) => Ok(outcome),
        Err(wrong) => {
            let last = &outcome.trace[outcome.trace.len().saturating_sub(40)..];
            Err(format!("seed {seed}: {wrong}; before that: {last:?}"))
        }
    }
}

#[test]
fn moves_lose_double_and_reorder_nothing_on_any_seed() {
    let mut all = Outcome::default();
    for seed in 0..SEEDS {
        let outcome = run(seed, Fault::None).unwrap();
        all.moved += outcome.moved;
        all.stayed += outcome.stayed;
        all.held += outcome.held;
        all.put_back += outcome.put_back;
        all.gone += outcome.gone;
        all.dismissed += outcome.dismissed;
        all.let_go += outcome.let_go;
        all.replaced += outcome.replaced;
        all.built_anew += outcome.built_anew;
        all.most = all.most.max(outcome.most);
    }
    println!("{all:?}");
    // Everything that can happen did happen, and often.
    assert!(all.moved > 10_000 && all.stayed > 1_000, "{all:?}");
    assert!(all.held > 1_000 && all.put_back > 100, "{all:?}");
    assert!(all.gone > 100 && all.dismissed > 100, "{all:?}");
    assert!(all.let_go > 10 && all.built_anew > 20, "{all:?}");
    assert!(all.replaced > 1_000, "{all:?}");
}

#[test]
fn each_seed_gives_the_same_moves_twice() {
    for seed in 0..SEEDS {
        let is_same = run(seed, Fault::None) == run(seed, Fault::None);
        assert!(is_same, "seed {seed} gave two different runs");
    }
}

/// The control. What is wrong with the messages must be noticed by looking at these alone.
#[test]
fn wrong_moves_are_noticed() {
    let faults = [
        (Fault::HeldFirst, " came"),
        (Fault::Unasked, " came"),
        (Fault::NotHeld, " came"),
        (Fault::LateDropped, " came"),
        (Fault::PutBackLast, " came"),
        (Fault::EndForgets, " came"),
        (Fault::WaitingForgotten, " wait for bucket"),
    ];
    for (fault, noticed) in faults {
        let is_noticed = |seed: &u64| run(*seed, fault).is_err_and(|wrong| wrong.contains(noticed));
        let first = (0..SEEDS).find(is_noticed);
        println!("{fault:?}: first noticed on seed {first:?}");
        assert!(first.is_some(), "{fault:?} was not noticed");
    }
}
