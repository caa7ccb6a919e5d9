//! The keys and values of one scope in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

/// Up to so many pairs are kept in a list of just their size. Most workers have a few, and there may
/// be very many workers.
const FEW_MAX: usize = 8;

/// Keys in order, and their values.
#[derive(Debug)]
pub(crate) enum Pairs {
    Few(Vec<(Bytes, Bytes)>),
    Many(BTreeMap<Bytes, Bytes>),
}

impl Default for Pairs {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Pairs {
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        match self {
            Self::Few(pairs) => {
                let index = position(pairs, key).ok()?;
                Some(&pairs[index].1)
            }
            Self::Many(pairs) => pairs.get(key),
        }
    }

    pub fn set(&mut self, key: Bytes, value: Bytes) {
        if let Self::Few(pairs) = self {
            match position(pairs, &key) {
                Ok(index) => {
                    pairs[index].1 = value;
                    return;
                }
                Err(index) if pairs.len() < FEW_MAX => {
                    pairs.reserve_exact(1);
                    pairs.insert(index, (key, value));
                    return;
                }
                Err(_) => *self = Self::Many(std::mem::take(pairs).into_iter().collect()),
            }
        }
        if let Self::Many(pairs) = self {
            pairs.insert(key, value);
        }
    }

    pub fn remove(&mut self, key: &[u8]) {
        match self {
            Self::Few(pairs) => {
                if let Ok(index) = position(pairs, key) {
                    pairs.remove(index);
                }
            }
            Self::Many(pairs) => {
                pairs.remove(key);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Few(pairs) => pairs.is_empty(),
            Self::Many(pairs) => pairs.is_empty(),
        }
    }

    /// Up to so many pairs in order whose keys begin with `prefix`, from the first after `after`.
    pub fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Vec<(Bytes, Bytes)> {
        let is_past = |key: &Bytes| match after {
            Some(after) => key > after,
            None => key >= prefix,
        };
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let fits = |key: &Bytes| key.starts_with(prefix);
        let copy = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        match self {
            Self::Few(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key, value));
                let pairs = pairs.filter(|(key, _)| is_past(key) && fits(key));
                pairs.take(pairs_max).map(copy).collect()
            }
            Self::Many(pairs) => {
                let pairs = pairs.range::<[u8], _>((from, Bound::Unbounded));
                let pairs = pairs.take_while(|(key, _)| fits(key));
                pairs.take(pairs_max).map(copy).collect()
            }
        }
    }
}

fn position(pairs: &[(Bytes, Bytes)], key: &[u8]) -> Result<usize, usize> {
    pairs.binary_search_by(|(other, _)| other.as_ref().cmp(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Set(Vec<u8>, u8),
        Remove(Vec<u8>),
        Scan(Vec<u8>, Option<Vec<u8>>, usize),
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..3, 0..4)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Set(key, value)),
            1 => key().prop_map(Step::Remove),
            1 => (key(), prop::option::of(key()), 0usize..5).prop_map(|(p, a, n)| Step::Scan(p, a, n)),
        ]
    }

    proptest! {
        #[test]
        fn few_and_many_are_the_same_to_whoever_reads(steps in prop::collection::vec(step(), 0..60)) {
            let mut pairs = Pairs::default();
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(key, value) => {
                        pairs.set(key.clone().into(), vec![value].into());
                        model.insert(key, vec![value]);
                    }
                    Step::Remove(key) => {
                        pairs.remove(&key);
                        model.remove(&key);
                    }
                    Step::Scan(prefix, after, max) => {
                        let found = pairs.scan(&prefix, after.as_deref(), max);
                        let fits = |(key, _): &(&Vec<u8>, &Vec<u8>)| {
                            let is_past = after.as_ref().is_none_or(|after| *key > after);
                            key.starts_with(&prefix) && is_past
                        };
                        // What is asked for goes on where it ended before, within the prefix.
                        if after.as_ref().is_none_or(|after| after.starts_with(&prefix)) {
                            let expected: Vec<(Bytes, Bytes)> = model
                                .iter()
                                .filter(fits)
                                .take(max)
                                .map(|(key, value)| (key.clone().into(), value.clone().into()))
                                .collect();
                            prop_assert_eq!(found, expected);
                        }
                    }
                }
                prop_assert_eq!(pairs.is_empty(), model.is_empty());
                for (key, value) in &model {
                    prop_assert_eq!(pairs.get(key).map(|v| v.to_vec()), Some(value.clone()));
                }
            }
        }
    }
}
