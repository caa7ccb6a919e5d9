//! The log against a list of all that was ever pushed, by many threads, and with those who follow it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_lite::{StreamExt, future};
use proptest::prelude::*;
use web::shared::{Batch, Followed, Log};

/// Longer than any test takes: who waits so long has missed what he waited for.
const LONG: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Read(u64, usize),
    Latest(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_usize).prop_map(Step::Push),
        3 => (0..60_u64, 0..8_usize).prop_map(|(from, count)| Step::Read(from, count)),
        1 => (0..8_usize).prop_map(Step::Latest),
    ]
}

/// All that was ever pushed, and from where on it is kept.
struct Model {
    all: Vec<usize>,
    first: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl Model {
    fn push(&mut self, bytes: usize) -> u64 {
        self.all.push(bytes);
        let is_too_much = |kept: &[usize]| {
            kept.len() > self.entries_max || kept.iter().sum::<usize>() > self.bytes_max
        };
        while is_too_much(&self.all[self.first..]) {
            self.first += 1;
        }
        self.all.len() as u64 - 1
    }

    fn read(&self, from: u64, count: usize) -> Batch<usize> {
        let from = (from as usize).min(self.all.len());
        let first = from.max(self.first);
        let kept = self.all[first..].iter().take(count);
        Batch {
            first: first as u64,
            missed: (first - from) as u64,
            entries: kept.copied().collect(),
        }
    }

    fn latest(&self, count: usize) -> Batch<usize> {
        let from = self.all.len().saturating_sub(count).max(self.first);
        self.read(from as u64, count)
    }
}

/// What is wrong with a log of these bounds, which is told a bound that may be another.
fn check(steps: &[Step], bounds: (usize, usize), told: (usize, usize)) -> Result<(), String> {
    let log = Log::with_bytes_max(told.0, told.1, |bytes: &usize| *bytes);
    let mut model = Model {
        all: Vec::new(),
        first: 0,
        entries_max: bounds.0,
        bytes_max: bounds.1,
    };
    for step in steps {
        let is_right = match *step {
            Step::Push(bytes) => log.push(bytes) == model.push(bytes),
            Step::Read(from, count) => log.read(from, count) == model.read(from, count),
            Step::Latest(count) => log.latest(count) == model.latest(count),
        };
        let kept = &model.all[model.first..];
        let expected = (model.first as u64, model.all.len() as u64, kept.len());
        let is_same = (log.first(), log.end(), log.len()) == expected
            && log.bytes() == kept.iter().sum::<usize>();
        if !is_right || !is_same {
            return Err(format!(
                "wrong after {step:?}: {log:?}, expected {expected:?}"
            ));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_keeps_the_latest(
        steps in prop::collection::vec(step(), 0..120),
        entries_max in 0..10_usize,
        bytes_max in 0..40_usize,
    ) {
        let bounds = (entries_max, bytes_max);
        prop_assert_eq!(check(&steps, bounds, bounds), Ok(()));
    }
}

#[test]
fn the_check_against_the_model_finds_a_wrong_bound() {
    let steps: Vec<_> = (0..20).map(|_| Step::Push(2)).collect();
    assert!(check(&steps, (5, 100), (6, 100)).is_err());
    assert!(check(&steps, (50, 10), (50, 12)).is_err());
    assert!(check(&steps, (5, 10), (5, 10)).is_ok());
}

#[test]
fn what_many_push_has_one_order_and_each_ones_order_in_it() {
    let log = Log::new(100_000);
    let positions = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (log, positions) = (&log, &positions);
            scope.spawn(move || {
                for number in 0..5_000 {
                    let position = log.push((thread, number));
                    let mut positions = positions.lock().expect("no panic");
                    assert!(positions.insert(position, (thread, number)).is_none());
                }
            });
        }
    });
    let batch = log.read(0, usize::MAX);
    let positions = positions.into_inner().expect("no panic");
    let told: Vec<_> = positions.into_values().collect();
    assert_eq!(batch.entries, told);
    for thread in 0..4 {
        let own = batch.entries.iter().filter(|(from, _)| *from == thread);
        assert!(own.map(|(_, number)| *number).eq(0..5_000));
    }
}

/// The next entry is pushed once the one before has arrived, so whoever misses a call waits in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_called_each_time() {
    let log = Arc::new(Log::new(1));
    let arrived = Arc::new(AtomicUsize::new(0));
    let mut follower = log.follow(0);
    let rounds = 20_000;
    let pusher = thread::spawn({
        let arrived = arrived.clone();
        move || {
            for round in 0..rounds {
                log.push(round);
                while arrived.load(Ordering::Acquire) <= round {
                    thread::yield_now();
                }
            }
        }
    });
    let follows = tokio::spawn(async move {
        for round in 0..rounds {
            let followed = follower.next_within(LONG).await;
            let first = round as u64;
            let batch = Batch {
                first,
                missed: 0,
                entries: vec![round],
            };
            assert_eq!(followed, Followed::Entries(batch));
            arrived.store(round + 1, Ordering::Release);
        }
        assert_eq!(follower.next_within(LONG).await, Followed::Ended);
    });
    follows.await.expect("it was called each time");
    pusher.join().expect("no panic");
}

/// Why the order matters in which a follower looks and asks to be called.
#[tokio::test]
async fn who_looks_before_he_asks_to_be_called_waits_in_vain() {
    let called = tokio::sync::Notify::new();
    let asked_before = pin!(called.notified());
    // Here both look, and find nothing; then something is pushed.
    called.notify_waiters();
    let asked_afterwards = pin!(called.notified());
    assert!(future::poll_once(asked_before).await.is_some());
    assert!(future::poll_once(asked_afterwards).await.is_none());
}

#[tokio::test]
async fn who_gives_up_waiting_misses_nothing() {
    let log = Log::new(10);
    let mut follower = log.follow(0);
    assert_eq!(
        follower.next_within(Duration::ZERO).await,
        Followed::Nothing
    );
    let waits = future::poll_once(follower.next_within(LONG)).await;
    assert_eq!(waits, None);
    log.push("one");
    let Followed::Entries(batch) = follower.next_within(LONG).await else {
        panic!("it is there");
    };
    assert_eq!((batch.entries, follower.position()), (vec!["one"], 1));
    assert_eq!(follower.now(), Followed::Nothing);
}

#[tokio::test]
async fn who_is_slow_is_told_what_he_missed_and_that_the_log_is_gone() {
    let log = Log::new(3);
    let slow = log.follow(0);
    (0..10).for_each(|number| {
        log.push(number);
    });
    drop(log);
    let all: Vec<_> = slow.into_stream(LONG).collect().await;
    let batch = Batch {
        first: 7,
        missed: 7,
        entries: vec![7, 8, 9],
    };
    assert_eq!(all, [Followed::Entries(batch)]);
}

/// A client that comes back after the log was made anew says where it was in the one of before.
#[tokio::test]
async fn who_asks_for_more_than_there_is_gets_what_comes_next() {
    let log = Log::new(3);
    log.push("old");
    let mut follower = log.follow(500);
    assert_eq!(
        (follower.now(), follower.position()),
        (Followed::Nothing, 1)
    );
    log.push("new");
    assert_eq!(log.read(1, 9).entries, ["new"]);
    assert!(matches!(follower.now(), Followed::Entries(batch) if batch.entries == ["new"]));
}

#[tokio::test]
async fn who_is_far_behind_gets_a_bounded_part_at_once() {
    let log = Log::new(1_000);
    (0..200).for_each(|number| {
        log.push(number);
    });
    let mut follower = log.follow(0);
    let mut lengths = Vec::new();
    while let Followed::Entries(batch) = follower.now() {
        lengths.push(batch.entries.len());
    }
    assert_eq!(lengths, [64, 64, 64, 8]);
}
