//! The whole contract from two halves: an engine that only delivers, and a shared [`Store`].
//!
//! # A commit
//!
//! 1. One transaction in the store writes state, outbox and the ids of what was consumed, if the
//!    epoch is current and nothing of it was consumed before. From here on the commit is permanent,
//!    and [`Bus::submit`] returns.
//! 2. The outbox is published with confirmation, under ids that were fixed in the transaction; again
//!    and again until the engine takes it. What the engine refuses for good goes to the dead letters.
//! 3. The input is acknowledged, and [`Bus::commit`] returns.
//! 4. The store is told what was published: with the next commit of the same bucket, or after a moment
//!    without one.
//!
//! A crash between any two of these steps repeats sends under the same ids, or brings the input once
//! more. Who raises the epoch of a bucket first publishes what is left in its outbox. Subscriptions
//! acknowledge at once, and count, what was consumed before; what slips through, because two have it
//! in hand at the same time, is refused by the transaction as [not held](BusError::NotHeld). So each
//! message changes Hivewire's state once. Consumers that only acknowledge, and those outside, get
//! everything at least once.
//!
//! # Ids
//!
//! What a commit sends has the header `message-id` `hw:bucket.epoch.stream.number`; one that the
//! worker had set, or passed on from its input, is replaced, since it would make different messages
//! look like one. A stream is what an owner sends to one destination, so that its receiver sees
//! numbers without gaps, and a high-water mark says it all.
//!
//! What was consumed is remembered for each queue, not for each bucket of state: in a keyed stage the
//! two are the same, and in a pool the copies of a message may reach different workers. Topics have
//! no memory; there each subscriber has its own copies. Messages of outside clients are known by the
//! id that they or the engine gave them, for as long as the store keeps such ids; without one they
//! cannot be told apart.
//!
//! # Commits without an owner
//!
//! They have no state, but input and sends must still happen together. Without sends there is nothing
//! to repeat: the input is acknowledged, and that is all. With sends they are committed like the
//! others: in the bucket of the owner who last consumed from the same subscription, if there is one, so
//! that a worker's turns with and without state keep their order; otherwise in a bucket that this
//! process makes for itself and for each queue that it consumes from, so that forwarding keeps its
//! order. Nobody raises the epoch of such a bucket when the process is gone. So every process looks now
//! and then for outboxes that have waited for long, whoever made them, and publishes them. Should their
//! owner live after all, that only repeats sends under the same ids.

mod lane;
mod outgoing;
mod subscription;
mod sweep;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::lane::{Lane, Settled, Turn};
use self::subscription::StoredSubscription;
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::commit::{Commit, Consumed, Owner, Submitted};
use crate::contract::{Bus, QueueSettings, Subscription};
use crate::deadline::Deadline;
use crate::delivery::Receipt;
use crate::document::{Document, Put};
use crate::error::BusError;
use crate::store::{ConsumedIds, MessageId, OWNERLESS_PREFIX, Position, Store};

/// How many buckets this process remembers to own; others are looked up in the store again.
const LANES_MAX: usize = 100_000;

/// How a [`StoredBus`] looks after what others left.
#[derive(Clone, Debug)]
pub struct StoredSettings {
    /// An outbox that has waited that long is published by whoever finds it.
    pub abandoned_after_ms: u64,
}

impl Default for StoredSettings {
    fn default() -> Self {
        Self {
            abandoned_after_ms: 30_000,
        }
    }
}

/// What a [`StoredBus`] has met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCounts {
    /// Deliveries that were acknowledged at once, since they were consumed before.
    pub repeats_dropped: u64,
    /// Messages that others had committed and that were published here.
    pub taken_over: u64,
    /// Sends that the engine refused for good; they are among the dead letters.
    pub refused_sends: u64,
}

/// What all parts share.
struct Shared {
    engine: Arc<dyn Bus>,
    store: Arc<dyn Store>,
    repeats_dropped: AtomicU64,
    taken_over: AtomicU64,
    refused_sends: AtomicU64,
}

/// An engine that only delivers, with commits in a shared store.
pub struct StoredBus {
    shared: Arc<Shared>,
    /// Buckets that were raised here, or committed to.
    owned: Mutex<HashMap<Name, Arc<Lane>>>,
    /// Buckets of our own for commits without an owner, by the queue that they consume from.
    ownerless: Mutex<HashMap<Option<Name>, Arc<Lane>>>,
    /// Everything that runs on its own ends with the bus.
    tasks: Mutex<JoinSet<()>>,
}

impl StoredBus {
    /// A bus over this engine and this store, with the default settings; must be called within a
    /// tokio runtime.
    pub fn new(engine: Arc<dyn Bus>, store: Arc<dyn Store>) -> Self {
        Self::with_settings(engine, store, &StoredSettings::default())
    }

    /// A bus over this engine and this store; must be called within a tokio runtime.
    pub fn with_settings(
        engine: Arc<dyn Bus>,
        store: Arc<dyn Store>,
        settings: &StoredSettings,
    ) -> Self {
        let shared = Arc::new(Shared {
            engine,
            store,
            repeats_dropped: AtomicU64::new(0),
            taken_over: AtomicU64::new(0),
            refused_sends: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        let abandoned_after = Duration::from_millis(settings.abandoned_after_ms);
        tasks.spawn(sweep::run(shared.clone(), abandoned_after));
        Self {
            shared,
            owned: Mutex::default(),
            ownerless: Mutex::default(),
            tasks: Mutex::new(tasks),
        }
    }

    /// What was met so far.
    pub fn counts(&self) -> StoredCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoredCounts {
            repeats_dropped: count(&self.shared.repeats_dropped),
            taken_over: count(&self.shared.taken_over),
            refused_sends: count(&self.shared.refused_sends),
        }
    }

    /// The lower of both promises: a commit needs store and engine.
    fn level(&self) -> AckLevel {
        let engine = self.shared.engine.capabilities().durable_level;
        engine.min(self.shared.store.level())
    }

    /// Does the transaction; gives what tells when the rest is done, if there is a rest.
    async fn begin(
        &self,
        commit: &Commit<'_>,
        deadline: Deadline,
    ) -> Result<Option<oneshot::Receiver<()>>, BusError> {
        let input = Input::of(&commit.consumed)?;
        let done = match &commit.owner {
            Some(owner) => {
                let lane = self.lane_of(owner, deadline).await?;
                input.wait_for_ownerless(deadline).await?;
                let done = self.commit_in(&lane, commit, &input, deadline).await?;
                input.remember_owner(&lane);
                done
            }
            None => self.commit_ownerless(commit, &input, deadline).await?,
        };
        input.forget();
        Ok(done)
    }

    /// Commits in a lane, which is given up if it cannot be used any more.
    async fn commit_in(
        &self,
        lane: &Arc<Lane>,
        commit: &Commit<'_>,
        input: &Input<'_>,
        deadline: Deadline,
    ) -> Result<Option<oneshot::Receiver<()>>, BusError> {
        let turn = Turn {
            writes: commit.writes.clone(),
            sends: &commit.sends,
            consumed: input.ids(),
            settled: input.settled(),
        };
        let outcome = lane.commit(&self.shared, turn, deadline).await;
        match outcome {
            Ok(_) => self.run(lane),
            Err(BusError::Fenced { .. } | BusError::InDoubt { .. }) => self.give_up(lane),
            Err(BusError::NotHeld { .. }) => input.drop_consumed(deadline).await,
            Err(_) => {}
        }
        outcome
    }

    fn give_up(&self, lane: &Arc<Lane>) {
        let is_it = |other: &Arc<Lane>| Arc::ptr_eq(lane, other);
        let mut owned = self.owned.lock();
        if owned.get(&lane.bucket).is_some_and(is_it) {
            owned.remove(&lane.bucket);
        }
        self.ownerless.lock().retain(|_, other| !is_it(other));
    }

    /// The lane of a bucket in the epoch of its owner.
    async fn lane_of(&self, owner: &Owner, deadline: Deadline) -> Result<Arc<Lane>, BusError> {
        let known = self.owned.lock().get(&owner.bucket).cloned();
        if let Some(lane) = known.filter(|lane| lane.epoch == owner.epoch) {
            return Ok(lane);
        }
        // Raised by another client of the same owner, or by nobody.
        let store = &self.shared.store;
        let position = store.position(&owner.bucket, deadline.left()).await?;
        if position.epoch != owner.epoch {
            return Err(BusError::Fenced {
                bucket: owner.bucket.clone(),
                given: owner.epoch,
                current: position.epoch,
            });
        }
        // What is marked as published later includes what is there now.
        self.take_over(&owner.bucket, deadline).await?;
        Ok(self.remember(&owner.bucket, position))
    }

    fn remember(&self, bucket: &Name, position: Position) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(bucket.clone(), position));
        let mut owned = self.owned.lock();
        if owned.len() >= LANES_MAX {
            owned.retain(|_, lane| lane.is_busy());
        }
        owned.insert(bucket.clone(), lane.clone());
        lane
    }

    async fn commit_ownerless(
        &self,
        commit: &Commit<'_>,
        input: &Input<'_>,
        deadline: Deadline,
    ) -> Result<Option<oneshot::Receiver<()>>, BusError> {
        if let Some(lane) = input.owner() {
            match self.commit_in(&lane, commit, input, deadline).await {
                // It has another owner by now; but this commit needs none.
                Err(BusError::Fenced { .. }) => input.forget_owner(),
                outcome => return outcome,
            }
        }
        let lane = self.ownerless_lane(&input.queue(), deadline).await?;
        match self.commit_in(&lane, commit, input, deadline).await {
            // The store had forgotten the bucket, which nobody else knows. The next commit gets one
            // of a new name, so that no id is ever given twice.
            Err(BusError::Fenced { .. }) => {
                Err(deadline.timeout("a commit", "its bucket had been idle for too long"))
            }
            Ok(done) => {
                input.remember_ownerless(&lane);
                Ok(done)
            }
            Err(error) => Err(error),
        }
    }

    async fn ownerless_lane(
        &self,
        queue: &Option<Name>,
        deadline: Deadline,
    ) -> Result<Arc<Lane>, BusError> {
        if let Some(lane) = self.ownerless.lock().get(queue) {
            return Ok(lane.clone());
        }
        // It is part of every id that is sent, so it is short. Should two ever choose the same one, their
        // epochs differ.
        let name = format!("{OWNERLESS_PREFIX}{:x}", fastrand::u64(..));
        let bucket = Name::new(&name).map_err(|error| BusError::Refused {
            reason: error.to_string(),
        })?;
        let store = &self.shared.store;
        let epoch = store.raise_epoch(&bucket, deadline.left()).await?;
        let mut ownerless = self.ownerless.lock();
        if ownerless.len() >= LANES_MAX {
            ownerless.retain(|_, lane| lane.is_busy());
        }
        // Two may have come here at once; then one bucket is never used.
        let lane = ownerless
            .entry(queue.clone())
            .or_insert_with(|| Arc::new(Lane::new(bucket, Position { epoch, number: 0 })));
        Ok(lane.clone())
    }

    /// Lets a lane do what waits in it, unless it does already.
    fn run(&self, lane: &Arc<Lane>) {
        if lane.begins_to_run() {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(lane::run(lane.clone(), self.shared.clone()));
        }
    }

    /// Publishes what is left in the outbox of a bucket.
    async fn take_over(&self, bucket: &Name, deadline: Deadline) -> Result<(), BusError> {
        let taking = outgoing::take_over(&self.shared, bucket, deadline.left());
        match deadline.limit(taking).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let reason = "what was committed before cannot be published yet";
                Err(deadline.timeout("taking a bucket over", reason))
            }
        }
    }
}

/// The messages that a commit consumes.
struct Input<'a> {
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    subscription: &'a StoredSubscription,
    receipts: &'a [Receipt],
    ids: Vec<MessageId>,
}

impl<'a> Input<'a> {
    /// Refuses what is not held any more.
    fn of(consumed: &'a [Consumed<'_>]) -> Result<Self, BusError> {
        let part = |one: &'a Consumed<'_>| {
            let subscription = StoredSubscription::of(one.subscription)?;
            Ok(Part {
                subscription,
                receipts: &one.receipts,
                ids: subscription.ids_of(&one.receipts)?,
            })
        };
        let parts = consumed.iter().map(part).collect::<Result<_, BusError>>()?;
        Ok(Self { parts })
    }

    fn queue(&self) -> Option<Name> {
        let mut queues = self.parts.iter().filter_map(|p| p.subscription.queue());
        queues.next().cloned()
    }

    fn ids(&self) -> Vec<ConsumedIds> {
        let of_queue = |part: &Part<'_>| {
            Some(ConsumedIds {
                queue: part.subscription.queue()?.clone(),
                ids: part.ids.clone(),
            })
        };
        self.parts.iter().filter_map(of_queue).collect()
    }

    fn settled(&self) -> Vec<Settled> {
        let settled = |part: &Part<'_>| Settled {
            subscription: part.subscription.inner(),
            receipts: part.receipts.to_vec(),
        };
        self.parts.iter().map(settled).collect()
    }

    /// The bucket of the owner who last consumed from here.
    fn owner(&self) -> Option<Arc<Lane>> {
        let mut lanes = self
            .parts
            .iter()
            .filter_map(|p| p.subscription.lanes().owner);
        lanes.next()
    }

    fn remember_owner(&self, lane: &Arc<Lane>) {
        for part in &self.parts {
            part.subscription.change_lanes(|lanes| {
                lanes.owner = Some(lane.clone());
                lanes.ownerless = None;
            });
        }
    }

    fn forget_owner(&self) {
        for part in &self.parts {
            part.subscription.change_lanes(|lanes| lanes.owner = None);
        }
    }

    fn remember_ownerless(&self, lane: &Arc<Lane>) {
        for part in &self.parts {
            part.subscription
                .change_lanes(|lanes| lanes.ownerless = Some(lane.clone()));
        }
    }

    /// What was committed without an owner leaves before what its owner commits now.
    async fn wait_for_ownerless(&self, deadline: Deadline) -> Result<(), BusError> {
        for part in &self.parts {
            if let Some(lane) = part.subscription.lanes().ownerless {
                lane.all_published(deadline).await?;
            }
        }
        Ok(())
    }

    /// What somebody else consumed meanwhile is not held here any longer.
    async fn drop_consumed(&self, deadline: Deadline) {
        for part in &self.parts {
            let receipts = part.receipts;
            part.subscription.drop_consumed(receipts, deadline).await;
        }
    }

    async fn acknowledge(&self, deadline: Deadline) -> Result<(), BusError> {
        for part in &self.parts {
            let left = deadline.left();
            part.subscription.acknowledge(part.receipts, left).await?;
        }
        Ok(())
    }

    fn forget(&self) {
        for part in &self.parts {
            part.subscription.forget(part.receipts);
        }
    }
}

#[async_trait]
impl Bus for StoredBus {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            commit: Given::Yes,
            ..self.shared.engine.capabilities()
        }
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        self.shared.engine.declare(queue, settings, timeout).await
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        self.shared.engine.publish(to, batch, timeout).await
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let engine = &self.shared.engine;
        let inner = engine.subscribe(from, credit_messages, timeout).await?;
        let subscription = StoredSubscription::new(self.shared.clone(), from, inner.into());
        Ok(Box::new(subscription))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        let deadline = Deadline::after(timeout);
        if is_acknowledgement(commit)? {
            Input::of(&commit.consumed)?.acknowledge(deadline).await?;
            return Ok(AckLevel::Memory);
        }
        if let Some(done) = self.begin(commit, deadline).await? {
            // It is permanent: what takes longer goes on without the caller.
            let _ = deadline.limit(done).await;
        }
        Ok(self.level())
    }

    async fn submit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<Submitted, BusError> {
        let deadline = Deadline::after(timeout);
        if is_acknowledgement(commit)? {
            Input::of(&commit.consumed)?.acknowledge(deadline).await?;
            return Ok(Submitted::Done(AckLevel::Memory));
        }
        self.begin(commit, deadline).await?;
        Ok(Submitted::Done(self.level()))
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let deadline = Deadline::after(timeout);
        let store = &self.shared.store;
        let epoch = store.raise_epoch(bucket, deadline.left()).await?;
        self.take_over(bucket, deadline).await?;
        self.remember(bucket, Position { epoch, number: 0 });
        Ok(epoch)
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        self.shared.store.state(bucket, key, timeout).await
    }

    async fn states(
        &self,
        bucket: &Name,
        keys: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<Option<Bytes>>, BusError> {
        self.shared.store.states(bucket, keys, timeout).await
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let store = &self.shared.store;
        store.scan(bucket, after, pairs_max, timeout).await
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        self.shared.store.document(name, timeout).await
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        let store = &self.shared.store;
        store
            .put_document(name, expected_revision, body, timeout)
            .await
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let store = &self.shared.store;
        store.documents(prefix, after, documents_max, timeout).await
    }
}

/// Whether a commit only consumes. A commit that writes state must name its owner.
fn is_acknowledgement(commit: &Commit<'_>) -> Result<bool, BusError> {
    if commit.owner.is_none() && !commit.writes.is_empty() {
        let reason = "a commit that writes state must name its owner".to_owned();
        return Err(BusError::Refused { reason });
    }
    Ok(commit.owner.is_none() && commit.sends.is_empty())
}
