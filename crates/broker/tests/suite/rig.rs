//! What the tests have in common.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{
    AckMode, Broker, Channel, Credit, Delivery, Entry, Outbox, Publication, QueueRule,
    QueueSettings, QueueStats, Settings, Subscription,
};
use journal::testing::{Fault, Loss, MemoryStorage, Operation};
use journal::{Options, Storage, StorageFile};
use kernel::{Destination, ManualClock, Message, Name, Timestamp};
use parking_lot::{Condvar, Mutex};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A journal with segments so small that tests see many of them.
pub fn small_journal() -> Options {
    Options {
        segment_bytes: 64 << 10,
        record_bytes_max: 24 << 10,
        pending_bytes_max: 16 << 10,
        ..Options::default()
    }
}

pub struct Rig {
    pub broker: Arc<Broker>,
    pub storage: MemoryStorage,
    pub clock: ManualClock,
    settings: Settings,
    options: Options,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        Self::on(MemoryStorage::new(7), settings, small_journal())
    }

    /// All queues have these settings.
    pub fn queues(settings: QueueSettings) -> Self {
        Self::with(Settings {
            queues: vec![rule("*", settings)],
            ..Settings::default()
        })
    }

    pub fn on(storage: MemoryStorage, settings: Settings, options: Options) -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_micros(1_000_000_000));
        let shared = Arc::new(storage.clone());
        let started = Broker::start(
            shared,
            options.clone(),
            settings.clone(),
            Arc::new(clock.clone()),
        );
        Self {
            broker: started.expect("it starts").0,
            storage,
            clock,
            settings,
            options,
        }
    }

    /// The power fails and comes back.
    pub fn crash(self, loss: Loss) -> Self {
        let storage = self.storage.restart(loss);
        storage.clear_faults();
        Self::on(storage, self.settings, self.options)
    }

    /// The next sync of messages fails.
    pub async fn fail_next_sync(&self) {
        // The segment that is prepared in the background has a sync too: that must be over.
        until_prepared(&self.broker, &self.storage).await;
        self.storage.fail(Operation::Sync, 0, Fault::InputOutput);
    }

    pub fn channel(&self, queue: &str) -> Channel {
        self.broker.channel(&to_queue(queue)).expect("a channel")
    }

    pub fn stats(&self, queue: &str) -> QueueStats {
        let queue = self.broker.find_queue(queue);
        queue.map(|queue| queue.stats()).unwrap_or_default()
    }

    /// Publishes one and waits until it is as safe as it should be.
    pub async fn publish(&self, queue: &str, body: &str, durable: bool) {
        self.publish_all(queue, &[body.to_owned()], durable).await;
    }

    pub async fn publish_all(&self, queue: &str, bodies: &[String], durable: bool) {
        let channel = self.channel(queue);
        let mut stored = None;
        for bodies in bodies.chunks(20) {
            let mut batch: Vec<_> = bodies.iter().map(|b| publication(b, durable)).collect();
            while !batch.is_empty() {
                self.broker.ready().await;
                let published = channel.publish(&mut batch);
                stored = stored.max(published.stored);
                match published.refused {
                    None | Some(broker::PublishError::Journal(broker::AppendError::NotReady)) => {}
                    Some(error) => panic!("refused: {error}"),
                }
            }
        }
        if let Some(position) = stored {
            self.wait(position).await;
        }
    }

    /// Waits until only that many records of the journal are needed: until everything that had to
    /// wait for the journal is written.
    pub async fn until_needed(&self, records: u64) {
        until("the journal needs no more", || {
            self.broker.tidy();
            let segments = self.broker.journal().segments();
            segments.iter().map(|segment| segment.keepers).sum::<u64>() == records
        })
        .await;
    }

    pub async fn wait(&self, position: broker::Position) {
        let wait = self.broker.journal().wait(position);
        let waited = tokio::time::timeout(TIMEOUT, wait).await;
        waited.expect("in time").expect("the journal works");
    }

    pub fn subscribe(&self, queue: &str, mode: AckMode) -> Reader {
        Reader::new(&self.channel(queue), mode, Credit::default())
    }

    /// Takes everything out of a queue, in order, and acknowledges it.
    pub async fn drain(&self, queue: &str) -> Vec<Entry> {
        let reader = self.subscribe(queue, AckMode::Client);
        let mut all = Vec::new();
        let mut stored = None;
        let started = Instant::now();
        loop {
            let entries = reader.take();
            if let Some(last) = entries.last() {
                stored = stored.max(reader.acknowledge(last.id, true).stored);
            }
            all.extend(entries);
            let stats = self.stats(queue);
            if stats.waiting + stats.unacknowledged == 0 {
                if let Some(position) = stored {
                    let _ = self.broker.journal().wait(position).await;
                }
                return all;
            }
            assert!(
                started.elapsed() < TIMEOUT,
                "the queue does not drain: {stats:?}"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn drain_bodies(&self, queue: &str) -> Vec<String> {
        bodies(&self.drain(queue).await)
    }
}

/// A subscription with the box that its deliveries come in.
pub struct Reader {
    pub subscription: Subscription,
    pub outbox: Arc<Outbox>,
}

impl Reader {
    pub fn new(channel: &Channel, mode: AckMode, credit: Credit) -> Self {
        let outbox = Arc::new(Outbox::default());
        let subscription = channel.subscribe(1, mode, credit, outbox.clone());
        Self {
            subscription,
            outbox,
        }
    }

    /// What is there now, as written to the subscriber.
    pub fn take(&self) -> Vec<Entry> {
        let deliveries = self.take_unwritten();
        self.subscription.sent(&deliveries);
        deliveries.into_iter().map(|d| d.entry).collect()
    }

    pub fn take_unwritten(&self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        self.outbox.take(&mut deliveries);
        deliveries
    }

    /// Waits until that many came.
    pub async fn expect(&self, count: usize) -> Vec<Entry> {
        let mut all = Vec::new();
        let started = Instant::now();
        while all.len() < count {
            all.extend(self.take());
            assert!(started.elapsed() < TIMEOUT, "{} of {count} came", all.len());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(all.len(), count, "too many came");
        all
    }

    pub fn acknowledge(&self, id: u64, through: bool) -> broker::Acknowledged {
        self.subscription.acknowledge(id, through)
    }

    pub fn retry(&self, id: u64, reason: &str) {
        let reason = reason.to_owned();
        let reject = broker::Reject::Retry { reason };
        assert_eq!(self.subscription.reject(id, false, &reject).messages, 1);
    }

    pub fn kill(&self, id: u64, reason: &str) {
        let reason = reason.to_owned();
        let reject = broker::Reject::Dead { reason };
        assert_eq!(self.subscription.reject(id, false, &reject).messages, 1);
    }
}

pub fn rule(name: &str, settings: QueueSettings) -> QueueRule {
    QueueRule {
        name: name.to_owned(),
        settings,
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

pub fn to_queue(text: &str) -> Destination {
    Destination::Queue(name(text))
}

pub fn to_topic(text: &str) -> Destination {
    Destination::Topic(name(text))
}

pub fn publication(body: &str, durable: bool) -> Publication {
    Publication {
        message: Message::new(body.to_owned()),
        durable,
    }
}

pub fn body(entry: &Entry) -> String {
    String::from_utf8(entry.message.body.to_vec()).expect("text")
}

pub fn bodies(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(body).collect()
}

pub fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("message {number}")).collect()
}

/// Waits for a condition.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the journal has its next segment, so that nothing goes on in the background.
pub async fn until_prepared(broker: &Broker, storage: &dyn Storage) {
    let is_segment = |name: &String| name.ends_with(".journal");
    let files = || storage.list().expect("a list").into_iter();
    let segments = || broker.journal().segments().len();
    let is_prepared = || files().filter(is_segment).count() > segments();
    until("the next segment is prepared", is_prepared).await;
}

/// A disk whose syncs, or whose new files, can be held back.
#[derive(Clone)]
pub struct GatedStorage {
    inner: MemoryStorage,
    pub syncs: Gate,
    pub creations: Gate,
}

#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn close(&self) {
        *self.0.0.lock() = true;
    }

    pub fn open(&self) {
        *self.0.0.lock() = false;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut is_closed = self.0.0.lock();
        while *is_closed {
            let timed_out = self.0.1.wait_for(&mut is_closed, TIMEOUT).timed_out();
            assert!(!timed_out, "the gate stays closed");
        }
    }
}

impl GatedStorage {
    pub fn new(inner: MemoryStorage) -> Self {
        Self {
            inner,
            syncs: Gate::default(),
            creations: Gate::default(),
        }
    }

    pub fn start(&self, settings: Settings) -> Arc<Broker> {
        let clock = Arc::new(broker::SystemClock);
        let storage = Arc::new(self.clone());
        let started = Broker::start(storage, small_journal(), settings, clock);
        started.expect("it starts").0
    }
}

impl Storage for GatedStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.gated(self.inner.open(name)?)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.creations.pass();
        self.gated(self.inner.create(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn random(&self) -> io::Result<u64> {
        self.inner.random()
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

impl GatedStorage {
    fn gated(&self, inner: Box<dyn StorageFile>) -> io::Result<Box<dyn StorageFile>> {
        let gate = self.syncs.clone();
        Ok(Box::new(GatedFile { inner, gate }))
    }
}

struct GatedFile {
    inner: Box<dyn StorageFile>,
    gate: Gate,
}

impl StorageFile for GatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, data)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.inner.allocate(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.inner.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        self.inner.bytes()
    }
}
