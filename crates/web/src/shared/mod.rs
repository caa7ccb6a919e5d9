//! Shared structures: a map, a counter, a set, a log, a cache.

use std::hash::Hash;

/// A structure that may be used by many at once without a lock.
pub trait Concurrent: Send + Sync + 'static {}

/// A structure whose entries can be locked one by one.
pub trait Keyed: Send + Sync + 'static {
    /// What names an entry.
    type Key: Hash + Eq + Send + 'static;
    /// One entry, whether it is filled or not.
    type Entry<'r>
    where
        Self: 'r;

    /// The entry of a key. Who calls this holds the lock of that key.
    fn entry<'r>(&'r self, key: &'r Self::Key) -> Self::Entry<'r>;

    /// The hash that the lock of a key goes by.
    fn hash_of(key: &Self::Key) -> u64;
}
