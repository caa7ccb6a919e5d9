//! What the broker counts.

use kernel::metrics::{Counter, Histogram, Registry, duration_histogram};

/// Counters of the whole broker; those of one queue are in its statistics.
#[derive(Debug)]
pub struct Counters {
    /// Messages that went to the dead letters.
    pub dead: Counter,
    /// Dead letters that were dropped because there were too many, or rejected again.
    pub dead_dropped: Counter,
    /// Stored messages that could not be read.
    pub unreadable: Counter,
    /// Messages that a lagging subscriber of a topic missed.
    pub topic_missed: Counter,
    /// Commits, with or without state.
    pub commits: Counter,
    /// Commits refused because their epoch was old.
    pub fenced: Counter,
    /// Messages dropped because the journal failed before the commit that sent them was permanent.
    pub uncommitted: Counter,
    /// Time from taking a message in to having it written to its subscriber, one sample per batch.
    pub delivery_seconds: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            dead: Counter::default(),
            dead_dropped: Counter::default(),
            unreadable: Counter::default(),
            topic_missed: Counter::default(),
            commits: Counter::default(),
            fenced: Counter::default(),
            uncommitted: Counter::default(),
            delivery_seconds: duration_histogram(),
        }
    }
}

impl Counters {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter(
            "dead_letters",
            "Messages that went to the dead letters",
            &self.dead,
        );
        counter(
            "dead_letters_dropped",
            "Dead letters that were dropped for lack of room or rejected again",
            &self.dead_dropped,
        );
        counter(
            "unreadable_messages",
            "Stored messages that could not be read",
            &self.unreadable,
        );
        counter(
            "topic_missed_messages",
            "Messages that lagging subscribers of topics missed",
            &self.topic_missed,
        );
        counter("commits", "Commits that took effect", &self.commits);
        counter(
            "commits_fenced",
            "Commits refused because their epoch was old",
            &self.fenced,
        );
        counter(
            "uncommitted_messages",
            "Messages dropped because the commit that sent them could not be stored",
            &self.uncommitted,
        );
        registry.register(
            "delivery_seconds",
            "Time from taking a message in to writing it to its subscriber, one sample per batch",
            self.delivery_seconds.clone(),
        );
    }
}
