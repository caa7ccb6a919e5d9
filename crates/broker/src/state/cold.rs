//! Where state lies that memory has no room for: what the broker needs from a store on disk.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use journal::Position;
use kernel::Name;

use super::layer::Layer;

/// The longest key that a store takes; a bucket with a longer one stays in memory.
pub(crate) const COLD_KEY_BYTES_MAX: usize = 60_000;

/// Why state on disk could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StateError {
    /// There is no space.
    #[error("the disk of {place} is full: {reason}; make room there")]
    Full {
        /// Where the store lies.
        place: String,
        /// What is missing.
        reason: String,
    },
    /// The disk failed, or what it gave is not what was written.
    #[error(
        "state in {place} cannot be {action}: {reason}; look at the disk, and bring back the whole data folder from a backup if it is damaged"
    )]
    Broken {
        /// What was tried.
        action: &'static str,
        /// Where the store lies.
        place: String,
        /// What went wrong.
        reason: String,
    },
}

/// Tells stores apart, and what one store held at one time from what it held at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The store.
    pub id: u64,
    /// How often something was moved into it.
    pub generation: u64,
}

/// What a store has of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Every change of the bucket up to there is in the store.
    pub through: Position,
    pub pairs: u64,
    /// What these pairs count for.
    pub bytes: u64,
}

/// The part of a bucket that is on its way into a store.
#[derive(Debug)]
pub(crate) struct Moving {
    pub bucket: Name,
    pub layer: Arc<Layer>,
    /// What the store has of the bucket afterwards.
    pub after: Moved,
}

/// Pairs in the order of their keys.
pub(crate) type Pairs = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StateError>> + Send>;

/// State on disk. One caller writes at a time; anybody may read meanwhile.
pub(crate) trait ColdStore: Send + Sync {
    /// What it holds now; `None` as long as nothing was moved into it.
    fn stamp(&self) -> Option<Stamp>;
    /// What it has of each bucket.
    fn buckets(&self) -> Result<Vec<(Name, Moved)>, StateError>;
    /// The value of a key.
    fn get(&self, bucket: &Name, key: &[u8]) -> Result<Option<Bytes>, StateError>;
    /// The length of the value of a key.
    fn value_bytes(&self, bucket: &Name, key: &[u8]) -> Result<Option<usize>, StateError>;
    /// Pairs of a bucket as they are at the time of the call.
    fn pairs(&self, bucket: &Name, start: Bound<&[u8]>) -> Pairs;
    /// Takes in all of it or nothing, and has it safe on disk when this returns. Gives what it holds then.
    fn take_in(&self, moving: &[Moving]) -> Result<Stamp, StateError>;
    /// Brings what it has into an order that is read faster and takes less space.
    fn tidy(&self) -> Result<(), StateError>;
    /// What it takes on disk.
    fn disk_bytes(&self) -> u64;
}
