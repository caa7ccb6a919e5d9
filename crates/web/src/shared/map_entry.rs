//! One key of a map, for a request that holds its lock.

use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use super::Map;
use super::map::Node;

/// One key of a [`Map`], for a request that holds its lock, and what is under it, if there is something.
///
/// Others may have entries of other keys at the same time, put values in and take values out: this one stays where it is.
///
/// ```
/// use web::shared::{Keyed, Map};
///
/// let accounts: Map<u32, i64> = [(1, 100), (2, 0)].into_iter().collect();
/// let (mut from, mut to) = (accounts.entry(&1), accounts.entry(&2));
/// if let (Some(mut from), Some(mut to)) = (from.get_mut(), to.get_mut()) {
///     *from -= 30;
///     *to += 30;
/// }
/// assert_eq!(from.get().as_deref(), Some(&70));
/// ```
///
/// A request must not hold the values of two entries of one key, one of them to change it: the second waits for the first as long
/// as [`Map::value_wait_max`] says, and then panics.
///
/// Who got a key only to read it cannot change it:
///
/// ```compile_fail,E0596
/// fn read_only(account: &web::shared::MapEntry<'_, u32, i64>) {
///     account.insert(36);
/// }
/// ```
pub struct MapEntry<'r, K, V> {
    map: &'r Map<K, V>,
    key: &'r K,
    node: Option<Arc<Node<K, V>>>,
}

impl<'r, K: Hash + Eq, V> MapEntry<'r, K, V> {
    pub(super) fn new(map: &'r Map<K, V>, key: &'r K) -> Self {
        let node = map.node(key);
        Self { map, key, node }
    }

    /// The key.
    pub fn key(&self) -> &'r K {
        self.key
    }

    /// Whether there is something under the key.
    pub fn exists(&self) -> bool {
        self.get().is_some()
    }

    /// What is under the key.
    pub fn get(&self) -> Option<impl Deref<Target = V>> {
        let value = self.node.as_ref()?.read_again(self.map.value_wait_max());
        RwLockReadGuard::try_map(value, Option::as_ref).ok()
    }

    /// What is under the key, to change it.
    pub fn get_mut(&mut self) -> Option<impl DerefMut<Target = V>> {
        let value = self.node.as_ref()?.write(self.map.value_wait_max());
        RwLockWriteGuard::try_map(value, Option::as_mut).ok()
    }

    /// Changes what is under the key, if there is something.
    pub fn update<R>(&mut self, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.get_mut().map(|mut value| change(&mut value))
    }

    /// Puts a value under the key. What was there before.
    pub fn insert(&mut self, value: V) -> Option<V>
    where
        K: Clone,
    {
        if let Some(mut old) = self.get_mut() {
            return Some(std::mem::replace(&mut *old, value));
        }
        let old = self.map.concurrently().insert(self.key.clone(), value);
        self.node = self.map.node(self.key);
        old
    }

    /// Takes out what is under the key.
    pub fn remove(&mut self) -> Option<V> {
        self.node = None;
        self.map.concurrently().remove(self.key)
    }
}

impl<K: fmt::Debug, V> fmt::Debug for MapEntry<'_, K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("MapEntry");
        shown.field("key", self.key).finish_non_exhaustive()
    }
}
