//! Keys and values.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::shards::{Shards, Table};
use super::{Concurrent, Concurrently, Keyed, MapEntry, hash_key};

/// How long an operation waits for a value that another one holds, unless the map was told otherwise.
pub const VALUE_WAIT_MAX: Duration = Duration::from_secs(10);

/// A map in parts, each behind a short lock of its own. Each value has a lock of its own too, so that a value can be
/// held while the map grows and other keys come and go.
///
/// It can be an ordinary state (`Read<Map<K, V>>`, `Write<Map<K, V>>`), be locked one key at a time
/// (`Key<Write<Map<K, V>>, P>`, see [`MapEntry`]), or be used by many at the same time ([`Map::concurrently`]).
///
/// A function that is given to a method runs while the value is locked, but no part of the map is: it may use other keys of the
/// map. If it uses the same key, or if two entries of one key are held by one thread, the second waits for the first in vain. No wait is
/// endless: after [`VALUE_WAIT_MAX`] the second panics.
///
/// ```
/// use web::shared::Map;
///
/// let mut ages: Map<String, u32> = Map::new();
/// ages.insert("ada".to_owned(), 36);
/// assert_eq!(ages.get("ada"), Some(36));
/// ages.concurrently().update_or_insert_with("grace".to_owned(), || 84, |age| *age += 1);
/// assert_eq!(ages.get("grace"), Some(85));
/// ```
///
/// A handler that only reads cannot change it:
///
/// ```compile_fail,E0596
/// fn read_only(ages: &web::shared::Map<String, u32>) {
///     ages.insert("ada".to_owned(), 36);
/// }
/// ```
pub struct Map<K, V> {
    nodes: Shards<Arc<Node<K, V>>>,
    value_wait_max: Duration,
}

/// A key and its value. Whoever takes a node out of the map takes its value afterwards. So a node in the map has a
/// value; one that has none was taken out, and whoever came to it late looks again.
pub(super) struct Node<K, V> {
    key: K,
    value: RwLock<Option<V>>,
}

impl<K, V> Node<K, V> {
    fn new(key: K, value: V) -> Arc<Self> {
        let value = RwLock::new(Some(value));
        Arc::new(Self { key, value })
    }

    /// The value for reading, after those who waited before to change it.
    fn read(&self, wait_max: Duration) -> RwLockReadGuard<'_, Option<V>> {
        let value = self.value.try_read_for(wait_max);
        value.unwrap_or_else(|| in_use())
    }

    /// The value for reading, also for a thread that reads it already. It goes before those who wait to change it, which could wait
    /// forever; it is for those who hold the lock of the key, of whom none waits.
    pub(super) fn read_again(&self, wait_max: Duration) -> RwLockReadGuard<'_, Option<V>> {
        let value = self.value.try_read_recursive_for(wait_max);
        value.unwrap_or_else(|| in_use())
    }

    /// The value for changing it.
    pub(super) fn write(&self, wait_max: Duration) -> RwLockWriteGuard<'_, Option<V>> {
        let value = self.value.try_write_for(wait_max);
        value.unwrap_or_else(|| in_use())
    }

    /// Takes the value of a node that was taken out of the map.
    fn take(self: Arc<Self>, wait_max: Duration) -> Option<V> {
        match Arc::try_unwrap(self) {
            Ok(node) => node.value.into_inner(),
            Err(node) => node.write(wait_max).take(),
        }
    }
}

#[cold]
fn in_use() -> ! {
    panic!(
        "this value of a map is held for too long: use each key once, and not inside of a function that is given its value"
    );
}

fn is<K: Borrow<Q>, V, Q: Eq + ?Sized>(key: &Q) -> impl Fn(&Arc<Node<K, V>>) -> bool {
    move |node| node.key.borrow() == key
}

/// What became of a value that was put into a table.
enum Put<K, V> {
    New,
    Replaced(V),
    /// The node that was there is in use; another took its place.
    Pushed(Arc<Node<K, V>>),
}

fn put_into<K: Eq, V>(
    table: &mut Table<Arc<Node<K, V>>>,
    hash: u64,
    key: K,
    value: V,
) -> Put<K, V> {
    let Some(found) = table.find_mut(hash, is(&key)) else {
        table.add(hash, Node::new(key, value));
        return Put::New;
    };
    match Arc::get_mut(found).and_then(|node| node.value.get_mut().as_mut()) {
        Some(old) => Put::Replaced(std::mem::replace(old, value)),
        None => Put::Pushed(std::mem::replace(found, Node::new(key, value))),
    }
}

impl<K, V> Map<K, V> {
    /// Nothing is in it.
    pub fn new() -> Self {
        Self::with_value_wait_max(VALUE_WAIT_MAX)
    }

    /// A map in which an operation waits no longer than this for a value that another one holds; then it panics.
    pub fn with_value_wait_max(value_wait_max: Duration) -> Self {
        let nodes = Shards::new();
        Self {
            nodes,
            value_wait_max,
        }
    }

    /// How long an operation waits for a value that another one holds.
    pub fn value_wait_max(&self) -> Duration {
        self.value_wait_max
    }

    /// How many there are. While others change it, about how many.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Calls the function with each key and its value, in no order. What others put in or take out meanwhile may be met or not.
    pub fn for_each(&self, mut look: impl FnMut(&K, &V)) {
        for table in self.nodes.each() {
            let nodes: Vec<_> = table.iter().cloned().collect();
            // The function is not ours: it may take long, or use the map.
            drop(table);
            for node in nodes {
                if let Some(value) = &*node.read(self.value_wait_max) {
                    look(&node.key, value);
                }
            }
        }
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.nodes.each_mut().for_each(Table::clear);
    }

    /// Keeps only some; what stays may be changed.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for table in self.nodes.each_mut() {
            table.retain(|node| {
                let node = only_one(node);
                let value = node.value.get_mut().as_mut();
                value.is_some_and(|value| keep(&node.key, value))
            });
        }
    }

    /// The map, to be changed by many at the same time.
    pub fn concurrently(&self) -> Concurrently<'_, Self> {
        Concurrently::new(self)
    }
}

/// The node, of which there is no other user: all of them borrow the map.
fn only_one<K, V>(node: &mut Arc<Node<K, V>>) -> &mut Node<K, V> {
    Arc::get_mut(node).expect("nobody else has a node of a map that is borrowed exclusively")
}

impl<K: Hash + Eq, V> Map<K, V> {
    /// The node of a key, kept alive by the caller.
    pub(super) fn node<Q>(&self, key: &Q) -> Option<Arc<Node<K, V>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(key);
        self.nodes.read(hash).find(hash, is(key)).cloned()
    }

    /// Puts a node in unless there is one of its key; which one is there now.
    fn link(&self, node: &Arc<Node<K, V>>) -> Arc<Node<K, V>> {
        let hash = hash_key(&node.key);
        let mut table = self.nodes.write(hash);
        if let Some(found) = table.find(hash, is(&node.key)) {
            return found.clone();
        }
        table.add(hash, node.clone());
        node.clone()
    }

    /// Whether there is something under a key.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(key);
        self.nodes.read(hash).find(hash, is(key)).is_some()
    }

    /// A copy of the value of a key. Put values that are large into an `Arc`, or use [`Map::with`].
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let hash = hash_key(key);
        let table = self.nodes.read(hash);
        let node = table.find(hash, is(key))?;
        if let Some(value) = node.value.try_read() {
            return value.clone();
        }
        // Somebody changes the value. Others shall get at their keys while this one waits.
        drop(table);
        self.with(key, V::clone)
    }

    /// Calls the function with the value of a key.
    pub fn with<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        loop {
            let node = self.node(key)?;
            if let Some(value) = &*node.read(self.value_wait_max) {
                return Some(look(value));
            }
        }
    }

    /// The value of a key, to change it.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(key);
        let node = self.nodes.get_mut(hash).find_mut(hash, is(key))?;
        only_one(node).value.get_mut().as_mut()
    }

    /// Puts a value under a key. What was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = hash_key(&key);
        let put = put_into(self.nodes.get_mut(hash), hash, key, value);
        self.finish(put)
    }

    /// Takes out what is under a key.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(key);
        let node = self.nodes.get_mut(hash).remove(hash, is(key))?;
        node.take(self.value_wait_max)
    }

    fn finish(&self, put: Put<K, V>) -> Option<V> {
        match put {
            Put::New => None,
            Put::Replaced(old) => Some(old),
            Put::Pushed(node) => node.take(self.value_wait_max),
        }
    }
}

impl<K: Hash + Eq, V> Concurrently<'_, Map<K, V>> {
    /// Puts a value under a key. What was there before: each value that was put in comes out once.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let map = self.inner();
        let hash = hash_key(&key);
        let put = put_into(&mut map.nodes.write(hash), hash, key, value);
        map.finish(put)
    }

    /// Puts a value under a key that has none, or gives it back.
    pub fn insert_new(&self, key: K, value: V) -> Result<(), V> {
        let hash = hash_key(&key);
        let mut table = self.inner().nodes.write(hash);
        if table.find(hash, is(&key)).is_some() {
            return Err(value);
        }
        table.add(hash, Node::new(key, value));
        Ok(())
    }

    /// Takes out what is under a key. Each value that was put in comes out once.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.inner();
        let hash = hash_key(key);
        let node = map.nodes.write(hash).remove(hash, is(key))?;
        node.take(map.value_wait_max)
    }

    /// Changes the value of a key, if there is one, in one step: nobody comes in between.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.inner();
        loop {
            let node = map.node(key)?;
            if let Some(value) = &mut *node.write(map.value_wait_max) {
                return Some(change(value));
            }
        }
    }

    /// Changes the value of a key, which is made first if there is none, in one step: nobody comes in between. Of a value that
    /// was made in vain, because another was quicker, nobody hears.
    pub fn update_or_insert_with<R>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        let map = self.inner();
        if let Some(node) = map.node(&key)
            && let Some(value) = &mut *node.write(map.value_wait_max)
        {
            return change(value);
        }
        let made = Node::new(key, make());
        loop {
            // Held before others can see it, so that nobody takes the value out before it was changed.
            let mut value = made.write(map.value_wait_max);
            let node = map.link(&made);
            if Arc::ptr_eq(&node, &made) {
                let value = value.as_mut();
                return change(value.expect("nobody else had the node before it was put in"));
            }
            drop(value);
            if let Some(value) = &mut *node.write(map.value_wait_max) {
                return change(value);
            }
        }
    }
}

impl<K, V> Concurrent for Map<K, V>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
}

impl<K, V> Keyed for Map<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    type Key = K;
    type Entry<'r> = MapEntry<'r, K, V>;

    fn entry<'r>(&'r self, key: &'r K) -> MapEntry<'r, K, V> {
        MapEntry::new(self, key)
    }

    fn hash_of(key: &K) -> u64 {
        hash_key(key)
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Hash + Eq, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        let mut map = Self::with_value_wait_max(self.value_wait_max);
        self.for_each(|key, value| {
            map.insert(key.clone(), value.clone());
        });
        map
    }
}

impl<K, V> fmt::Debug for Map<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Map");
        shown.field("len", &self.len()).finish_non_exhaustive()
    }
}
