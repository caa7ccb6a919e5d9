//! Whatever happens in whatever order, state is what the commits made of it.

use std::collections::BTreeMap;

use journal::testing::Loss;
use proptest::prelude::*;

use super::rig::{Fault, Rig, name, remove, set, settings, until};

const BUCKETS: [&str; 3] = ["a", "ab", "b"];
const KEYS: u8 = 30;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Commit {
        bucket: usize,
        /// A key with the length of its value, or without a value.
        writes: Vec<(u8, Option<u16>)>,
        acknowledged: bool,
    },
    TakeOver(usize),
    Move,
    FailMove(Fault),
    Clean,
    Crash(Loss),
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..KEYS, prop::option::weighted(0.7, 0..700_u16));
    let writes = prop::collection::vec(write, 1..12);
    let commit = (0..BUCKETS.len(), writes, any::<bool>());
    let commit = commit.prop_map(|(bucket, writes, acknowledged)| Step::Commit {
        bucket,
        writes,
        acknowledged,
    });
    prop_oneof![
        12 => commit,
        1 => (0..BUCKETS.len()).prop_map(Step::TakeOver),
        2 => Just(Step::Move),
        1 => prop_oneof![Just(Fault::Before), Just(Fault::After), Just(Fault::Full)].prop_map(Step::FailMove),
        1 => Just(Step::Clean),
        2 => prop_oneof![Just(Loss::Nothing), Just(Loss::Unsynced), Just(Loss::Torn)].prop_map(Step::Crash),
    ]
}

/// What state should be, and what it may be again after a crash.
#[derive(Clone, Default)]
struct Model {
    pairs: [Pairs; 3],
    epochs: [u64; 3],
}

struct World {
    rig: Rig,
    /// The last is how it is; the first is what was acknowledged.
    possible: Vec<Model>,
    values: u64,
}

impl World {
    fn now(&self) -> &Model {
        self.possible.last().unwrap()
    }

    fn acknowledged(&mut self) {
        self.possible.drain(..self.possible.len() - 1);
    }

    async fn step(mut self, step: &Step) -> Self {
        match step {
            Step::Commit {
                bucket,
                writes,
                acknowledged,
            } => self.commit(*bucket, writes, *acknowledged).await,
            Step::TakeOver(bucket) => {
                let (epoch, _) = self.rig.raise(BUCKETS[*bucket]);
                let mut next = self.now().clone();
                next.epochs[*bucket] += 1;
                assert_eq!(epoch, next.epochs[*bucket]);
                self.possible.push(next);
            }
            Step::Move => {
                let memory = &self.rig.broker.shared.state;
                // After a move that failed for good, nothing moves until the next start.
                let is_done = || memory.excess_bytes() == 0 || !memory.store_works();
                until("state is on disk", is_done).await;
            }
            Step::FailMove(fault) => self.rig.fail_next_move(*fault),
            Step::Clean => self.rig.clean(3).await,
            Step::Crash(loss) => {
                self.rig = self.rig.crash(*loss);
                let found = self.read();
                let is_possible = |model: &Model| model.pairs == found;
                let kept = self.possible.iter().rposition(is_possible);
                let kept = kept.expect("after a crash, state is as some commit left it");
                // With the same pairs, which owner is the last is known only by asking.
                let mut model = self.possible[kept].clone();
                for (bucket, epoch) in BUCKETS.iter().zip(&mut model.epochs) {
                    let (raised, stored) = self.rig.raise(bucket);
                    // What follows counts on it.
                    self.rig.durable(stored).await;
                    let oldest =
                        self.possible[0].epochs[BUCKETS.iter().position(|b| b == bucket).unwrap()];
                    assert!(raised > oldest, "an epoch came again");
                    *epoch = raised;
                }
                self.possible = vec![model];
            }
        }
        self
    }

    async fn commit(&mut self, bucket: usize, writes: &[(u8, Option<u16>)], acknowledged: bool) {
        let mut next = self.now().clone();
        let mut changes = Vec::new();
        for (key, length) in writes {
            let key = format!("key {key}").into_bytes();
            self.values += 1;
            match length {
                Some(length) => {
                    let mut value = self.values.to_le_bytes().to_vec();
                    value.resize(usize::from(*length).max(8), 0);
                    changes.push(set(&key, &value));
                    next.pairs[bucket].insert(key, value);
                }
                None => {
                    changes.push(remove(&key));
                    next.pairs[bucket].remove(&key);
                }
            }
        }
        let epoch = next.epochs[bucket];
        let stored = self.rig.commit(BUCKETS[bucket], epoch, changes).await;
        self.possible.push(next);
        if acknowledged {
            self.rig.durable(stored).await;
            self.acknowledged();
        }
    }

    fn read(&self) -> [Pairs; 3] {
        BUCKETS.map(|bucket| {
            let pairs = self.rig.pairs(bucket, 7).into_iter();
            pairs
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect()
        })
    }

    fn check(&self) {
        assert!(self.read() == self.now().pairs, "a scan differs");
        for (bucket, pairs) in BUCKETS.iter().zip(&self.now().pairs) {
            for key in 0..KEYS {
                let key = format!("key {key}").into_bytes();
                let value = self.rig.get(bucket, &key).map(|value| value.to_vec());
                assert!(value.as_ref() == pairs.get(&key), "a value differs");
            }
            let bytes: usize = pairs
                .iter()
                .map(|(key, value)| key.len() + value.len() + 128)
                .sum();
            let found = self.rig.broker.find_bucket(&name(bucket));
            let counted = found.map_or((0, 0), |bucket| bucket.lock().totals());
            assert_eq!(counted, (bytes, pairs.len() as u64), "it is counted wrong");
        }
    }
}

async fn run(steps: &[Step]) {
    let mut world = World {
        rig: Rig::new(settings(6_000)),
        possible: vec![Model::default()],
        values: 0,
    };
    for step in steps {
        world = world.step(step).await;
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn state_is_what_commits_made_of_it(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&steps));
    }
}

/// A key that was moved to disk and removed there must not come back from an older record of the journal, nor from the
/// store while the removal is only in the journal.
#[tokio::test]
async fn what_was_removed_stays_removed() {
    for faults in [None, Some(Fault::Before), Some(Fault::After)] {
        let mut rig = Rig::new(settings(4_000));
        let filling = |round: u8| {
            (0..20)
                .map(move |key| set(&[b'f', round, key], &[0; 200]))
                .collect()
        };
        rig.commit("b", 0, vec![set(b"k", b"old")]).await;
        rig.commit("b", 0, filling(0)).await;
        rig.until_moved().await;
        assert!(rig.generation() > 0, "nothing was moved");
        rig = rig.crash(Loss::Nothing);
        assert_eq!(rig.get("b", b"k").unwrap(), "old");
        let stored = rig.commit("b", 0, vec![remove(b"k")]).await;
        rig.durable(stored).await;
        assert_eq!(rig.get("b", b"k"), None);
        rig = rig.crash(Loss::Unsynced);
        assert_eq!(rig.get("b", b"k"), None, "only the journal knew");
        if let Some(fault) = faults {
            rig.fail_next_move(fault);
        }
        let stored = rig.commit("b", 0, filling(1)).await;
        rig.durable(stored).await;
        match faults {
            Some(_) => until("the move failed", || rig.fault_is_over()).await,
            None => rig.until_moved().await,
        }
        assert_eq!(rig.get("b", b"k"), None);
        for loss in [Loss::Unsynced, Loss::Nothing] {
            rig = rig.crash(loss);
            assert_eq!(rig.get("b", b"k"), None, "after {faults:?}");
            rig.clean(4).await;
            assert_eq!(rig.pairs("b", 100).len(), 40);
        }
    }
}
