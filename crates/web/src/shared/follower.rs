//! Readers of a log that wait for what comes next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::{Stream, stream};

use super::Batch;
use super::log::Inner;

/// How many entries a follower gets at once at most.
pub const FOLLOW_ENTRIES_MAX: usize = 64;

/// A reader of a log that waits for what comes next, without a lock and without a thread.
///
/// It holds nothing but a position, so a slow one costs the log nothing: what was forgotten before it came is counted as missed.
pub struct Follower<T> {
    inner: Arc<Inner<T>>,
    position: u64,
}

/// What a follower was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<T> {
    /// What came, and how many it missed.
    Entries(Batch<T>),
    /// Nothing came for the time it wanted to wait. For a client this is the time for a sign of life.
    Nothing,
    /// The log is gone: no more will come.
    Ended,
}

impl<T: Clone> Follower<T> {
    pub(super) fn new(inner: Arc<Inner<T>>, position: u64) -> Self {
        Self { inner, position }
    }

    /// From where on it reads next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What there is now, without waiting.
    pub fn now(&mut self) -> Followed<T> {
        let (batch, is_gone) = self.inner.read(self.position, FOLLOW_ENTRIES_MAX);
        self.position = batch.next();
        match (batch.missed, batch.entries.len()) {
            (0, 0) if is_gone => Followed::Ended,
            (0, 0) => Followed::Nothing,
            _ => Followed::Entries(batch),
        }
    }

    /// What comes next, or [`Followed::Nothing`] once this time is over. If it is dropped while it waits, nothing is lost.
    pub async fn next_within(&mut self, within: Duration) -> Followed<T> {
        let next = tokio::time::timeout(within, self.next());
        next.await.unwrap_or(Followed::Nothing)
    }

    async fn next(&mut self) -> Followed<T> {
        let inner = self.inner.clone();
        loop {
            // Made before it is looked whether there is something: it hears of all that comes from here on.
            let changed = inner.changed.notified();
            match self.now() {
                Followed::Nothing => changed.await,
                followed => return followed,
            }
        }
    }

    /// All that comes, with [`Followed::Nothing`] each time nothing came for so long. It ends with the log.
    pub fn into_stream(self, within: Duration) -> impl Stream<Item = Followed<T>> {
        stream::unfold(self, move |mut follower| async move {
            match follower.next_within(within).await {
                Followed::Ended => None,
                followed => Some((followed, follower)),
            }
        })
    }
}

impl<T> fmt::Debug for Follower<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Follower");
        shown
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
