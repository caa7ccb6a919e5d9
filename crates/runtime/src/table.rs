//! Which worker owns which bucket of a keyed stage.

use serde::{Deserialize, Serialize};

use crate::deal::Deal;
use crate::key::BUCKETS;

/// Which worker owns which bucket. Shares differ by one bucket at most.
///
/// More than 128 workers cannot share 128 buckets, so those beyond own none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Table {
    /// Numbers the tables of a stage, one after another.
    pub version: u64,
    /// The worker of each bucket.
    pub owners: [u32; BUCKETS as usize],
}

/// Why a stored table was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a table of owners has {BUCKETS} entries, this one has {entries}")]
pub struct TableError {
    entries: usize,
}

impl Table {
    /// The first table of a stage with that many workers (zero counts as one).
    pub fn new(workers: u32) -> Self {
        Self {
            version: 1,
            owners: dealt(Deal::new(BUCKETS, workers)),
        }
    }

    /// The next table, for that many workers: as many buckets as possible stay where they are.
    #[must_use]
    pub fn resized(&self, workers: u32) -> Self {
        let mut deal = Deal::new(BUCKETS, workers);
        deal.keep(&self.owners, score);
        Self {
            version: self.version + 1,
            owners: dealt(deal),
        }
    }

    /// The worker that owns this bucket.
    pub fn owner(&self, bucket: u32) -> u32 {
        self.owners[bucket as usize]
    }

    /// The buckets that this worker owns.
    pub fn buckets_of(&self, worker: u32) -> impl Iterator<Item = u32> {
        (0..BUCKETS).filter(move |bucket| self.owner(*bucket) == worker)
    }

    /// The buckets that have another owner in `other`.
    #[cfg(test)]
    pub fn moved(&self, other: &Self) -> Vec<u32> {
        let differs = |bucket: &u32| self.owner(*bucket) != other.owner(*bucket);
        (0..BUCKETS).filter(differs).collect()
    }
}

fn dealt(deal: Deal) -> [u32; BUCKETS as usize] {
    let owners = deal.finish(score).try_into();
    owners.expect("there is an owner for each bucket")
}

/// How well a bucket and a worker go together (rendezvous hashing).
fn score(bucket: u32, worker: u32) -> u64 {
    let pair = u64::from(bucket) << 32 | u64::from(worker);
    xxhash_rust::xxh3::xxh3_64(&pair.to_le_bytes())
}

/// A table as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u64,
    owners: Vec<u32>,
}

impl From<Table> for Stored {
    fn from(table: Table) -> Self {
        Self {
            version: table.version,
            owners: table.owners.to_vec(),
        }
    }
}

impl TryFrom<Stored> for Table {
    type Error = TableError;

    fn try_from(stored: Stored) -> Result<Self, TableError> {
        let entries = stored.owners.len();
        let owners = stored.owners.try_into();
        Ok(Self {
            version: stored.version,
            owners: owners.map_err(|_| TableError { entries })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(table: &Table, workers: u32) -> Vec<u32> {
        let share = |worker| table.buckets_of(worker).count() as u32;
        (0..workers.clamp(1, BUCKETS)).map(share).collect()
    }

    fn assert_within_one(table: &Table, workers: u32) {
        let shares = shares(table, workers);
        assert_eq!(shares.iter().sum::<u32>(), BUCKETS, "all are owned");
        let least = shares.iter().min().unwrap();
        let most = shares.iter().max().unwrap();
        assert!(most - least <= 1, "{workers} workers: {shares:?}");
    }

    /// The most buckets that can stay when every share becomes `share` or one more.
    fn keepable(table: &Table, from: u32, to: u32) -> u32 {
        let to = to.clamp(1, BUCKETS);
        let (share, extras) = (BUCKETS / to, BUCKETS % to);
        let stay = shares(table, from).into_iter().take(to as usize);
        let (kept, larger) = stay.fold((0, 0), |(kept, larger), owned| {
            (kept + owned.min(share), larger + u32::from(owned > share))
        });
        kept + larger.min(extras)
    }

    #[test]
    fn the_first_table_never_changes() {
        // Nodes of different versions must agree, so what is dealt is pinned.
        let first = [0, 0, 2, 0, 0, 2, 2, 1, 2, 0, 1, 2, 2, 2, 0, 2];
        assert_eq!(Table::new(3).owners[..16], first);
        assert_eq!(Table::new(1).owners, [0; 128]);
        assert_eq!(Table::new(0), Table::new(1));
        assert_eq!(Table::new(5_000), Table::new(128));
    }

    #[test]
    fn tables_are_stored_and_damaged_ones_refused() {
        let table = Table::new(7);
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table);
        let short = r#"{"version":1,"owners":[0,1]}"#;
        let error = serde_json::from_str::<Table>(short).unwrap_err();
        assert!(error.to_string().contains("this one has 2"), "{error}");
    }

    #[test]
    fn one_worker_more_takes_only_its_share() {
        let mut table = Table::new(1);
        for workers in 2..=BUCKETS {
            let next = table.resized(workers);
            let moved = table.moved(&next);
            assert!(moved.len() as u32 <= BUCKETS.div_ceil(workers));
            assert!(moved.iter().all(|b| next.owner(*b) == workers - 1));
            assert_eq!(next.version, table.version + 1);
            table = next;
        }
    }

    #[test]
    fn a_table_dealt_anew_is_near_the_old_one_too() {
        // The control: dealing by number instead of by score moves nearly everything.
        let by_number = |workers| (0..BUCKETS).map(move |bucket| bucket % workers);
        let anew = Table::new(8).moved(&Table::new(9)).len();
        let moved = by_number(8).zip(by_number(9)).filter(|(a, b)| a != b);
        assert!(anew < 50, "{anew} moved");
        assert!(moved.count() > 100);
    }

    proptest! {
        #[test]
        fn shares_differ_by_one_at_most(workers in 0_u32..300) {
            assert_within_one(&Table::new(workers), workers);
        }

        #[test]
        fn as_many_as_possible_stay(sizes in proptest::collection::vec(1_u32..200, 1..6)) {
            let mut workers = sizes[0];
            let mut table = Table::new(workers);
            for next_workers in sizes {
                let next = table.resized(next_workers);
                assert_within_one(&next, next_workers);
                let kept = BUCKETS - table.moved(&next).len() as u32;
                prop_assert_eq!(kept, keepable(&table, workers, next_workers));
                (table, workers) = (next, next_workers);
            }
        }
    }
}
