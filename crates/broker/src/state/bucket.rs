//! One bucket: its owner's epoch, what of its state is in memory, and the way to what is on disk.
//!
//! Three layers lie one above the other, and the uppermost that knows a key decides: recent changes; those on their way
//! to disk, if there are any; the store. A removal is kept as a change as long as something of the key lies below.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::Name;

use super::StateWrite;
use super::cold::{COLD_KEY_BYTES_MAX, ColdStore, Moved, Moving, StateError};
use super::layer::{Change, Layer, pair_bytes};
use super::scan::Scan;
use crate::shared::Shared;

/// Something of the bucket lies in this store, or is on its way there.
struct Cold {
    store: Arc<dyn ColdStore>,
    bucket: Name,
    /// Every change up to there is in it.
    through: Position,
}

/// The state of one bucket and the epoch of its owner.
#[derive(Default)]
pub(crate) struct Bucket {
    pub epoch: u64,
    epoch_stored: Option<Position>,
    recent: Layer,
    moving: Option<Arc<Layer>>,
    cold: Option<Cold>,
    /// What all its pairs count for, wherever they are.
    bytes: usize,
    pairs: u64,
    has_long_keys: bool,
    /// Its changes keep an old segment of the journal.
    is_wanted_on_disk: bool,
}

/// What some writes would make of a bucket.
pub(crate) struct Plan {
    /// What all its pairs would count for.
    pub bytes: usize,
    pairs: u64,
    /// For each write: whether it has to be kept as a removal.
    removals: Vec<bool>,
    /// How many changes must not be forgotten.
    pub keepers: u32,
}

/// What memory knows of a key.
pub(crate) enum Looked {
    /// All of it.
    Here(Option<Bytes>),
    /// The store knows.
    Below(Arc<dyn ColdStore>),
}

impl Bucket {
    /// A bucket of which a store has this.
    pub fn in_store(store: Arc<dyn ColdStore>, name: &Name, moved: Moved) -> Self {
        Self {
            bytes: moved.bytes as usize,
            pairs: moved.pairs,
            cold: Some(Cold {
                store,
                bucket: name.clone(),
                through: moved.through,
            }),
            ..Self::default()
        }
    }

    /// What it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.recent.bytes() + self.moving.as_ref().map_or(0, |layer| layer.bytes())
    }

    /// What of it could be moved to disk.
    pub fn movable_bytes(&self) -> usize {
        match self.moving.is_some() || self.has_long_keys {
            true => 0,
            false => self.recent.bytes(),
        }
    }

    /// What all its pairs count for, and how many there are.
    #[cfg(test)]
    pub fn totals(&self) -> (usize, u64) {
        (self.bytes, self.pairs)
    }

    pub fn is_wanted_on_disk(&self) -> bool {
        self.is_wanted_on_disk
    }

    /// The value of a key, as far as memory knows it.
    pub fn look(&self, key: &[u8]) -> Looked {
        match (self.in_memory(key), &self.cold) {
            (Some(change), _) => Looked::Here(change.value.clone()),
            (None, Some(cold)) => Looked::Below(cold.store.clone()),
            (None, None) => Looked::Here(None),
        }
    }

    fn in_memory(&self, key: &[u8]) -> Option<&Change> {
        let moving = || self.moving.as_ref()?.get(key);
        self.recent.get(key).or_else(moving)
    }

    /// Pairs from there on, in order. The lock is not needed to read them.
    pub fn scan(&self, start: Bound<&[u8]>, pairs_max: usize) -> Scan {
        let near = match &self.moving {
            None => Scan::near(self.recent.range(start), std::iter::empty(), pairs_max),
            Some(moving) => Scan::near(self.recent.range(start), moving.range(start), pairs_max),
        };
        let cold = self.cold.as_ref();
        let far = cold.map(|cold| cold.store.pairs(&cold.bucket, start));
        Scan::new(near, far, pairs_max)
    }

    /// Pairs of a bucket that never leaves memory, each with where it stands in the journal.
    pub fn range(&self, start: Bound<&[u8]>) -> impl Iterator<Item = (&Bytes, &Bytes, Position)> {
        let changes = self.recent.range(start);
        changes.filter_map(|(key, change)| Some((key, change.value.as_ref()?, change.stored)))
    }

    /// What the value of a key counts for, wherever it is.
    fn pair_bytes(&self, key: &[u8]) -> Result<usize, StateError> {
        let bytes = match (self.in_memory(key), &self.cold) {
            (Some(change), _) => change.value.as_ref().map(Bytes::len),
            (None, Some(cold)) => cold.store.value_bytes(&cold.bucket, key)?,
            (None, None) => None,
        };
        Ok(bytes.map_or(0, |bytes| pair_bytes(key, bytes)))
    }

    /// Whether a layer below the recent changes has a value for a key.
    fn lies_below(&self, key: &[u8]) -> Result<bool, StateError> {
        let moving = self.moving.as_ref().and_then(|layer| layer.get(key));
        match (moving, &self.cold) {
            (Some(change), _) => Ok(change.value.is_some()),
            (None, Some(cold)) => Ok(cold.store.value_bytes(&cold.bucket, key)?.is_some()),
            (None, None) => Ok(false),
        }
    }

    /// What these writes would make of it. May read from disk.
    pub fn plan(&self, writes: &[StateWrite]) -> Result<Plan, StateError> {
        let mut changed: HashMap<&[u8], usize> = HashMap::new();
        let mut plan = Plan {
            bytes: self.bytes,
            pairs: self.pairs,
            removals: Vec::with_capacity(writes.len()),
            keepers: 0,
        };
        for write in writes {
            let key = write.key();
            let after = write
                .value()
                .map_or(0, |value| pair_bytes(key, value.len()));
            let earlier = changed.insert(key, after);
            let before = match earlier {
                Some(before) => before,
                None => self.pair_bytes(key)?,
            };
            plan.bytes = plan.bytes + after - before;
            plan.pairs = plan.pairs + u64::from(after > 0) - u64::from(before > 0);
            let is_kept_removal = after == 0
                && match earlier.is_none() && self.in_memory(key).is_none() {
                    true => before > 0,
                    false => self.lies_below(key)?,
                };
            plan.removals.push(is_kept_removal);
            plan.keepers += u32::from(after > 0 || is_kept_removal);
        }
        Ok(plan)
    }

    /// Makes the changes of a plan, which stand in the journal at `stored`; `release` gets the positions that
    /// are no longer needed.
    pub fn apply(
        &mut self,
        writes: &[StateWrite],
        plan: &Plan,
        stored: Position,
        mut release: impl FnMut(Position),
    ) {
        for (write, is_kept_removal) in writes.iter().zip(&plan.removals) {
            if let Some(unneeded) = self.change(write, *is_kept_removal, stored) {
                release(unneeded);
            }
        }
        self.bytes = plan.bytes;
        self.pairs = plan.pairs;
    }

    fn change(
        &mut self,
        write: &StateWrite,
        is_kept_removal: bool,
        stored: Position,
    ) -> Option<Position> {
        let key = write.key();
        self.has_long_keys |= key.len() > COLD_KEY_BYTES_MAX;
        let value = write.value().cloned();
        if value.is_none() && !is_kept_removal {
            return self.recent.remove(key, stored);
        }
        self.recent.put(key, Change { value, stored })
    }

    /// Makes a change that was read back from the journal, unless the store has it.
    pub fn replay(&mut self, write: &StateWrite, stored: Position) -> Result<(), StateError> {
        if matches!(&self.cold, Some(cold) if stored <= cold.through) {
            return Ok(());
        }
        let writes = std::slice::from_ref(write);
        let plan = self.plan(writes)?;
        self.apply(writes, &plan, stored, |_| {});
        Ok(())
    }

    /// Up to where the journal must reach, or it is not the one that the store belongs to.
    pub fn moved_through(&self) -> Position {
        self.cold
            .as_ref()
            .map_or(Position::ZERO, |cold| cold.through)
    }

    /// Takes over a new epoch that stands in the journal at `stored`.
    pub fn set_epoch(&mut self, epoch: u64, stored: Position) -> Option<Position> {
        self.epoch = epoch;
        self.epoch_stored.replace(stored)
    }

    /// Every position that this bucket needs.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let moving = self.moving.iter().flat_map(|layer| layer.positions());
        let changes = self.recent.positions().chain(moving);
        changes.chain(self.epoch_stored)
    }

    /// From now on the recent changes are on their way to disk, and others come above them.
    pub fn start_moving(&mut self, name: &Name, store: &Arc<dyn ColdStore>) -> Option<Moving> {
        self.is_wanted_on_disk = false;
        if self.movable_bytes() == 0 {
            return None;
        }
        let layer = Arc::new(std::mem::take(&mut self.recent));
        self.moving = Some(layer.clone());
        // Removals have to be kept from now on, though the store may have nothing yet.
        self.cold.get_or_insert_with(|| Cold {
            store: store.clone(),
            bucket: name.clone(),
            through: Position::ZERO,
        });
        let after = Moved {
            through: layer.through(),
            pairs: self.pairs,
            bytes: self.bytes as u64,
        };
        Some(Moving {
            bucket: name.clone(),
            layer,
            after,
        })
    }

    /// What was on its way is in the store.
    pub fn has_moved(&mut self, after: Moved) {
        self.moving = None;
        match &mut self.cold {
            Some(_) if after.pairs == 0 => self.cold = None,
            Some(cold) => cold.through = after.through,
            None => {}
        }
    }

    /// What was on its way stays in memory. Gives the positions that are no longer needed.
    pub fn stays(&mut self) -> Vec<Position> {
        match self.moving.take() {
            Some(layer) => self.recent.put_below(&layer),
            None => Vec::new(),
        }
    }

    /// Frees an old segment as far as the journal takes it: what stands there is written again, or, if the
    /// bucket has a part on disk and `to_disk` says that the store works, marked to go there.
    pub fn move_out_of(
        &mut self,
        name: &Name,
        segment: u32,
        to_disk: bool,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        if to_disk && self.cold.is_some() && !self.has_long_keys {
            self.is_wanted_on_disk = self.recent.may_need(segment);
        } else {
            self.write_again(name, segment, shared)?;
        }
        if let Some(old) = self.epoch_stored.filter(|p| p.segment() == segment) {
            let moved = shared.append(64, 1, |writer| writer.epoch(name, self.epoch))?;
            shared.journal.release(old, 1);
            self.epoch_stored = Some(moved);
        }
        Ok(())
    }

    fn write_again(
        &mut self,
        name: &Name,
        segment: u32,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        self.recent.write_again(segment, |key, change| {
            if !shared.journal.is_ready() {
                return Err(AppendError::NotReady);
            }
            let value_bytes = change.value.as_ref().map_or(0, Bytes::len);
            let hint = 32 + name.as_str().len() + key.len() + value_bytes;
            let moved = shared.append(hint, 1, |writer| match &change.value {
                Some(value) => writer.state_set(name, key, value),
                None => writer.state_remove(name, key),
            })?;
            shared.journal.release(change.stored, 1);
            Ok(moved)
        })
    }
}
