//! Answers of bounded size about streams without bound: exact while there is little, close to it beyond.

use serde::{Deserialize, Serialize};

/// So many different values are counted exactly; more are estimated, to within some 3 %.
pub(crate) const DISTINCT_EXACT_MAX: usize = 1_024;

/// Counts different values: keeps the smallest hashes, whose density tells how many there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Distinct(Vec<u64>);

impl Distinct {
    pub fn add(&mut self, value: &str) {
        self.add_hash(xxhash_rust::xxh3::xxh3_64(value.as_bytes()));
    }

    fn add_hash(&mut self, hash: u64) {
        let Err(at) = self.0.binary_search(&hash) else {
            return;
        };
        if at < DISTINCT_EXACT_MAX {
            self.0.insert(at, hash);
            self.0.truncate(DISTINCT_EXACT_MAX);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|hash| self.add_hash(*hash));
    }

    pub fn count(&self) -> u64 {
        let kept = self.0.len();
        match self.0.last() {
            Some(&largest) if kept == DISTINCT_EXACT_MAX => {
                let share = largest as f64 / u64::MAX as f64;
                ((kept - 1) as f64 / share) as u64
            }
            _ => kept as u64,
        }
    }
}

/// Finds the most frequent values: with more different ones than it has room for, the rarest gives its place, and
/// its count, to the newcomer. So counts are never too small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Frequent(Vec<(String, u64)>);

impl Frequent {
    /// Counts a value, with room for so many.
    pub fn add(&mut self, value: &str, times: u64, room: usize) {
        if let Some(known) = self.0.iter_mut().find(|(known, _)| known == value) {
            known.1 += times;
        } else if self.0.len() < room {
            self.0.push((value.to_owned(), times));
        } else if let Some(rarest) = self.0.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (value.to_owned(), rarest.1 + times);
        }
    }

    pub fn merge(&mut self, other: &Self, room: usize) {
        for (value, count) in &other.0 {
            self.add(value, *count, room);
        }
    }

    /// The most frequent ones first; of equal ones, by name.
    pub fn top(&self, k: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self
            .0
            .iter()
            .map(|(value, count)| (value.as_str(), *count))
            .collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(k);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_different_values_are_counted_exactly_and_many_closely() {
        for (values, tolerance) in [(0_u64, 0), (1, 0), (1_000, 0), (20_000, 2_000)] {
            let (mut whole, mut left, mut right) = (
                Distinct::default(),
                Distinct::default(),
                Distinct::default(),
            );
            for round in 0..3 {
                for value in 0..values {
                    let text = value.to_string();
                    whole.add(&text);
                    if (value + round) % 2 == 0 {
                        left.add(&text)
                    } else {
                        right.add(&text)
                    }
                }
            }
            assert!(
                whole.count().abs_diff(values) <= tolerance,
                "{values}: {}",
                whole.count()
            );
            left.merge(&right);
            assert_eq!(left, whole, "halves together know what the whole knows");
        }
    }

    #[test]
    fn the_most_frequent_are_found_with_little_room() {
        let mut frequent = Frequent::default();
        for round in 0..1_000_u64 {
            frequent.add("often", 1, 20);
            frequent.add(&format!("rare-{round}"), 1, 20);
            if round % 2 == 0 {
                frequent.add("sometimes", 1, 20);
            }
        }
        let top = frequent.top(2);
        assert_eq!((top[0].0, top[1].0), ("often", "sometimes"));
        assert!(top[0].1 >= 1_000 && frequent.0.len() == 20);
    }
}
