//! Pairs of a bucket in order, from memory and disk together.

use std::cmp::Ordering;
use std::iter::Peekable;

use bytes::Bytes;

use super::cold::{Pairs, StateError};
use super::layer::Change;

/// A key with its value, or without one if it was removed.
type Near = (Bytes, Option<Bytes>);

/// What a scan found in memory, and the way to what is on disk.
pub(crate) struct Scan {
    near: Vec<Near>,
    far: Option<Pairs>,
    pairs_max: usize,
}

impl Scan {
    pub(super) fn new(near: Vec<Near>, far: Option<Pairs>, pairs_max: usize) -> Self {
        Self {
            near,
            far,
            pairs_max,
        }
    }

    /// What memory knows, the upper layer first, until there are enough values: nothing from disk can be
    /// wanted beyond the last of them.
    pub(super) fn near<'a>(
        upper: impl Iterator<Item = (&'a Bytes, &'a Change)>,
        lower: impl Iterator<Item = (&'a Bytes, &'a Change)>,
        pairs_max: usize,
    ) -> Vec<Near> {
        let (mut upper, mut lower) = (upper.peekable(), lower.peekable());
        let mut near = Vec::new();
        let mut values = 0;
        while values < pairs_max
            && let Some((key, change)) = next_of(&mut upper, &mut lower)
        {
            values += usize::from(change.value.is_some());
            near.push((key.clone(), change.value.clone()));
        }
        near
    }

    /// The pairs. Reads from disk.
    pub fn collect(self) -> Result<Vec<(Bytes, Bytes)>, StateError> {
        let with_value = |(key, value): Near| Some((key, value?));
        let Some(far) = self.far else {
            return Ok(self.near.into_iter().filter_map(with_value).collect());
        };
        let mut near = self.near.into_iter().peekable();
        let mut far = far.peekable();
        let mut pairs = Vec::new();
        while pairs.len() < self.pairs_max {
            let order = match (near.peek(), far.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (_, Some(Err(error))) => return Err(error.clone()),
                (None, Some(Ok(_))) => Ordering::Greater,
                (Some((near, _)), Some(Ok((far, _)))) => near.cmp(far),
            };
            if order == Ordering::Greater {
                pairs.extend(far.next().transpose()?);
                continue;
            }
            if order == Ordering::Equal {
                far.next();
            }
            pairs.extend(near.next().and_then(with_value));
        }
        Ok(pairs)
    }
}

/// The next key of two layers; if both know it, the upper one decides.
fn next_of<'a, T>(
    upper: &mut Peekable<impl Iterator<Item = (&'a Bytes, T)>>,
    lower: &mut Peekable<impl Iterator<Item = (&'a Bytes, T)>>,
) -> Option<(&'a Bytes, T)> {
    let order = match (upper.peek(), lower.peek()) {
        (Some((upper, _)), Some((lower, _))) => upper.cmp(lower),
        (Some(_), None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    };
    if order == Ordering::Greater {
        return lower.next();
    }
    if order == Ordering::Equal {
        lower.next();
    }
    upper.next()
}
