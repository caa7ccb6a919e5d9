//! A hash table in parts, each behind a lock of its own, so that threads seldom meet.

use std::thread;

use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// So many parts for each core: the more, the less often two threads want the same.
const SHARDS_PER_CORE: usize = 4;
const SHARDS_MAX: usize = 256;
/// Tables of fewer places are never made smaller.
const SHRINK_FROM: usize = 64;

/// Two parts never lie on one cache line (or on two that are fetched together).
#[repr(align(128))]
struct Shard<E>(RwLock<Table<E>>);

/// All parts.
pub(super) struct Shards<E> {
    shards: Box<[Shard<E>]>,
}

impl<E> Shards<E> {
    /// Nothing is in it, and no memory taken but for the locks.
    pub(super) fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let count = (cores * SHARDS_PER_CORE).next_power_of_two();
        let shard = |_| Shard(RwLock::new(Table(HashTable::new())));
        let shards = (0..count.min(SHARDS_MAX)).map(shard).collect();
        Self { shards }
    }

    /// Where a hash belongs. The table within takes its lowest and highest bits, so these are from the middle.
    fn place(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    /// The part that a hash belongs to, for reading.
    pub(super) fn read(&self, hash: u64) -> RwLockReadGuard<'_, Table<E>> {
        self.shards[self.place(hash)].0.read()
    }

    /// The part that a hash belongs to, for changing it.
    pub(super) fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Table<E>> {
        self.shards[self.place(hash)].0.write()
    }

    /// The part that a hash belongs to, where nobody else can be at it.
    pub(super) fn get_mut(&mut self, hash: u64) -> &mut Table<E> {
        let place = self.place(hash);
        self.shards[place].0.get_mut()
    }

    /// All parts, one after another.
    pub(super) fn each(&self) -> impl Iterator<Item = RwLockReadGuard<'_, Table<E>>> {
        self.shards.iter().map(|shard| shard.0.read())
    }

    /// All parts, where nobody else can be at them.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut Table<E>> {
        self.shards.iter_mut().map(|shard| shard.0.get_mut())
    }

    /// How many there are in all.
    pub(super) fn len(&self) -> usize {
        self.each().map(|table| table.0.len()).sum()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.each().all(|table| table.0.is_empty())
    }
}

/// One part. Hashes are kept beside the entries, so that nothing is hashed again when it grows.
pub(super) struct Table<E>(HashTable<(u64, E)>);

impl<E> Table<E> {
    /// The entry of this hash that is the one.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        let found = self.0.find(hash, |(_, entry)| is_it(entry));
        found.map(|(_, entry)| entry)
    }

    /// The same, to change it.
    pub(super) fn find_mut(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let found = self.0.find_mut(hash, |(_, entry)| is_it(entry));
        found.map(|(_, entry)| entry)
    }

    /// Adds an entry that is not there yet.
    pub(super) fn add(&mut self, hash: u64, entry: E) {
        self.0.insert_unique(hash, (hash, entry), |(hash, _)| *hash);
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<E> {
        let found = self.0.find_entry(hash, |(_, entry)| is_it(entry)).ok()?;
        let ((_, entry), _) = found.remove();
        self.shrink();
        Some(entry)
    }

    /// Keeps only some.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut E) -> bool) {
        self.0.retain(|(_, entry)| keep(entry));
        self.shrink();
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.0.iter().map(|(_, entry)| entry)
    }

    /// Takes all out, and gives the memory back.
    pub(super) fn clear(&mut self) {
        self.0 = HashTable::new();
    }

    /// Gives memory back once less than an eighth of it is in use. The half that stays free keeps this from
    /// happening again at the next entry.
    fn shrink(&mut self) {
        let capacity = self.0.capacity();
        if capacity > SHRINK_FROM && self.0.len() < capacity / 8 {
            self.0.shrink_to(self.0.len() * 2, |(hash, _)| *hash);
        }
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash_key;
    use super::*;

    fn filled(count: u64) -> Shards<u64> {
        let shards = Shards::new();
        for number in 0..count {
            let hash = hash_key(&number);
            shards.write(hash).add(hash, number);
        }
        shards
    }

    #[test]
    fn memory_is_given_back() {
        let count = 100_000;
        let shards = filled(count);
        let capacity = |shards: &Shards<u64>| shards.each().map(|table| table.capacity()).sum();
        let full: usize = capacity(&shards);
        for number in 10..count {
            let hash = hash_key(&number);
            let removed = shards.write(hash).remove(hash, |entry| *entry == number);
            assert_eq!(removed, Some(number));
        }
        assert_eq!(shards.len(), 10);
        let left: usize = capacity(&shards);
        assert!(left * 20 < full, "{left} of {full} places are left");
    }

    #[test]
    fn no_part_has_much_more_than_its_share() {
        let shards = filled(100_000);
        let share = 100_000 / shards.each().count();
        for table in shards.each() {
            let count = table.iter().count();
            assert!(
                count > share / 2 && count < share * 2,
                "{count} instead of {share}"
            );
        }
    }
}
