//! The broker: all queues, topics and buckets, and the housekeeping between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use journal::{Journal, Position};
use kernel::metrics::Registry;
use kernel::{Clock, Destination, Name};
use parking_lot::{Mutex, RwLock};

use crate::counters::Counters;
use crate::delivery::{AckMode, Delivery, Entry, Outbox};
use crate::error::{CommitError, PublishError, TooManyNames};
use crate::queue::{
    Acknowledged, Credit, Publication, Published, Queue, QueueStats, QueueSubscription, Reject,
};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::state::{Bucket, Buckets, Mover};
use crate::topic::{Topic, TopicStats, TopicSubscription};

/// Queues, topics and state of one process. Clone the `Arc` it comes in.
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: RwLock<HashMap<Name, Arc<Queue>>>,
    topics: RwLock<HashMap<Name, Arc<Topic>>>,
    buckets: Arc<Buckets>,
    /// Moves state to disk, if there is a place for it.
    pub(crate) mover: Option<Mover>,
    /// Held from the comparison of a document's revision to the write.
    pub(crate) documents: Mutex<()>,
    next_rank: AtomicU64,
}

impl Broker {
    pub(crate) fn new(shared: Arc<Shared>, buckets: Arc<Buckets>, mover: Option<Mover>) -> Self {
        Self {
            shared,
            queues: RwLock::default(),
            topics: RwLock::default(),
            buckets,
            mover,
            documents: Mutex::default(),
            next_rank: AtomicU64::new(0),
        }
    }

    pub(crate) fn make_queue(&self, name: &Name) -> Arc<Queue> {
        let mut queues = self.queues.write();
        let rank = || self.next_rank.fetch_add(1, Ordering::Relaxed);
        queues
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Queue::new(name.clone(), rank(), self.shared.clone())))
            .clone()
    }

    /// The queue with this name, made if there is none.
    pub fn queue(&self, name: &Name) -> Result<Arc<Queue>, TooManyNames> {
        if let Some(queue) = self.queues.read().get(name) {
            return Ok(queue.clone());
        }
        self.check_names(self.queues.read().len())?;
        Ok(self.make_queue(name))
    }

    /// The topic with this name, made if there is none.
    pub fn topic(&self, name: &Name) -> Result<Arc<Topic>, TooManyNames> {
        if let Some(topic) = self.topics.read().get(name) {
            return Ok(topic.clone());
        }
        self.check_names(self.topics.read().len())?;
        let mut topics = self.topics.write();
        let topic = topics
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Topic::new(name.clone(), self.shared.clone())));
        Ok(topic.clone())
    }

    fn check_names(&self, names: usize) -> Result<(), TooManyNames> {
        let names_max = self.shared.settings().names_max;
        if names >= names_max {
            return Err(TooManyNames { names_max });
        }
        Ok(())
    }

    /// The queue with this name, if there is one.
    pub fn find_queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.queues.read().get(name).cloned()
    }

    /// Ends a queue for good: its messages go, and its name is free. Says how many messages went.
    pub fn remove_queue(&self, name: &str) -> usize {
        let removed = self.queues.write().remove(name);
        removed.map_or(0, |queue| queue.close())
    }

    /// The topic with this name, if there is one.
    pub fn find_topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.read().get(name).cloned()
    }

    /// The queue or topic, made if there is none.
    pub fn channel(&self, destination: &Destination) -> Result<Channel, TooManyNames> {
        Ok(match destination {
            Destination::Queue(name) => Channel::Queue(self.queue(name)?),
            Destination::Topic(name) => Channel::Topic(self.topic(name)?),
        })
    }

    /// Takes in one message.
    pub fn publish(
        &self,
        to: &Destination,
        publication: Publication,
    ) -> Result<Option<Position>, PublishError> {
        let published = self.channel(to)?.publish(&mut vec![publication]);
        match published.refused {
            Some(error) => Err(error),
            None => Ok(published.stored),
        }
    }

    /// Waits until the journal can take more: to be called before publishing, so that a fast
    /// publisher is slowed down to what the disk takes.
    pub async fn ready(&self) {
        if !self.shared.journal.is_ready() {
            // A journal that failed or is full says so at the publish itself.
            let _ = self.shared.journal.ready().await;
        }
    }

    /// The journal, whose syncs tell when something is permanent.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// What time it is for this broker.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Counters of the whole broker.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Registers everything that the broker counts.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.counters.register(registry);
    }

    /// Bytes of waiting messages that are in memory.
    pub fn memory_bytes(&self) -> usize {
        self.shared.memory_bytes()
    }

    /// All queues by name, with how they are doing.
    pub fn queues(&self) -> Vec<(Name, QueueStats)> {
        let queues: Vec<_> = self.queues.read().values().cloned().collect();
        let mut stats: Vec<_> = queues
            .iter()
            .map(|queue| (queue.name().clone(), queue.stats()))
            .collect();
        stats.sort_by(|a, b| a.0.cmp(&b.0));
        stats
    }

    /// The names of queues in order: those after `after` that begin with `prefix`.
    pub fn queue_names(&self, after: Option<&str>, prefix: Option<&str>) -> Vec<Name> {
        names(self.queues.read().keys(), after, prefix)
    }

    /// The names of topics in order: those after `after` that begin with `prefix`.
    pub fn topic_names(&self, after: Option<&str>, prefix: Option<&str>) -> Vec<Name> {
        names(self.topics.read().keys(), after, prefix)
    }

    /// All topics by name, with how they are doing.
    pub fn topics(&self) -> Vec<(Name, TopicStats)> {
        let topics: Vec<_> = self.topics.read().values().cloned().collect();
        let mut stats: Vec<_> = topics
            .iter()
            .map(|topic| (topic.name().clone(), topic.stats()))
            .collect();
        stats.sort_by(|a, b| a.0.cmp(&b.0));
        stats
    }

    pub(crate) fn find_bucket(&self, name: &Name) -> Option<Arc<Mutex<Bucket>>> {
        self.buckets.find(name)
    }

    pub(crate) fn bucket(&self, name: &Name) -> Result<Arc<Mutex<Bucket>>, CommitError> {
        self.buckets.get_or_make(name, self.shared.buckets_max())
    }

    /// From now on these settings hold, also for queues and topics that are there.
    pub fn change_settings(&self, settings: Settings) {
        let before = self.shared.set_settings(settings);
        let now = self.shared.settings();
        let queues: Vec<_> = self.queues.read().values().cloned().collect();
        for queue in queues {
            let (was, is) = (
                before.for_queue(queue.name().as_str()),
                now.for_queue(queue.name().as_str()),
            );
            let mut core = queue.core.lock();
            if core.settings == was {
                core.settings = is;
            }
        }
        let topics: Vec<_> = self.topics.read().values().cloned().collect();
        for topic in topics {
            topic.core.lock().settings.clone_from(&now.topics);
        }
    }

    /// Housekeeping, to be called about once a second from a thread that may wait for the disk:
    /// forgets names that nobody uses and empties old segments that hold little.
    pub fn tidy(&self) {
        self.shared.write_again();
        self.forget_unused_names();
        self.compact();
    }

    fn forget_unused_names(&self) {
        let idle = Duration::from_secs(self.shared.settings().idle_seconds_max);
        let now = self.shared.clock.now().as_micros();
        let before = now.saturating_sub(idle.as_micros() as u64);
        let before = kernel::Timestamp::from_micros(before);
        // Whoever else holds one may still publish to it, so only what the map alone holds goes.
        self.queues.write().retain(|_, queue| {
            if Arc::strong_count(queue) > 1 {
                queue.touch();
                return true;
            }
            !queue.is_unused_since(before)
        });
        self.topics.write().retain(|_, topic| {
            if Arc::strong_count(topic) > 1 {
                topic.touch();
                return true;
            }
            !topic.is_unused_since(before)
        });
    }

    /// A few messages that nobody consumes must not keep the whole journal: when most of it is
    /// no longer needed, what is still needed of the oldest segment is written again.
    fn compact(&self) {
        let segments = self.shared.journal.segments();
        let Some(oldest) = segments.first().filter(|segment| !segment.active) else {
            return;
        };
        let journal_bytes: u64 = segments.iter().map(|s| u64::from(s.used_bytes)).sum();
        let queues: Vec<_> = self.queues.read().values().cloned().collect();
        let queue_bytes: u64 = queues.iter().map(|queue| queue.stats().bytes).sum();
        let needed_bytes = queue_bytes + self.buckets.memory_bytes();
        if segments.len() <= COMPACT_SEGMENTS_MIN || journal_bytes < needed_bytes * 4 {
            return;
        }
        let is_empty = queues.iter().all(|queue| queue.move_out_of(oldest.number));
        if is_empty {
            self.buckets.move_out_of(oldest.number, &self.shared);
            if let Some(mover) = &self.mover {
                mover.move_note_out_of(oldest.number);
            }
        }
    }
}

/// As long as the journal has no more segments than this, it is not worth compacting.
const COMPACT_SEGMENTS_MIN: usize = 4;

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// A queue or a topic.
#[derive(Clone)]
pub enum Channel {
    /// Each message reaches one subscriber.
    Queue(Arc<Queue>),
    /// Each message reaches every subscriber.
    Topic(Arc<Topic>),
}

impl Channel {
    /// Takes in a batch of messages; what is refused stays in `batch`.
    pub fn publish(&self, batch: &mut Vec<Publication>) -> Published {
        match self {
            Self::Queue(queue) => queue.publish(batch),
            Self::Topic(topic) => topic.publish(batch),
        }
    }

    /// Adds a subscriber. `token` is the session's own number for it and stands on each delivery
    /// that comes through `outbox`.
    pub fn subscribe(
        &self,
        token: u32,
        mode: AckMode,
        credit: Credit,
        outbox: Arc<Outbox>,
    ) -> Subscription {
        match self {
            Self::Queue(queue) => Subscription::Queue(queue.subscribe(token, mode, credit, outbox)),
            Self::Topic(topic) => Subscription::Topic(topic.subscribe(token, mode, credit, outbox)),
        }
    }

    /// The same, but of all who subscribe so to a queue only the first is served; when it ends, the
    /// next one gets what it had not acknowledged, and then the rest. All subscribers of a topic are
    /// served.
    pub fn subscribe_in_turn(
        &self,
        token: u32,
        mode: AckMode,
        credit: Credit,
        outbox: Arc<Outbox>,
    ) -> Subscription {
        match self {
            Self::Queue(queue) => {
                Subscription::Queue(queue.subscribe_in_turn(token, mode, credit, outbox))
            }
            Self::Topic(topic) => Subscription::Topic(topic.subscribe(token, mode, credit, outbox)),
        }
    }
}

/// A subscription to a queue or a topic. Dropping it ends it.
pub enum Subscription {
    /// To a queue.
    Queue(QueueSubscription),
    /// To a topic.
    Topic(TopicSubscription),
}

impl Subscription {
    /// The name of the queue or topic.
    pub fn name(&self) -> &Name {
        match self {
            Self::Queue(subscription) => subscription.queue().name(),
            Self::Topic(subscription) => subscription.topic().name(),
        }
    }

    /// The queue or topic.
    pub fn destination(&self) -> Destination {
        let name = self.name().clone();
        match self {
            Self::Queue(_) => Destination::Queue(name),
            Self::Topic(_) => Destination::Topic(name),
        }
    }

    /// How many messages the subscriber has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        match self {
            Self::Queue(subscription) => subscription.unacknowledged(),
            Self::Topic(subscription) => subscription.unacknowledged(),
        }
    }

    /// Deliveries of this subscription, in order, were written to the subscriber. Every delivery
    /// taken from the outbox must be reported here or given to [`Subscription::close`].
    pub fn sent(&self, deliveries: &[Delivery]) {
        match self {
            Self::Queue(subscription) => subscription.sent(deliveries),
            Self::Topic(subscription) => subscription.sent(deliveries),
        }
    }

    /// The subscriber acknowledges a message or, with `through`, it and all before it.
    pub fn acknowledge(&self, id: u64, through: bool) -> Acknowledged {
        match self {
            Self::Queue(subscription) => subscription.acknowledge(id, through),
            Self::Topic(subscription) => subscription.acknowledge(id, through),
        }
    }

    /// The subscriber turns a message down or, with `through`, it and all before it.
    pub fn reject(&self, id: u64, through: bool, reject: &Reject) -> Acknowledged {
        match self {
            Self::Queue(subscription) => subscription.reject(id, through, reject),
            Self::Topic(subscription) => subscription.reject(id, through, reject),
        }
    }

    /// The subscriber never looked at these messages: when it ends, they are given back as if they
    /// had not been delivered.
    pub fn release(&self, ids: impl IntoIterator<Item = u64>) {
        match self {
            Self::Queue(subscription) => subscription.release(ids),
            Self::Topic(_) => {}
        }
    }

    /// Ends the subscription. `unsent` are its deliveries that were taken from the outbox and not
    /// written; `maybe_seen` says whether a part of them may have arrived all the same.
    pub fn close(self, unsent: Vec<Entry>, maybe_seen: bool) {
        match self {
            Self::Queue(subscription) => subscription.close(unsent, maybe_seen),
            Self::Topic(_) => {}
        }
    }
}

fn names<'a>(
    all: impl Iterator<Item = &'a Name>,
    after: Option<&str>,
    prefix: Option<&str>,
) -> Vec<Name> {
    let is_after = |name: &&Name| after.is_none_or(|after| name.as_str() > after);
    let begins = |name: &&Name| prefix.is_none_or(|prefix| name.as_str().starts_with(prefix));
    let mut names: Vec<Name> = all.filter(is_after).filter(begins).cloned().collect();
    names.sort_unstable();
    names
}
