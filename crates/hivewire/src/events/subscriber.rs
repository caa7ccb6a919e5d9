//! Somebody who listens: a position in the ring, and what is wanted of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::Events;
use super::event::{Event, Filter, kind};
use super::ring::numbered;

/// How many may listen at a time.
pub(crate) const SUBSCRIBERS_MAX: usize = 500;

/// Too many listen already.
#[derive(Debug, thiserror::Error)]
#[error(
    "{SUBSCRIBERS_MAX} listen to the events of this node already: try again later, or at another node"
)]
pub(crate) struct Full;

/// Where somebody begins to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// With what happens from now on.
    Now,
    /// After an event that was seen before, perhaps of this process.
    After { number: u64, run: Option<String> },
    /// With the last few that are kept.
    Last(usize),
}

/// Somebody who listens.
pub(crate) struct Subscriber {
    events: Arc<Events>,
    filter: Filter,
    news: watch::Receiver<u64>,
    seen: u64,
    /// To be said before anything else.
    first: Vec<Bytes>,
}

impl Subscriber {
    /// Begins to listen.
    pub fn new(events: &Arc<Events>, filter: Filter, from: Position) -> Result<Self, Full> {
        let count = events.subscribers.fetch_add(1, Ordering::SeqCst);
        if count >= SUBSCRIBERS_MAX {
            events.subscribers.fetch_sub(1, Ordering::SeqCst);
            return Err(Full);
        }
        if filter.wants_kind(kind::METRICS) {
            events.metrics_wanted.fetch_add(1, Ordering::SeqCst);
            events.metrics_anew.store(true, Ordering::SeqCst);
        }
        let news = events.ring.watch();
        let last = events.ring.last();
        let (seen, is_of_another) = match from {
            Position::Now => (last, false),
            Position::Last(count) => (events.ring.before_last(count, &filter), false),
            Position::After { number, run } => {
                let is_of_another = number > last || run.is_some_and(|run| run != events.run);
                (if is_of_another { 0 } else { number }, is_of_another)
            }
        };
        let begin = Event::of(kind::BEGIN).with("run", events.run.as_str());
        let mut subscriber = Self {
            first: vec![numbered(seen, &events.signed(begin).encoded())],
            events: events.clone(),
            filter,
            news,
            seen,
        };
        if is_of_another {
            let missed = subscriber.missed(Value::Null, 0);
            subscriber.first.push(missed);
        }
        Ok(subscriber)
    }

    /// What there is to be told now; perhaps nothing.
    pub fn take(&mut self) -> Vec<Bytes> {
        let look = self.events.ring.look(self.seen, &self.filter);
        let mut told = std::mem::take(&mut self.first);
        // Nobody has seen anything before the first event.
        if look.missed > 0 {
            self.events.counters.missed.inc_by(look.missed);
            told.push(self.missed(look.missed.into(), self.seen + look.missed));
        }
        told.extend(look.events);
        self.seen = look.seen;
        told
    }

    /// Whether everything was taken.
    pub fn is_done(&self) -> bool {
        self.first.is_empty() && self.seen >= self.events.ring.last()
    }

    /// Waits until there is something to be told. Nothing is lost if this is given up.
    pub async fn next(&mut self) -> Vec<Bytes> {
        loop {
            let told = self.take();
            if !told.is_empty() {
                return told;
            }
            let seen = self.seen;
            // The sender lives as long as the events.
            let _ = self.news.wait_for(|last| *last > seen).await;
        }
    }

    fn missed(&self, count: Value, up_to: u64) -> Bytes {
        let missed = Event::of(kind::MISSED).with("count", count);
        numbered(up_to, &self.events.signed(missed).encoded())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if self.filter.wants_kind(kind::METRICS) {
            self.events.metrics_wanted.fetch_sub(1, Ordering::SeqCst);
        }
        self.events.subscribers.fetch_sub(1, Ordering::SeqCst);
    }
}
