//! A queue: each message goes to one subscriber.

mod burial;
mod core;
mod core_lookup;
#[cfg(test)]
mod core_tests;
mod on_disk;
mod publish;
mod storage;
mod subscriber;
mod subscription;
mod unacked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use journal::Position;
use kernel::{Message, Name, Timestamp};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::burial::Unburied;
pub use self::core::Totals;
pub(crate) use self::core::{Full, Place, QueueCore};
pub(crate) use self::on_disk::{OnDisk, StoredAt, Taken};
pub use self::subscriber::Credit;
pub(crate) use self::subscriber::Subscriber;
pub use self::subscription::{Acknowledged, QueueSubscription};
use crate::delivery::{AckMode, Entry, Outbox};
use crate::error::PublishError;
use crate::shared::Shared;

pub(crate) type Core = QueueCore<Arc<Outbox>>;

/// A message to be published, and how long it is to last.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The message.
    pub message: Message,
    /// Whether the sender wants it to survive a restart.
    pub durable: bool,
}

/// What became of a batch of publications.
#[derive(Debug, Default)]
pub struct Published {
    /// How many were taken in, from the start of the batch.
    pub accepted: usize,
    /// All of them are on disk once the journal is synced up to here; `None` if memory is all
    /// that was promised.
    pub stored: Option<Position>,
    /// Why the next one was refused; those behind it were not tried. They all stay in the batch.
    pub refused: Option<PublishError>,
}

/// How a subscriber turns a message down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Try again, with another subscriber if there is one, until the tries are used up.
    Retry {
        /// What went wrong, for the dead letters.
        reason: String,
    },
    /// Straight to the dead letters.
    Dead {
        /// What went wrong.
        reason: String,
    },
}

/// A queue of the broker.
pub struct Queue {
    name: Name,
    /// The order in which several queues are locked; the dead letters come last.
    pub(crate) rank: u64,
    pub(crate) core: Mutex<Core>,
    pub(crate) shared: Arc<Shared>,
    /// When it was seen in use, in microseconds. Outside the lock, because names are forgotten
    /// with all of them locked, and nothing may wait for a queue then.
    last_used: AtomicU64,
    /// Whether it is on the list of those to be served after the next sync.
    pub(crate) is_listed: AtomicBool,
}

/// What has to happen after a queue was served and its lock let go.
pub(crate) struct FollowUp {
    /// Messages wait until the journal is synced further than this.
    held_at: Option<Position>,
    load: Option<Vec<OnDisk>>,
}

impl Queue {
    pub(crate) fn new(name: Name, rank: u64, shared: Arc<Shared>) -> Self {
        let now = shared.clock.now();
        let settings = shared.settings().for_queue(name.as_str());
        // Ids go on from the clock, so that they do not begin again when a queue that was
        // forgotten comes back.
        let core = QueueCore::new(settings, now.as_micros());
        Self {
            name,
            rank,
            core: Mutex::new(core),
            shared,
            last_used: AtomicU64::new(now.as_micros()),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Serves subscribers and asks for more from disk, then lets go of the lock.
    pub(crate) fn dispatch(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        let follow_up = self.serve(&mut core);
        drop(core);
        self.follow_up(follow_up);
    }

    /// Serves subscribers. What it gives has to go to [`Queue::follow_up`] once no queue that is
    /// locked later than this one is locked.
    pub(crate) fn serve(&self, core: &mut Core) -> FollowUp {
        let before = core.memory_bytes();
        let durable = self.shared.journal.durable();
        let mut held = core.dispatch(durable.position);
        if held && durable.failed {
            self.drop_uncommitted(core);
            held = core.dispatch(durable.position);
        }
        self.shared.memory_shrank(before - core.memory_bytes());
        FollowUp {
            held_at: held.then_some(durable.position),
            load: core.start_load(self.shared.memory_is_short(0)),
        }
    }

    /// The journal failed before a commit was permanent, so what it sent must never leave. What
    /// waits behind it can go on.
    fn drop_uncommitted(&self, core: &mut Core) {
        let dropped = core.take_held().len();
        self.shared.counters.uncommitted.inc_by(dropped as u64);
        tracing::error!(
            queue = %self.name, messages = dropped,
            "messages are dropped because the commits that sent them could not be stored"
        );
    }

    pub(crate) fn follow_up(self: &Arc<Self>, mut follow_up: FollowUp) {
        loop {
            if let Some(batch) = follow_up.load {
                self.load(batch);
            }
            let Some(held_at) = follow_up.held_at else {
                return;
            };
            self.shared.hold(self);
            // A sync that ended before the queue was on the list would have missed it.
            if self.shared.journal.durable().position == held_at {
                return;
            }
            follow_up = self.serve(&mut self.core.lock());
        }
    }

    /// Serves subscribers after the journal was synced further.
    pub(crate) fn synced(self: &Arc<Self>) {
        self.dispatch(self.core.lock());
    }

    /// Adds a subscriber. `token` is the session's own number for it.
    pub fn subscribe(
        self: &Arc<Self>,
        token: u32,
        mode: AckMode,
        credit: Credit,
        outbox: Arc<Outbox>,
    ) -> QueueSubscription {
        let mut core = self.core.lock();
        let index = core.subscribe(token, mode, credit, outbox.clone());
        self.dispatch(core);
        QueueSubscription::new(self.clone(), index, token, mode, outbox)
    }

    /// Adds a subscriber that gets nothing as long as another one that was added so before it is
    /// there. When that one ends, what it had not acknowledged comes first.
    pub fn subscribe_in_turn(
        self: &Arc<Self>,
        token: u32,
        mode: AckMode,
        credit: Credit,
        outbox: Arc<Outbox>,
    ) -> QueueSubscription {
        let mut core = self.core.lock();
        let index = core.subscribe_in_turn(token, mode, credit, outbox.clone());
        self.dispatch(core);
        QueueSubscription::new(self.clone(), index, token, mode, outbox)
    }

    /// What waits, oldest first, up to `messages_max`, after the message with the id `after`. What
    /// is being read from disk for a subscriber right now is left out.
    pub fn peek(&self, after: u64, messages_max: usize) -> Vec<Entry> {
        let core = self.core.lock();
        let mut found: Vec<Entry> = core
            .waiting_in_memory()
            .filter(|entry| entry.id > after)
            .take(messages_max)
            .cloned()
            .collect();
        let mut on_disk: Vec<OnDisk> = core
            .waiting_on_disk()
            .filter(|entry| entry.id > after)
            .take(messages_max)
            .copied()
            .collect();
        drop(core);
        // All of memory comes before the disk, except while the journal fails.
        let last = found.last().map_or(0, |entry| entry.id);
        let among = on_disk.partition_point(|entry| entry.id < last);
        on_disk.truncate(among.max(messages_max - found.len()));
        found.extend(on_disk.iter().filter_map(|e| self.read_from_disk(e)));
        found.sort_by_key(|entry| entry.id);
        found.truncate(messages_max);
        found
    }

    /// Removes everything that waits; says how much that was.
    pub fn purge(&self) -> usize {
        self.purge_locked(&mut self.core.lock())
    }

    fn purge_locked(&self, core: &mut Core) -> usize {
        let before = core.memory_bytes();
        let (memory, disk, loading) = core.clear();
        self.shared.memory_shrank(before);
        let settled = memory
            .iter()
            .map(Settled::from)
            .chain(disk.iter().map(Settled::from));
        self.shared.settle(&self.name, settled);
        memory.len() + disk.len() + loading
    }

    /// Ends the queue: what waits or is unacknowledged goes, and its subscribers get nothing
    /// more. Says how many messages went.
    pub fn close(&self) -> usize {
        let mut core = self.core.lock();
        let waiting = self.purge_locked(&mut core);
        let taken = core.expel_all(|token, outbox| outbox.take_subscription(token));
        let settled = taken.iter().map(Settled::from);
        self.shared.settle(&self.name, settled);
        waiting + taken.len()
    }

    pub(crate) fn is_unused_since(&self, before: Timestamp) -> bool {
        let last_used = self.last_used.load(Ordering::Relaxed);
        last_used <= before.as_micros() && self.core.lock().is_unused()
    }

    pub(crate) fn touch(&self) {
        let now = self.shared.clock.now().as_micros();
        self.last_used.store(now, Ordering::Relaxed);
    }

    /// How it is doing.
    pub fn stats(&self) -> QueueStats {
        let core = self.core.lock();
        QueueStats {
            waiting: core.waiting(),
            on_disk: core.on_disk(),
            unacknowledged: core.in_flight(),
            bytes: core.total_bytes(),
            memory_bytes: core.memory_bytes(),
            subscribers: core.subscriber_count(),
            oldest: core.oldest(),
            totals: core.totals,
        }
    }
}

impl Publication {
    pub(crate) fn size_bytes(&self) -> usize {
        self.message.len_bytes() + size_of::<Entry>()
    }
}

/// How a queue is doing.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    /// Messages that wait for a subscriber.
    pub waiting: usize,
    /// How many of these wait on disk.
    pub on_disk: usize,
    /// Messages that a subscriber has and has not acknowledged.
    pub unacknowledged: usize,
    /// Bytes of all these.
    pub bytes: u64,
    /// Bytes of the waiting ones that are in memory.
    pub memory_bytes: usize,
    /// How many subscribers there are.
    pub subscribers: usize,
    /// When the oldest was taken in, as far as memory tells.
    pub oldest: Option<Timestamp>,
    /// What happened since the queue was made.
    pub totals: Totals,
}

/// A message that is done, and what the journal holds of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub id: u64,
    pub durable: bool,
    pub stored: Option<Position>,
}

impl From<&Entry> for Settled {
    fn from(entry: &Entry) -> Self {
        Self {
            id: entry.id,
            durable: entry.durable,
            stored: entry.stored,
        }
    }
}
