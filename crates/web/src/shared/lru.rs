//! A cache that forgets what was not used for longest.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, RandomState};

use ::lru::LruCache;
use parking_lot::Mutex;

use super::{Concurrent, Concurrently};

/// A cache of so many entries and bytes, that forgets what was not used for longest.
///
/// All of it is behind one short lock, so that what is forgotten is exactly the oldest. Values are handed out as copies: put large
/// ones into an `Arc`. Looking something up counts as using it, and is not a change for others: a handler that only reads may do it.
///
/// ```
/// use web::shared::Lru;
///
/// let mut pages = Lru::with_bytes_max(1_000, 10, |_key: &u32, page: &String| page.len());
/// pages.insert(1, "12345".to_owned());
/// pages.insert(2, "12345".to_owned());
/// assert!(pages.get(&1).is_some());
/// pages.insert(3, "12345".to_owned());
/// assert!(pages.get(&2).is_none(), "its use is longest ago");
/// assert_eq!(pages.numbers().bytes, 10);
/// ```
///
/// A handler that only reads cannot change it:
///
/// ```compile_fail,E0596
/// fn read_only(pages: &web::shared::Lru<u32, String>) {
///     pages.insert(1, String::new());
/// }
/// ```
pub struct Lru<K, V> {
    kept: Mutex<Kept<K, V>>,
    limits: Limits<K, V>,
}

/// What a cache holds and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruNumbers {
    /// How many entries are kept.
    pub entries: usize,
    /// How many bytes they have, as far as they are measured.
    pub bytes: usize,
    /// How often something was found.
    pub hits: u64,
    /// How often nothing was found.
    pub misses: u64,
    /// How many entries had to go because of a bound.
    pub forgotten: u64,
}

struct Limits<K, V> {
    entries_max: usize,
    bytes_max: usize,
    measure: fn(&K, &V) -> usize,
}

impl<K, V> Clone for Limits<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Limits<K, V> {}

struct Kept<K, V> {
    /// With their bytes.
    values: LruCache<K, (V, usize), RandomState>,
    numbers: LruNumbers,
}

/// What an insertion put out: the value of before, and what had to go. They are dropped without the lock: their end
/// is not ours.
struct PutOut<K, V> {
    old: Option<V>,
    _forgotten: Vec<(K, V)>,
}

impl<K: Hash + Eq, V> Kept<K, V> {
    fn new() -> Self {
        Self {
            values: LruCache::unbounded_with_hasher(RandomState::new()),
            numbers: LruNumbers::default(),
        }
    }

    fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.values.get(key);
        match found.is_some() {
            true => self.numbers.hits += 1,
            false => self.numbers.misses += 1,
        }
        found.map(|(value, _)| value)
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (key, (value, bytes)) = self.values.pop_entry(key)?;
        self.numbers.bytes -= bytes;
        Some((key, value))
    }

    fn forget_oldest(&mut self) -> Option<(K, V)> {
        let (key, (value, bytes)) = self.values.pop_lru()?;
        self.numbers.bytes -= bytes;
        self.numbers.forgotten += 1;
        Some((key, value))
    }

    fn insert(&mut self, limits: Limits<K, V>, bytes: usize, key: K, value: V) -> PutOut<K, V> {
        let old = self.remove(&key).map(|(_, old)| old);
        let mut forgotten = Vec::new();
        if limits.entries_max == 0 || bytes > limits.bytes_max {
            self.numbers.forgotten += 1;
            forgotten.push((key, value));
            return PutOut {
                old,
                _forgotten: forgotten,
            };
        }
        // Room is made first, so that there is never more than allowed.
        while self.values.len() >= limits.entries_max
            || self.numbers.bytes > limits.bytes_max - bytes
        {
            forgotten.extend(self.forget_oldest());
        }
        self.values.put(key, (value, bytes));
        self.numbers.bytes += bytes;
        PutOut {
            old,
            _forgotten: forgotten,
        }
    }

    fn numbers(&self) -> LruNumbers {
        LruNumbers {
            entries: self.values.len(),
            ..self.numbers
        }
    }
}

impl<K: Hash + Eq, V> Lru<K, V> {
    /// A cache of so many entries, however large they are.
    pub fn new(entries_max: usize) -> Self {
        Self::with_bytes_max(entries_max, usize::MAX, |_, _| 0)
    }

    /// A cache of so many entries, and of these no more than so many bytes, as the function measures them. An entry that
    /// has more by itself is not kept.
    pub fn with_bytes_max(
        entries_max: usize,
        bytes_max: usize,
        measure: fn(&K, &V) -> usize,
    ) -> Self {
        let limits = Limits {
            entries_max,
            bytes_max,
            measure,
        };
        let kept = Mutex::new(Kept::new());
        Self { kept, limits }
    }

    /// A copy of the value of a key, which counts as used now.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.kept.lock().get(key).cloned()
    }

    /// Whether a key is there. This does not count as using it.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.kept.lock().values.contains(key)
    }

    /// Puts a value under a key. What was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let bytes = (self.limits.measure)(&key, &value);
        let kept = self.kept.get_mut();
        kept.insert(self.limits, bytes, key, value).old
    }

    /// Takes out what is under a key.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.kept.get_mut().remove(key).map(|(_, value)| value)
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        let kept = self.kept.get_mut();
        kept.values.clear();
        kept.numbers.bytes = 0;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.lock().values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the cache holds and did.
    pub fn numbers(&self) -> LruNumbers {
        self.kept.lock().numbers()
    }

    /// The cache, to be changed by many at the same time.
    pub fn concurrently(&self) -> Concurrently<'_, Self> {
        Concurrently::new(self)
    }
}

impl<K: Hash + Eq, V> Concurrently<'_, Lru<K, V>> {
    /// Puts a value under a key. What was there before.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let cache = self.inner();
        let bytes = (cache.limits.measure)(&key, &value);
        let put_out = cache.kept.lock().insert(cache.limits, bytes, key, value);
        put_out.old
    }

    /// Takes out what is under a key.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let removed = self.inner().kept.lock().remove(key);
        removed.map(|(_, value)| value)
    }
}

impl<K, V> Concurrent for Lru<K, V>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
}

impl<K: Hash + Eq + Clone, V: Clone> Clone for Lru<K, V> {
    fn clone(&self) -> Self {
        let kept = self.kept.lock();
        let mut copy = Kept::new();
        // From the one whose use is longest ago to the latest, so that they are in the same order again.
        for (key, value) in kept.values.iter().rev() {
            copy.values.put(key.clone(), value.clone());
        }
        copy.numbers = kept.numbers;
        Self {
            kept: Mutex::new(copy),
            limits: self.limits,
        }
    }
}

impl<K: Hash + Eq, V> fmt::Debug for Lru<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Lru");
        shown
            .field("numbers", &self.numbers())
            .finish_non_exhaustive()
    }
}
