//! Key-value state, in buckets. It is derived from the journal: a restart reads it back.
//!
//! Recent changes are in memory. When they take too much of it, the mover brings them to a store on disk, and the
//! journal is free of them; what is read then comes from both. Without a store all state is in memory.

mod bucket;
mod buckets;
mod cold;
mod disk;
mod layer;
mod memory;
mod mover;
mod reading;
mod scan;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use kernel::Name;

pub(crate) use bucket::{Bucket, Plan};
pub(crate) use buckets::Buckets;
pub use cold::StateError;
pub(crate) use cold::{ColdStore, Stamp};
pub(crate) use disk::DiskStore;
pub(crate) use memory::StateMemory;
pub(crate) use mover::Mover;
pub use reading::StateBytes;

use crate::records::RecordWriter;

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

impl StateWrite {
    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Self::Set { key, .. } | Self::Remove { key } => key,
        }
    }

    pub(crate) fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Set { value, .. } => Some(value),
            Self::Remove { .. } => None,
        }
    }

    pub(crate) fn write(&self, bucket: &Name, writer: &mut RecordWriter<'_>) {
        match self {
            Self::Set { key, value } => writer.state_set(bucket, key, value),
            Self::Remove { key } => writer.state_remove(bucket, key),
        }
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.key().len() + self.value().map_or(0, Bytes::len)
    }
}
