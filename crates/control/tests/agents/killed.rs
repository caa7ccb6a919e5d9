//! A stage moves from one node to another, and one of both dies at some step of that: afterwards
//! everything has one owner, and nothing is lost, doubled or out of order.

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;

use crate::mortal::{Commits, Death, Epochs, MortalBus};
use crate::rig::*;

/// How many deaths are tried; `HIVEWIRE_SOAK` multiplies them.
const DEATHS: u64 = 52;
/// How many clusters there are at a time.
const AT_ONCE: usize = 8;
/// What a source or target has done, at least, when a stage has moved.
const STEPS_MIN: u64 = 129;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Source,
    Target,
}

/// What came of a move.
struct Moved {
    /// How many calls the victim made, from the order to move until it was done or dead.
    calls: u64,
    died: bool,
    judgement: Result<(), String>,
    commits: Arc<Commits>,
}

/// Moves a stage while messages flow, and lets somebody die.
async fn relocate(victim: Victim, death: Death, epochs: Epochs) -> Moved {
    let mut cluster = Cluster::new();
    let commits = Arc::new(Commits::default());
    let mortal = |name| MortalBus::new(cluster.bus.clone(), name, epochs, commits.clone());
    let (source_bus, target_bus) = (mortal("source"), mortal("target"));
    let over = |bus: &Arc<MortalBus>, name| {
        let bus: Arc<dyn Bus> = bus.clone();
        Cluster::node_over(bus, name)
    };
    cluster.define(0, "source").await;
    let source = over(&source_bus, "source").await;
    let target = over(&target_bus, "target").await;
    until("the source has all", || {
        held(&[&source, &target]) == [SHARES, 0]
    })
    .await;
    cluster.send_round().await;
    // The entrance and a bucket at least, so that there is somebody whose epoch could be taken.
    until("the source has committed", || commits.count() >= 2).await;
    let victim_bus = match victim {
        Victim::Source => source_bus.clone(),
        Victim::Target => target_bus.clone(),
    };
    victim_bus.dies(death);
    cluster.define(1, "target").await;
    let bus = victim_bus.clone();
    let has_moved = || held(&[&target]) == [SHARES];
    sending_until(&mut cluster, "it moves, or one dies", || {
        bus.is_dead() || has_moved()
    })
    .await;
    let (calls, died) = (victim_bus.calls(), victim_bus.is_dead());
    // The dead one's process is gone; whoever is left has all.
    let (left, gone) = match (died, victim) {
        (true, Victim::Target) => (source, Some(target)),
        (true, Victim::Source) => (target, Some(source)),
        (false, _) => (target, None),
    };
    if let Some(gone) = gone {
        drop(gone.agent);
        gone.runtime.shutdown(Duration::ZERO).await;
    }
    sending_until(&mut cluster, "somebody has all", || {
        held(&[&left]) == [SHARES]
    })
    .await;
    // Whoever has it now has something to commit.
    cluster.send_round().await;
    let judgement = cluster.judge().await;
    Moved {
        calls,
        died,
        judgement,
        commits,
    }
}

fn deaths() -> u64 {
    let soak = std::env::var("HIVEWIRE_SOAK").ok();
    DEATHS * soak.and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Deaths before and after calls that are spread evenly over all of a move.
fn spread(victim: Victim, calls: u64, count: u64) -> impl Iterator<Item = (Victim, Death)> {
    (0..count).map(move |number| {
        let call = 1 + calls * number / count;
        let death = match number % 2 {
            0 => Death::Before(call),
            _ => Death::After(call),
        };
        (victim, death)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_at_whatever_step_of_a_move_one_owner_is_left_and_nothing_is_lost() {
    let mut all = Vec::new();
    for victim in [Victim::Source, Victim::Target] {
        let whole = relocate(victim, Death::Never, Epochs::Raised).await;
        assert_eq!(whole.judgement, Ok(()));
        assert!(whole.calls > STEPS_MIN, "{victim:?}: {} calls", whole.calls);
        all.extend(spread(victim, whole.calls, deaths() / 2));
    }
    let mut died = 0;
    for some in all.chunks(AT_ONCE) {
        let runs = some.iter().map(|&(victim, death)| {
            tokio::spawn(async move {
                let moved = relocate(victim, death, Epochs::Raised).await;
                (victim, death, moved)
            })
        });
        for run in runs.collect::<Vec<_>>() {
            let (victim, death, moved) = run.await.unwrap();
            assert_eq!(moved.judgement, Ok(()), "{victim:?} {death:?}");
            assert_eq!(moved.commits.wrong(), None, "{victim:?} {death:?}");
            assert!(moved.commits.count() > 0);
            died += u64::from(moved.died);
        }
    }
    eprintln!("{died} of {} died in the middle of a move", all.len());
    // One that was faster this time got away.
    assert!(died * 10 >= all.len() as u64 * 8, "only {died} died");
}

/// The control: if what a commit consumes is not part of it, somebody's death is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_two_steps_is_found_out() {
    let moved = relocate(Victim::Source, Death::InTornCommit, Epochs::Raised).await;
    assert!(moved.died);
    let wrong = moved.judgement.unwrap_err();
    assert!(wrong.contains("was due"), "{wrong}");
}

/// The control: if epochs are not raised, two owners commit in one.
#[tokio::test(flavor = "multi_thread")]
async fn two_owners_in_one_epoch_are_found_out() {
    let moved = relocate(Victim::Source, Death::Never, Epochs::Shared).await;
    let wrong = moved.commits.wrong().expect("it is noticed");
    assert!(wrong.contains("source and target"), "{wrong}");
}
