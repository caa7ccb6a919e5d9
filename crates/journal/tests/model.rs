//! Any sequence of calls against a simple model of what a journal is.

mod common;

use common::{durable, eventually, open};
use hivewire_journal::Position;
use hivewire_journal::testing::{Loss, MemoryStorage};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append { bytes: usize, fill: u8 },
    Sync,
    Release,
    Read { index: usize },
    Shutdown,
    Crash(Loss),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..8192, any::<u8>()).prop_map(|(bytes, fill)| Step::Append { bytes, fill }),
        12 => (0usize..64, any::<u8>()).prop_map(|(bytes, fill)| Step::Append { bytes, fill }),
        3 => Just(Step::Sync),
        8 => Just(Step::Release),
        4 => any::<usize>().prop_map(|index| Step::Read { index }),
        1 => Just(Step::Shutdown),
        1 => prop_oneof![Just(Loss::Torn), Just(Loss::Unsynced), Just(Loss::Nothing)].prop_map(Step::Crash),
    ]
}

struct Model {
    /// Appended and not known to be lost.
    records: Vec<(Position, Vec<u8>)>,
    /// Of these, how many are released, from the front.
    released: usize,
    /// How many are known to be durable.
    durable: usize,
}

impl Model {
    /// Takes over what was found: all that was durable and not released must be there, and nothing that was never
    /// appended.
    fn recover(&mut self, found: Vec<(Position, Vec<u8>)>) {
        let skipped = match found.first() {
            Some(first) => self
                .records
                .iter()
                .position(|record| record == first)
                .expect("an unknown first record"),
            None => self.records.len().min(self.durable),
        };
        assert!(
            skipped <= self.released,
            "{skipped} gone, {} released",
            self.released
        );
        let expected = &self.records[skipped..];
        assert!(found.len() <= expected.len());
        assert_eq!(found, expected[..found.len()]);
        assert!(
            skipped + found.len() >= self.durable,
            "durable records are lost"
        );
        self.released = (self.released - skipped).min(found.len());
        self.durable = found.len();
        self.records = found;
    }
}

fn run(seed: u64, steps: Vec<Step>) {
    let mut storage = MemoryStorage::new(seed);
    let mut journal = open(&storage).unwrap().journal;
    let mut model = Model {
        records: Vec::new(),
        released: 0,
        durable: 0,
    };
    for step in steps {
        match step {
            Step::Append { bytes, fill } => {
                eventually("ready", || journal.is_ready());
                let bytes = vec![fill; bytes];
                let position = journal.append(&[&bytes], 1).unwrap();
                assert!(
                    model
                        .records
                        .last()
                        .is_none_or(|(last, _)| *last < position)
                );
                model.records.push((position, bytes));
            }
            Step::Sync => {
                if let Some((position, _)) = model.records.last() {
                    assert!(durable(&journal, *position).covers(*position));
                    model.durable = model.records.len();
                }
            }
            Step::Release => {
                if let Some((position, _)) = model.records.get(model.released) {
                    journal.release(*position, 1);
                    model.released += 1;
                }
            }
            Step::Read { index } => {
                let kept = &model.records[model.released..];
                if !kept.is_empty() {
                    let (position, bytes) = &kept[index % kept.len()];
                    assert_eq!(journal.read(*position).unwrap(), bytes);
                }
            }
            Step::Shutdown | Step::Crash(_) => {
                if let Step::Crash(loss) = step {
                    storage = storage.restart(loss);
                } else {
                    journal.shutdown().unwrap();
                    model.durable = model.records.len();
                }
                let opened = open(&storage).unwrap();
                let must_be_clean = matches!(step, Step::Shutdown);
                assert!(opened.recovery.clean_shutdown || !must_be_clean);
                model.recover(opened.records);
                journal = opened.journal;
                model.records[model.released..]
                    .iter()
                    .for_each(|(position, _)| journal.keep(*position, 1));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(seed: u64, steps in prop::collection::vec(step(), 1..400)) {
        run(seed, steps);
    }
}

/// The control: a model that believes in one durable record too many must be contradicted.
#[test]
#[should_panic(expected = "durable records are lost")]
fn control_the_model_notices_loss() {
    let mut model = Model {
        records: vec![(Position::new(1, 512), vec![1])],
        released: 0,
        durable: 1,
    };
    model.records.push((Position::new(1, 600), vec![2]));
    model.durable = 2;
    model.recover(vec![(Position::new(1, 512), vec![1])]);
}
