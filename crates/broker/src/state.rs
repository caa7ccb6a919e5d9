//! Key-value state, in buckets. It is derived from the journal: a restart reads it back.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::Name;
use parking_lot::{Mutex, RwLock};

use crate::error::CommitError;
use crate::records::RecordWriter;
use crate::shared::Shared;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateWrite {
    /// The key gets this value.
    Set {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// The key is removed.
    Remove {
        /// The key.
        key: Bytes,
    },
}

/// What one key takes beside key and value.
const VALUE_OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
struct Value {
    bytes: Bytes,
    stored: Position,
}

/// The state of one bucket and the epoch of its owner.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub epoch: u64,
    epoch_stored: Option<Position>,
    values: BTreeMap<Bytes, Value>,
    bytes: usize,
}

impl Bucket {
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.values.get(key).map(|value| value.bytes.clone())
    }

    /// Pairs whose key comes after `after`, in order.
    pub fn scan(&self, after: Option<&[u8]>, pairs_max: usize) -> Vec<(Bytes, Bytes)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.range(start)
            .take(pairs_max)
            .map(|(key, value, _)| (key.clone(), value.clone()))
            .collect()
    }

    /// Pairs from there on, in order, each with where it stands in the journal.
    pub fn range(&self, start: Bound<&[u8]>) -> impl Iterator<Item = (&Bytes, &Bytes, Position)> {
        self.values
            .range::<[u8], _>((start, Bound::Unbounded))
            .map(|(key, value)| (key, &value.bytes, value.stored))
    }

    /// What the bucket would take after these writes.
    pub fn bytes_after(&self, writes: &[StateWrite]) -> usize {
        let mut changed: HashMap<&[u8], usize> = HashMap::new();
        let mut bytes = self.bytes;
        for write in writes {
            let (key, after) = match write {
                StateWrite::Set { key, value } => (key, pair_bytes(key, value)),
                StateWrite::Remove { key } => (key, 0),
            };
            let before = changed.insert(key, after).unwrap_or_else(|| {
                let value = self.values.get(key);
                value.map_or(0, |value| pair_bytes(key, &value.bytes))
            });
            bytes = bytes + after - before;
        }
        bytes
    }

    /// Makes a change that stands in the journal at `stored`; gives the position that is no
    /// longer needed.
    pub fn apply(&mut self, write: &StateWrite, stored: Position) -> Option<Position> {
        match write {
            StateWrite::Set { key, value } => {
                self.bytes += pair_bytes(key, value);
                let value = Value {
                    bytes: value.clone(),
                    stored,
                };
                let old = self.values.insert(key.clone(), value)?;
                self.bytes -= pair_bytes(key, &old.bytes);
                Some(old.stored)
            }
            StateWrite::Remove { key } => {
                let old = self.values.remove(key)?;
                self.bytes -= pair_bytes(key, &old.bytes);
                Some(old.stored)
            }
        }
    }

    /// Takes over a new epoch that stands in the journal at `stored`.
    pub fn set_epoch(&mut self, epoch: u64, stored: Position) -> Option<Position> {
        self.epoch = epoch;
        self.epoch_stored.replace(stored)
    }

    /// Every position that this bucket needs.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let values = self.values.values().map(|value| value.stored);
        values.chain(self.epoch_stored)
    }

    /// Writes what stands in an old segment again, as far as the journal takes it.
    fn move_out_of(
        &mut self,
        name: &Name,
        segment: u32,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        for (key, value) in &mut self.values {
            if value.stored.segment() == segment {
                if !shared.journal.is_ready() {
                    return Err(AppendError::NotReady);
                }
                let hint = 32 + name.as_str().len() + key.len() + value.bytes.len();
                let moved = shared.append(hint, 1, |writer| {
                    writer.state_set(name, key, &value.bytes);
                })?;
                shared.journal.release(value.stored, 1);
                value.stored = moved;
            }
        }
        if let Some(old) = self.epoch_stored.filter(|p| p.segment() == segment) {
            let moved = shared.append(64, 1, |writer| writer.epoch(name, self.epoch))?;
            shared.journal.release(old, 1);
            self.epoch_stored = Some(moved);
        }
        Ok(())
    }
}

fn pair_bytes(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + VALUE_OVERHEAD_BYTES
}

impl StateWrite {
    pub(crate) fn write(&self, bucket: &Name, writer: &mut RecordWriter<'_>) {
        match self {
            Self::Set { key, value } => writer.state_set(bucket, key, value),
            Self::Remove { key } => writer.state_remove(bucket, key),
        }
    }

    pub(crate) fn len_bytes(&self) -> usize {
        match self {
            Self::Set { key, value } => key.len() + value.len(),
            Self::Remove { key } => key.len(),
        }
    }

    pub(crate) fn keepers(&self) -> u32 {
        match self {
            Self::Set { .. } => 1,
            Self::Remove { .. } => 0,
        }
    }
}

/// All buckets.
#[derive(Default)]
pub(crate) struct Buckets(RwLock<HashMap<Name, Arc<Mutex<Bucket>>>>);

impl Buckets {
    pub fn recovered(buckets: HashMap<Name, Bucket>) -> Self {
        let buckets = buckets
            .into_iter()
            .map(|(name, bucket)| (name, Arc::new(Mutex::new(bucket))))
            .collect();
        Self(RwLock::new(buckets))
    }

    pub fn find(&self, name: &Name) -> Option<Arc<Mutex<Bucket>>> {
        self.0.read().get(name).cloned()
    }

    pub fn get_or_make(
        &self,
        name: &Name,
        buckets_max: usize,
    ) -> Result<Arc<Mutex<Bucket>>, CommitError> {
        if let Some(bucket) = self.find(name) {
            return Ok(bucket);
        }
        let mut buckets = self.0.write();
        if buckets.len() >= buckets_max {
            return Err(CommitError::TooManyBuckets { buckets_max });
        }
        Ok(buckets.entry(name.clone()).or_default().clone())
    }

    /// What all buckets take.
    pub fn bytes(&self) -> u64 {
        let buckets = self.0.read();
        buckets.values().map(|b| b.lock().bytes as u64).sum()
    }

    pub fn move_out_of(&self, segment: u32, shared: &Shared) {
        let buckets: Vec<_> = self
            .0
            .read()
            .iter()
            .map(|(name, bucket)| (name.clone(), bucket.clone()))
            .collect();
        for (name, bucket) in buckets {
            if let Err(error) = move_bucket_out_of(&name, &bucket, segment, shared) {
                tracing::warn!(bucket = %name, "state stays in an old segment for now: {error}");
                return;
            }
        }
    }
}

fn move_bucket_out_of(
    name: &Name,
    bucket: &Mutex<Bucket>,
    segment: u32,
    shared: &Shared,
) -> Result<(), AppendError> {
    while shared.wait_until_ready() {
        match bucket.lock().move_out_of(name, segment, shared) {
            Err(AppendError::NotReady) => {}
            result => return result,
        }
    }
    Err(AppendError::NotReady)
}
