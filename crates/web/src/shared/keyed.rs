//! States of which one key can be locked instead of the whole.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

/// A state of which a request can lock one key, while other requests hold other keys of it.
///
/// Two entries of one state may be in use at the same time, in two threads, as long as their keys differ. An
/// implementation must stay sound if they do not, but may then panic: whoever asks for an entry holds the lock of its key.
pub trait Keyed: Send + Sync + 'static {
    /// What names an entry.
    type Key: Hash + Eq + Send + 'static;

    /// What a handler gets of one key. It reads by `&self` and changes by `&mut self`, so that a handler that locked the key
    /// to read it cannot change it.
    type Entry<'r>
    where
        Self: 'r;

    /// The entry of a key, whether there is something under it or not.
    fn entry<'r>(&'r self, key: &'r Self::Key) -> Self::Entry<'r>;

    /// The number under which the key is locked. Keys that are equal have the same; [`hash_key`] gives one that is fit.
    fn hash_of(key: &Self::Key) -> u64;
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A hash that clients cannot foresee, so that nobody can choose keys that meet in one place. It is the same for equal keys as long as
/// the process runs, and another in the next one.
pub fn hash_key<Q: Hash + ?Sized>(key: &Q) -> u64 {
    HASHER.hash_one(key)
}
