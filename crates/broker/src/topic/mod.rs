//! A topic: each message goes to every subscriber.

mod core;
#[cfg(test)]
mod core_tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kernel::{Destination, Name, Timestamp};
use parking_lot::Mutex;

use self::core::TopicCore;
pub use self::core::TopicTotals;
use crate::delivery::{AckMode, Delivery, Outbox};
use crate::queue::{Acknowledged, Credit, Publication, Published, Reject};
use crate::shared::Shared;

/// How much of a topic waits to be sent to one subscriber. Less than for a queue, since a topic may
/// have thousands of subscribers, and each waiting delivery takes a little memory beside the message
/// that all of them share.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A topic of the broker. What it carries is never stored: subscribers get what is published
/// while they are there.
pub struct Topic {
    name: Name,
    pub(crate) core: Mutex<TopicCore<Arc<Outbox>>>,
    shared: Arc<Shared>,
    /// When it was seen in use, in microseconds.
    last_used: AtomicU64,
}

/// How a topic is doing.
#[derive(Clone, Debug, Default)]
pub struct TopicStats {
    /// Messages that some subscriber has not got yet.
    pub held: usize,
    /// Bytes of these, each counted once.
    pub bytes: usize,
    /// How many subscribers there are.
    pub subscribers: usize,
    /// What happened since the topic was made.
    pub totals: TopicTotals,
}

impl Topic {
    pub(crate) fn new(name: Name, shared: Arc<Shared>) -> Self {
        let now = shared.clock.now();
        let core = TopicCore::new(shared.settings().topics.clone(), now.as_micros());
        Self {
            name,
            core: Mutex::new(core),
            shared,
            last_used: AtomicU64::new(now.as_micros()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Hands messages to every subscriber. `batch` is empty afterwards.
    pub fn publish(&self, batch: &mut Vec<Publication>) -> Published {
        let accepted = batch.len();
        let mut core = self.core.lock();
        let missed = core.totals.missed;
        core.publish(batch.drain(..).map(|publication| publication.message));
        let missed = core.totals.missed - missed;
        if missed > 0 {
            self.shared.counters.topic_missed.inc_by(missed);
        }
        Published {
            accepted,
            ..Published::default()
        }
    }

    /// Adds a subscriber. `token` is the session's own number for it.
    pub fn subscribe(
        self: &Arc<Self>,
        token: u32,
        mode: AckMode,
        credit: Credit,
        outbox: Arc<Outbox>,
    ) -> TopicSubscription {
        let credit = Credit {
            unsent_bytes: credit.unsent_bytes.min(UNSENT_BYTES_MAX),
            ..credit
        };
        let index = self
            .core
            .lock()
            .subscribe(token, mode, credit, outbox.clone());
        TopicSubscription {
            topic: self.clone(),
            index,
            token,
            outbox,
        }
    }

    /// How it is doing.
    pub fn stats(&self) -> TopicStats {
        let core = self.core.lock();
        TopicStats {
            held: core.held(),
            bytes: core.bytes(),
            subscribers: core.subscriber_count(),
            totals: core.totals,
        }
    }

    pub(crate) fn is_unused_since(&self, before: Timestamp) -> bool {
        let last_used = self.last_used.load(Ordering::Relaxed);
        last_used <= before.as_micros() && self.core.lock().is_unused()
    }

    pub(crate) fn touch(&self) {
        let now = self.shared.clock.now().as_micros();
        self.last_used.store(now, Ordering::Relaxed);
    }
}

/// A subscriber's side of a topic. Dropping it ends the subscription.
pub struct TopicSubscription {
    topic: Arc<Topic>,
    index: usize,
    token: u32,
    outbox: Arc<Outbox>,
}

impl TopicSubscription {
    /// The topic.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// Deliveries of this subscription were written to the subscriber.
    pub fn sent(&self, deliveries: &[Delivery]) {
        self.topic.shared.observe_delivery(deliveries);
        let bytes = deliveries.iter().map(|d| d.entry.size_bytes()).sum();
        let mut core = self.topic.core.lock();
        core.sent(self.index, deliveries.len(), bytes);
    }

    /// The subscriber acknowledges a message, or it and all before it.
    pub fn acknowledge(&self, id: u64, through: bool) -> Acknowledged {
        let mut core = self.topic.core.lock();
        Acknowledged {
            messages: core.acknowledge(self.index, id, through),
            stored: None,
        }
    }

    /// The subscriber turns a message down: it gets it again until the tries are used up.
    pub fn reject(&self, id: u64, through: bool, reject: &Reject) -> Acknowledged {
        let (retry, reason) = match reject {
            Reject::Retry { reason } => (true, reason),
            Reject::Dead { reason } => (false, reason),
        };
        let mut core = self.topic.core.lock();
        let (messages, dead) = core.reject(self.index, id, through, retry);
        drop(core);
        let dead_letters = self.topic.shared.dead_letters();
        for entry in dead {
            let reason = format!("{reason} ({} tries)", entry.tries);
            let from = Destination::Topic(self.topic.name.clone());
            match &dead_letters {
                Some(dead_letters) => _ = dead_letters.bury_here(&from, &entry, &reason),
                None => _ = self.topic.shared.counters.dead_dropped.inc(),
            }
        }
        Acknowledged {
            messages,
            stored: None,
        }
    }

    /// How many messages the subscriber has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let core = self.topic.core.lock();
        let subscriber = core.subscriber(self.index);
        subscriber.map_or(0, |subscriber| subscriber.unacked.len())
    }

    /// How many messages this subscriber missed because it was too slow.
    pub fn missed(&self) -> u64 {
        self.topic.core.lock().missed(self.index)
    }

    pub(crate) fn holds(&self, id: u64, through: bool) -> bool {
        let core = self.topic.core.lock();
        core.subscriber(self.index)
            .is_some_and(|subscriber| subscriber.covers(id, through).next().is_some())
    }
}

impl Drop for TopicSubscription {
    fn drop(&mut self) {
        self.topic.core.lock().unsubscribe(self.index);
        self.topic.touch();
        self.outbox.take_subscription(self.token);
    }
}
