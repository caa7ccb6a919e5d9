//! Which values are there.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use super::shards::{Shards, Table};
use super::{Concurrent, Concurrently, hash_key};

/// A set in parts, each behind a short lock of its own.
///
/// ```
/// use web::shared::Set;
///
/// let names: Set<String> = ["ada", "grace"].map(String::from).into_iter().collect();
/// assert!(!names.concurrently().insert("ada".to_owned()));
/// assert!(names.contains("grace"));
/// ```
///
/// A handler that only reads cannot change it:
///
/// ```compile_fail,E0596
/// fn read_only(names: &web::shared::Set<u32>) {
///     names.insert(1);
/// }
/// ```
pub struct Set<T> {
    values: Shards<T>,
}

fn is<T: Borrow<Q>, Q: Eq + ?Sized>(value: &Q) -> impl Fn(&T) -> bool {
    move |found| found.borrow() == value
}

fn insert_into<T: Hash + Eq>(table: &mut Table<T>, hash: u64, value: T) -> bool {
    let is_new = table.find(hash, is(&value)).is_none();
    if is_new {
        table.add(hash, value);
    }
    is_new
}

impl<T> Set<T> {
    /// Nothing is in it.
    pub fn new() -> Self {
        let values = Shards::new();
        Self { values }
    }

    /// How many there are. While others change it, about how many.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.values.each_mut().for_each(Table::clear);
    }

    /// Keeps only some.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for table in self.values.each_mut() {
            table.retain(|value| keep(value));
        }
    }

    /// The set, to be changed by many at the same time.
    pub fn concurrently(&self) -> Concurrently<'_, Self> {
        Concurrently::new(self)
    }
}

impl<T: Hash + Eq> Set<T> {
    /// Whether a value is there.
    pub fn contains<Q>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(value);
        self.values.read(hash).find(hash, is(value)).is_some()
    }

    /// Puts a value in. Whether it is new.
    pub fn insert(&mut self, value: T) -> bool {
        let hash = hash_key(&value);
        insert_into(self.values.get_mut(hash), hash, value)
    }

    /// Takes a value out. Whether it was there.
    pub fn remove<Q>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(value);
        let table = self.values.get_mut(hash);
        table.remove(hash, is(value)).is_some()
    }
}

impl<T: Clone> Set<T> {
    /// A copy of all values, in no order. What others change meanwhile may be in it or not.
    pub fn to_vec(&self) -> Vec<T> {
        let mut values = Vec::new();
        for table in self.values.each() {
            values.extend(table.iter().cloned());
        }
        values
    }
}

impl<T: Hash + Eq> Concurrently<'_, Set<T>> {
    /// Puts a value in. Whether it is new: of many who insert the same, one is told so.
    pub fn insert(&self, value: T) -> bool {
        let hash = hash_key(&value);
        insert_into(&mut self.inner().values.write(hash), hash, value)
    }

    /// Takes a value out. Whether it was there: of many who remove the same, one is told so.
    pub fn remove<Q>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_key(value);
        // The lock is released before the value is dropped, whose end is not ours.
        let removed = self.inner().values.write(hash).remove(hash, is(value));
        removed.is_some()
    }
}

impl<T: Send + Sync + 'static> Concurrent for Set<T> {}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Hash + Eq> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.insert(value);
        }
    }
}

impl<T: Hash + Eq> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::new();
        set.extend(values);
        set
    }
}

impl<T: Hash + Eq + Clone> Clone for Set<T> {
    fn clone(&self) -> Self {
        self.to_vec().into_iter().collect()
    }
}

impl<T> fmt::Debug for Set<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Set");
        shown.field("len", &self.len()).finish_non_exhaustive()
    }
}
