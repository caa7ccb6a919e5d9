//! What all queues and topics of a broker have in common.
//!
//! Locks, in the order in which they are taken: that of the documents; a bucket; queues in the order of their ranks, the
//! dead letters last; the lists of what is held or could not be written; a topic; an outbox; the
//! journal. The maps of names are taken alone, and nothing waits for a queue while they are locked
//! for writing: only queues that nobody else holds are looked into.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use journal::{AppendError, Journal, Position};
use kernel::{Clock, Name};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::runtime::Handle;

use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::queue::{Publication, Queue, Settled, Unburied};
use crate::records::RecordWriter;
use crate::settings::Settings;
use crate::state::StateMemory;
use crate::topic::Topic;

/// A message for a topic that may leave only after a sync.
pub(crate) struct HeldTopic {
    pub topic: Arc<Topic>,
    pub publication: Publication,
    pub until: Position,
}

/// How many ids stand in one record at most, so that it is not too long for any journal.
const SETTLED_PER_RECORD: usize = 1_024;

/// How many acknowledgements wait for a journal that takes none at the moment.
const UNSETTLED_MAX: usize = 1 << 20;

/// How long housekeeping waits for the journal, and how often it looks.
const READY_TIMEOUT: Duration = Duration::from_secs(1);
const READY_PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Shared {
    pub journal: Journal,
    pub clock: Arc<dyn Clock>,
    /// What can be changed while the broker runs.
    settings: RwLock<Arc<Settings>>,
    /// Those of the settings that every message or commit asks for.
    memory_bytes_max: AtomicUsize,
    bucket_bytes_max: AtomicUsize,
    buckets_max: AtomicUsize,
    pub counters: Counters,
    pub runtime: Handle,
    memory_bytes: AtomicUsize,
    /// The memory of buckets.
    pub state: StateMemory,
    /// Queues with messages that wait for the next sync before they may leave.
    held: Mutex<Vec<Arc<Queue>>>,
    held_topics: Mutex<VecDeque<HeldTopic>>,
    /// Acknowledgements that the journal could not take yet.
    unsettled: Mutex<Vec<(Name, Vec<Settled>)>>,
    /// Dead letters that the journal could not take yet.
    unburied: Mutex<Vec<Unburied>>,
    dead_letters: RwLock<Option<Arc<Queue>>>,
}

/// Whether the same can be tried again later.
pub(crate) fn is_passing(error: &AppendError) -> bool {
    matches!(error, AppendError::NotReady | AppendError::DiskFull { .. })
}

impl Shared {
    pub fn new(
        journal: Journal,
        clock: Arc<dyn Clock>,
        settings: Settings,
        runtime: Handle,
    ) -> Self {
        Self {
            journal,
            clock,
            memory_bytes_max: AtomicUsize::new(settings.memory_bytes_max),
            bucket_bytes_max: AtomicUsize::new(settings.bucket_bytes_max),
            buckets_max: AtomicUsize::new(settings.buckets_max),
            state: StateMemory::new(settings.state.memory_bytes_max),
            settings: RwLock::new(Arc::new(settings)),
            counters: Counters::default(),
            runtime,
            memory_bytes: AtomicUsize::new(0),
            held: Mutex::default(),
            held_topics: Mutex::default(),
            unsettled: Mutex::default(),
            unburied: Mutex::default(),
            dead_letters: RwLock::default(),
        }
    }

    pub fn set_dead_letters(&self, queue: Arc<Queue>) {
        *self.dead_letters.write() = Some(queue);
    }

    /// The queue of the dead letters, as long as the broker is there.
    pub fn dead_letters(&self) -> Option<Arc<Queue>> {
        self.dead_letters.read().clone()
    }

    /// Lets go of queues and topics, which hold this in turn.
    pub fn close(&self) {
        self.dead_letters.write().take();
        self.held.lock().clear();
        self.held_topics.lock().clear();
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// From now on these hold. Gives those that held before.
    pub fn set_settings(&self, settings: Settings) -> Arc<Settings> {
        let set = |limit: &AtomicUsize, to| limit.store(to, Ordering::Relaxed);
        set(&self.memory_bytes_max, settings.memory_bytes_max);
        set(&self.bucket_bytes_max, settings.bucket_bytes_max);
        set(&self.buckets_max, settings.buckets_max);
        self.state.set_bytes_max(settings.state.memory_bytes_max);
        std::mem::replace(&mut *self.settings.write(), Arc::new(settings))
    }

    pub fn bucket_bytes_max(&self) -> usize {
        self.bucket_bytes_max.load(Ordering::Relaxed)
    }

    pub fn buckets_max(&self) -> usize {
        self.buckets_max.load(Ordering::Relaxed)
    }

    pub fn memory_is_short(&self, bytes: usize) -> bool {
        let bytes_max = self.memory_bytes_max.load(Ordering::Relaxed);
        self.memory_bytes.load(Ordering::Relaxed) + bytes > bytes_max
    }

    /// Notes how long the last of some deliveries took: a sample per batch costs next to nothing.
    pub fn observe_delivery(&self, deliveries: &[Delivery]) {
        if let Some(delivery) = deliveries.last() {
            let taken_in = delivery.entry.message.published_at;
            let took = self.clock.now().since(taken_in);
            self.counters.delivery_seconds.observe(took.as_secs_f64());
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub fn memory_grew(&self, bytes: usize) {
        if bytes > 0 {
            self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn memory_shrank(&self, bytes: usize) {
        if bytes > 0 {
            self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Appends one record. `keepers` is the number of things in it that must not be forgotten; a
    /// record without any may use the space that is kept in reserve for when the disk is full.
    pub fn append(
        &self,
        len_hint: usize,
        keepers: u32,
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> Result<Position, AppendError> {
        self.journal.append_many(|appender| {
            appender.append_with(len_hint, keepers, |buffer| write(&mut RecordWriter(buffer)))
        })?
    }

    /// Writes that messages are done and lets the journal forget them. If it can take nothing
    /// now, that is written later; if it never can, they come again, marked as redelivered, after
    /// a restart. Until then they stay done.
    pub fn settle(
        &self,
        queue: &Name,
        settled: impl Iterator<Item = Settled> + Clone,
    ) -> Option<Position> {
        let transient = settled.clone().filter(|settled| !settled.durable);
        self.release(transient.filter_map(|settled| settled.stored));
        let durable: Vec<Settled> = settled.filter(|settled| settled.durable).collect();
        let mut stored = None;
        for part in durable.chunks(SETTLED_PER_RECORD) {
            stored = stored.max(self.settle_durable(queue, part));
        }
        stored
    }

    fn settle_durable(&self, queue: &Name, settled: &[Settled]) -> Option<Position> {
        let hint = 16 + queue.as_str().len() + settled.len() * 8;
        let appended = self.append(hint, 0, |writer| {
            writer.settle(queue, settled.iter().map(|settled| settled.id));
        });
        match appended {
            Ok(position) => {
                self.release(settled.iter().filter_map(|settled| settled.stored));
                Some(position)
            }
            Err(error) => {
                self.settle_later(queue, settled, &error);
                None
            }
        }
    }

    fn settle_later(&self, queue: &Name, settled: &[Settled], error: &AppendError) {
        let mut unsettled = self.unsettled.lock();
        let waiting: usize = unsettled.iter().map(|(_, settled)| settled.len()).sum();
        let has_room = waiting + settled.len() <= UNSETTLED_MAX;
        if has_room && is_passing(error) {
            match unsettled.last_mut().filter(|(name, _)| name == queue) {
                Some((_, list)) => list.extend_from_slice(settled),
                None => unsettled.push((queue.clone(), settled.to_vec())),
            }
            return;
        }
        tracing::error!(
            %queue, messages = settled.len(),
            "acknowledgements cannot be stored; these messages come again after a restart: {error}"
        );
    }

    /// Stores a dead letter when the journal takes something again.
    pub fn bury_later(&self, unburied: Unburied) {
        let mut waiting = self.unburied.lock();
        if waiting.len() < UNSETTLED_MAX {
            waiting.push(unburied);
        }
    }

    /// Writes what the journal could not take before.
    pub fn write_again(&self) {
        if !self.journal.is_ready() {
            return;
        }
        let unsettled = std::mem::take(&mut *self.unsettled.lock());
        for (queue, settled) in unsettled {
            self.settle(&queue, settled.iter().copied());
        }
        let mut unburied = std::mem::take(&mut *self.unburied.lock());
        if let Some(dead) = self.dead_letters() {
            unburied.retain(|unburied| !dead.bury_again(unburied));
            self.unburied.lock().append(&mut unburied);
        }
    }

    /// These records are needed by one less.
    pub fn release(&self, positions: impl Iterator<Item = Position>) {
        let mut run: Option<(Position, u32)> = None;
        for position in positions {
            run = match run {
                Some((first, count)) if first.segment() == position.segment() => {
                    Some((first, count + 1))
                }
                Some((first, count)) => {
                    self.journal.release(first, count);
                    Some((position, 1))
                }
                None => Some((position, 1)),
            };
        }
        if let Some((first, count)) = run {
            self.journal.release(first, count);
        }
    }

    /// Waits, for a limited time, until the journal can take more. Only for threads that may.
    pub fn wait_until_ready(&self) -> bool {
        let started = Instant::now();
        while !self.journal.is_ready() {
            if started.elapsed() > READY_TIMEOUT || self.journal.durable().failed {
                return false;
            }
            std::thread::sleep(READY_PAUSE);
        }
        true
    }

    /// Remembers a queue that has to be served after the next sync.
    pub fn hold(&self, queue: &Arc<Queue>) {
        if !queue.is_listed.swap(true, Ordering::AcqRel) {
            self.held.lock().push(queue.clone());
        }
    }

    /// Publishes to a topic now, or after the sync that it waits for. Order is kept.
    pub fn publish_when_synced(&self, held: HeldTopic) {
        let mut waiting = self.held_topics.lock();
        waiting.push_back(held);
        self.release_topics(waiting);
    }

    fn release_topics(&self, mut waiting: MutexGuard<'_, VecDeque<HeldTopic>>) {
        let durable = self.journal.durable();
        while let Some(held) = waiting.pop_front() {
            if durable.covers(held.until) {
                held.topic.publish(&mut vec![held.publication]);
            } else if durable.failed {
                // Its commit will never be permanent. What comes behind it can go on.
                self.counters.uncommitted.inc();
            } else {
                waiting.push_front(held);
                return;
            }
        }
    }

    /// Lets go of everything that waited for the sync that just ended.
    pub fn synced(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        for queue in held {
            // First off the list, then served, so that it can be put on it again.
            queue.is_listed.store(false, Ordering::Release);
            queue.synced();
        }
        self.release_topics(self.held_topics.lock());
        self.write_again();
    }
}
