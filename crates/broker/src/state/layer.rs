//! A part of a bucket that is in memory: the last change of each key that it knows.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use journal::Position;

/// What one key takes beside key and value.
pub(super) const VALUE_OVERHEAD_BYTES: usize = 128;

/// What a pair takes.
pub(super) fn pair_bytes(key: &[u8], value_bytes: usize) -> usize {
    key.len() + value_bytes + VALUE_OVERHEAD_BYTES
}

/// The last change of a key.
#[derive(Debug)]
pub(super) struct Change {
    /// `None` if the key was removed and something older of it lies below.
    pub value: Option<Bytes>,
    pub stored: Position,
}

impl Change {
    fn bytes(&self, key: &[u8]) -> usize {
        pair_bytes(key, self.value.as_ref().map_or(0, Bytes::len))
    }
}

/// Changes by key.
#[derive(Debug)]
pub(crate) struct Layer {
    changes: BTreeMap<Bytes, Change>,
    bytes: usize,
    through: Position,
    oldest_segment: u32,
}

impl Default for Layer {
    fn default() -> Self {
        Self {
            changes: BTreeMap::new(),
            bytes: 0,
            through: Position::ZERO,
            oldest_segment: u32::MAX,
        }
    }
}

impl Layer {
    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Where the last change stands that this layer took in.
    pub fn through(&self) -> Position {
        self.through
    }

    /// Whether something in it may stand in that segment or in an older one.
    pub fn may_need(&self, segment: u32) -> bool {
        !self.is_empty() && self.oldest_segment <= segment
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Change> {
        self.changes.get(key)
    }

    pub(super) fn range(&self, start: Bound<&[u8]>) -> impl Iterator<Item = (&Bytes, &Change)> {
        self.changes.range::<[u8], _>((start, Bound::Unbounded))
    }

    /// All changes by key, those that removed something without a value.
    pub fn changes(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        let changes = self.changes.iter();
        changes.map(|(key, change)| (key, change.value.as_ref()))
    }

    /// Every position that it needs.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        self.changes.values().map(|change| change.stored)
    }

    /// Takes in a change; gives the position that is no longer needed.
    pub(super) fn put(&mut self, key: &Bytes, change: Change) -> Option<Position> {
        self.noted(change.stored);
        self.oldest_segment = self.oldest_segment.min(change.stored.segment());
        self.bytes += change.bytes(key);
        let old = self.changes.insert(key.clone(), change)?;
        self.bytes -= old.bytes(key);
        Some(old.stored)
    }

    /// Forgets a key of which nothing lies below.
    pub(super) fn remove(&mut self, key: &[u8], stored: Position) -> Option<Position> {
        self.noted(stored);
        let old = self.changes.remove(key)?;
        self.bytes -= old.bytes(key);
        Some(old.stored)
    }

    /// Everything up to there was taken in.
    fn noted(&mut self, stored: Position) {
        self.through = self.through.max(stored);
    }

    /// Has everything that stands in a segment written again elsewhere, by `write`, which gives the new place.
    pub(super) fn write_again<E>(
        &mut self,
        segment: u32,
        mut write: impl FnMut(&Bytes, &Change) -> Result<Position, E>,
    ) -> Result<(), E> {
        for (key, change) in &mut self.changes {
            if change.stored.segment() == segment {
                change.stored = write(key, change)?;
                self.through = self.through.max(change.stored);
            }
        }
        if self.oldest_segment == segment {
            self.oldest_segment += 1;
        }
        Ok(())
    }

    /// Puts changes below these ones; gives the positions that are no longer needed.
    pub(super) fn put_below(&mut self, older: &Layer) -> Vec<Position> {
        let mut unneeded = Vec::new();
        for (key, change) in &older.changes {
            if self.changes.contains_key(key) {
                unneeded.push(change.stored);
            } else {
                let (value, stored) = (change.value.clone(), change.stored);
                self.put(key, Change { value, stored });
            }
        }
        self.noted(older.through);
        unneeded
    }
}
