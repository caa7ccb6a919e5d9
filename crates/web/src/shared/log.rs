//! The latest entries, each with a position.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::{Concurrent, Follower};

/// The latest entries, each with a position: 0, 1, 2 and so on.
///
/// It keeps so many entries, and so many bytes, and forgets the oldest. A reader says from where on it wants to read, and is told
/// how many it missed. Whoever wants to wait for what comes next takes a [`Follower`], which holds no lock and no memory of the log, but
/// a position: a reader that is slow misses entries and holds up nobody.
///
/// Entries are handed out as copies. Put large ones into an `Arc`.
///
/// ```
/// use web::shared::Log;
///
/// let log = Log::new(2);
/// for word in ["one", "two", "three"] {
///     log.push(word);
/// }
/// let batch = log.read(0, 10);
/// assert_eq!((batch.missed, batch.first, batch.entries), (1, 1, vec!["two", "three"]));
/// ```
pub struct Log<T> {
    inner: Arc<Inner<T>>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// The position of the first of these entries; the end of the log if there are none.
    pub first: u64,
    /// How many entries were wanted, but are forgotten.
    pub missed: u64,
    /// The entries, one after another.
    pub entries: Vec<T>,
}

impl<T> Batch<T> {
    /// From where on to read next.
    pub fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

/// What a log and those who follow it have in common.
pub(super) struct Inner<T> {
    kept: RwLock<Kept<T>>,
    /// Something was added, or the log is gone.
    pub(super) changed: Notify,
    entries_max: usize,
    bytes_max: usize,
    measure: fn(&T) -> usize,
}

struct Kept<T> {
    /// With their bytes.
    entries: VecDeque<(T, usize)>,
    /// The position of the first of them.
    first: u64,
    bytes: usize,
    is_gone: bool,
}

impl<T> Kept<T> {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn forget_oldest(&mut self) -> Option<T> {
        let (oldest, bytes) = self.entries.pop_front()?;
        self.first += 1;
        self.bytes -= bytes;
        Some(oldest)
    }
}

impl<T: Clone> Inner<T> {
    /// So many entries from a position on, and whether no more will ever come.
    pub(super) fn read(&self, from: u64, entries_max: usize) -> (Batch<T>, bool) {
        let kept = self.kept.read();
        let from = from.min(kept.end());
        let first = from.max(kept.first);
        let start = (first - kept.first) as usize;
        let entries = kept.entries.iter().skip(start).take(entries_max);
        let batch = Batch {
            first,
            missed: first - from,
            entries: entries.map(|(entry, _)| entry.clone()).collect(),
        };
        (batch, kept.is_gone)
    }
}

impl<T> Log<T> {
    /// A log that keeps so many entries, however large they are.
    pub fn new(entries_max: usize) -> Self {
        Self::with_bytes_max(entries_max, usize::MAX, |_| 0)
    }

    /// A log that keeps so many entries, and of these no more than so many bytes, as the function measures them. An entry
    /// that has more by itself gets a position, but is forgotten at once, and all before it with it.
    pub fn with_bytes_max(entries_max: usize, bytes_max: usize, measure: fn(&T) -> usize) -> Self {
        let kept = Kept {
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            is_gone: false,
        };
        let inner = Inner {
            kept: RwLock::new(kept),
            changed: Notify::new(),
            entries_max,
            bytes_max,
            measure,
        };
        let inner = Arc::new(inner);
        Self { inner }
    }

    /// Adds an entry. Its position.
    pub fn push(&self, entry: T) -> u64 {
        let inner = &self.inner;
        let bytes = (inner.measure)(&entry);
        let mut forgotten = Vec::new();
        let mut kept = inner.kept.write();
        let position = kept.end();
        // Room is made first, so that there is never more than allowed, not even for a moment.
        while !kept.entries.is_empty() && !inner.has_room(&kept, bytes) {
            forgotten.extend(kept.forget_oldest());
        }
        if inner.has_room(&kept, bytes) {
            kept.entries.push_back((entry, bytes));
            kept.bytes += bytes;
        } else {
            kept.first += 1;
            forgotten.push(entry);
        }
        // What is forgotten is dropped without the lock: its end is not ours.
        drop(kept);
        inner.changed.notify_waiters();
        position
    }

    /// The position of the oldest entry that is kept.
    pub fn first(&self) -> u64 {
        self.inner.kept.read().first
    }

    /// The position that the next entry will have.
    pub fn end(&self) -> u64 {
        self.inner.kept.read().end()
    }

    /// How many entries are kept.
    pub fn len(&self) -> usize {
        self.inner.kept.read().entries.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the kept entries have, as far as they are measured.
    pub fn bytes(&self) -> usize {
        self.inner.kept.read().bytes
    }
}

impl<T> Inner<T> {
    fn has_room(&self, kept: &Kept<T>, bytes: usize) -> bool {
        let bytes = kept.bytes.saturating_add(bytes);
        kept.entries.len() < self.entries_max && bytes <= self.bytes_max
    }
}

impl<T: Clone> Log<T> {
    /// So many entries from a position on. A position beyond the end counts as the end.
    pub fn read(&self, from: u64, entries_max: usize) -> Batch<T> {
        self.inner.read(from, entries_max).0
    }

    /// The latest entries, so many.
    pub fn latest(&self, entries_max: usize) -> Batch<T> {
        let inner = &self.inner;
        let kept = inner.kept.read();
        let start = kept.entries.len().saturating_sub(entries_max);
        let entries = kept.entries.iter().skip(start);
        Batch {
            first: kept.first + start as u64,
            missed: 0,
            entries: entries.map(|(entry, _)| entry.clone()).collect(),
        }
    }

    /// A reader that waits for what comes next, from a position on. It needs neither the log nor any lock, and may
    /// live longer than the log.
    pub fn follow(&self, from: u64) -> Follower<T> {
        Follower::new(self.inner.clone(), from)
    }
}

impl<T: Send + Sync + 'static> Concurrent for Log<T> {}

impl<T> Drop for Log<T> {
    fn drop(&mut self) {
        self.inner.kept.write().is_gone = true;
        self.inner.changed.notify_waiters();
    }
}

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Log");
        shown
            .field("first", &self.first())
            .field("end", &self.end());
        shown.finish_non_exhaustive()
    }
}
