//! Pulling messages from the bus, only as workers have room.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus::{Commit, Consumed, Delivery as BusDelivery, QueueSettings, Reject};
use kernel::worker::{Incoming, Kind, ReplyTo};
use kernel::{Destination, Name};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::life::release;
use super::{Part, Stage};
use crate::cell::Cell;
use crate::key::{BUCKETS, bucket_of};
use crate::mailbox::{Envelope, Pulled, Source};
use crate::scope::Scope;
use crate::spec::{Delivery, StageKind};

/// How long one look into the queue waits.
const LOOK: Duration = Duration::from_secs(5);
const CALL: Duration = Duration::from_secs(10);
/// How long to wait after an error of the bus.
const PAUSE: Duration = Duration::from_millis(200);
/// How many messages are taken at once.
const BATCH_MAX: u32 = 4_096;
/// How many workers get a queue of their own from the beginning, so that clients can address them.
const OWN_QUEUES_MAX: u32 = 64;

/// What pulls for a stage, by the queue.
#[derive(Default)]
pub(crate) struct Intakes {
    pulling: Mutex<Pulling>,
    /// Somebody is about to pull anew.
    resubscribes: AtomicBool,
}

#[derive(Default)]
struct Pulling {
    stopped: bool,
    tasks: HashMap<Name, Task>,
}

struct Task {
    stop: watch::Sender<bool>,
    handle: JoinHandle<()>,
}

impl Task {
    async fn end(self, queue: &Name) {
        self.stop.send_replace(true);
        if let Err(error) = self.handle.await {
            tracing::error!(%queue, %error, "an intake broke off");
        }
    }
}

/// Where pulled messages go.
#[derive(Clone)]
enum Sink {
    /// To whichever worker the router chooses.
    Pool,
    /// To this worker.
    Cell(Arc<Cell>),
    /// To the owner of this bucket.
    Bucket(u32),
    /// To the queue of their bucket.
    Forward,
}

impl Stage {
    /// Starts pulling from all queues of the stage.
    pub fn start_intakes(self: &Arc<Self>) {
        {
            // Whoever pauses sets the mark first, so that one of both sees the other.
            let mut pulling = self.intakes.pulling.lock();
            pulling.stopped = self.runtime.is_paused() || self.is_paused();
            if pulling.stopped {
                return;
            }
        }
        let queue = self.address.queue();
        if self.is_keyed() {
            if !self.is_memory() {
                let held = (0..BUCKETS).filter(|bucket| self.holds(Part::Bucket(*bucket)));
                for bucket in held {
                    self.pull(self.address.bucket(bucket), Sink::Bucket(bucket));
                }
            }
            if self.holds(Part::Entrance) {
                self.pull(queue, Sink::Forward);
            }
        } else if let Some(owner) = self.owner.lock().clone() {
            if self.holds(Part::Owner) {
                self.pull(queue, Sink::Cell(owner));
            }
        } else if self.holds_any_worker() {
            self.pull(queue, Sink::Pool);
        }
        let listening = if self.is_routed() && !self.is_memory() {
            u32::MAX
        } else {
            OWN_QUEUES_MAX
        };
        if !self.is_keyed() && self.workers_count() <= listening {
            let held = |cell: &Arc<Cell>| self.holds(Part::Worker(cell.number()));
            for cell in self.cells().iter().filter(|cell| held(cell)) {
                self.listen_for(cell);
            }
        }
    }

    /// Declares all queues of a shared stage, also those that other nodes pull: whoever sends there
    /// has to know how they are.
    pub(super) async fn declare_queues(&self) -> Result<(), bus::BusError> {
        let own = self.address.queue();
        let takes_turns = self.is_keyed() || self.is_routed();
        self.declare(&own, takes_turns).await?;
        let others: Vec<Name> = match self.is_keyed() {
            true => (0..BUCKETS).map(|b| self.address.bucket(b)).collect(),
            false if !self.is_routed() && self.workers_count() > OWN_QUEUES_MAX => Vec::new(),
            false => self.cells().iter().map(|c| c.address().queue()).collect(),
        };
        for queue in others {
            self.declare(&queue, true).await?;
        }
        Ok(())
    }

    /// Declares a queue of this stage.
    async fn declare(&self, queue: &Name, takes_turns: bool) -> Result<(), bus::BusError> {
        let settings = QueueSettings {
            durable: self.delivery == Delivery::Durable,
            // Whoever had it before gives back what it has not committed, and only then the next
            // one goes on: so the order holds, also if somebody learns late that it lost its part.
            in_turn: self.is_shared() && takes_turns,
            ..QueueSettings::default()
        };
        self.runtime.bus.declare(queue, &settings, CALL).await
    }

    /// Sees to it that the queue of this worker alone is pulled.
    pub fn listen_for(self: &Arc<Self>, cell: &Arc<Cell>) {
        if self.is_keyed() || matches!(cell.place, crate::cell::Place::Owner) {
            return;
        }
        self.pull(cell.address().queue(), Sink::Cell(cell.clone()));
    }

    /// The queue of this worker alone is no longer pulled.
    pub(super) async fn stop_listening_for(&self, cell: &Cell) {
        self.stop_pulling_from(&cell.address().queue()).await;
    }

    /// This queue is no longer pulled.
    pub(super) async fn stop_pulling_from(&self, queue: &Name) {
        let task = self.intakes.pulling.lock().tasks.remove(queue);
        if let Some(task) = task {
            task.end(queue).await;
        }
    }

    /// Stops pulling. What was pulled and not begun is given back when its workers let go of it.
    pub async fn stop_intakes(&self) {
        let tasks = {
            let mut pulling = self.intakes.pulling.lock();
            pulling.stopped = true;
            std::mem::take(&mut pulling.tasks)
        };
        for task in tasks.values() {
            task.stop.send_replace(true);
        }
        for (queue, task) in tasks {
            task.end(&queue).await;
        }
    }

    /// Pulls nothing until it is told to go on. What was pulled before is worked off.
    pub async fn pause(self: &Arc<Self>) {
        let _changing = self.changing.lock().await;
        self.stop_intakes().await;
    }

    /// Takes nothing until it is told to go on, or takes everything again. Turns that have begun are finished.
    pub async fn set_paused(self: &Arc<Self>, paused: bool) {
        let changing = self.changing.lock().await;
        if self.is_paused.swap(paused, Ordering::SeqCst) == paused {
            return;
        }
        if !paused {
            drop(changing);
            self.room.notify(usize::MAX);
            return self.go_on().await;
        }
        self.stop_intakes().await;
        if !self.is_memory() {
            let owner = self.owner.lock().clone();
            let cells = self.cells();
            release(cells.iter().chain(&owner).flat_map(|cell| cell.give_back()));
        }
    }

    /// Pulls again after a pause.
    pub async fn go_on(self: &Arc<Self>) {
        let _changing = self.changing.lock().await;
        if !self.is_stopping() {
            self.start_intakes();
            for cell in self.cells() {
                cell.go_on_providing();
            }
        }
    }

    /// Pulls anew, so that messages in doubt come again. However many ask for it at the same time, it
    /// happens once.
    pub fn resubscribe(self: &Arc<Self>) {
        if self.intakes.resubscribes.swap(true, Ordering::AcqRel) {
            return;
        }
        let stage = self.clone();
        self.runtime.tokio.spawn(async move {
            let _changing = stage.changing.lock().await;
            // Whoever asks from now on may mean a subscription that begins below.
            stage.intakes.resubscribes.store(false, Ordering::Release);
            if !stage.is_stopping() {
                stage.stop_intakes().await;
                stage.start_intakes();
            }
        });
    }

    fn pull(self: &Arc<Self>, queue: Name, sink: Sink) {
        let mut pulling = self.intakes.pulling.lock();
        if pulling.stopped || pulling.tasks.contains_key(&queue) {
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let puller = Puller {
            stage: self.clone(),
            queue: queue.clone(),
            sink,
        };
        let handle = self.runtime.tokio.spawn(puller.run(stopped));
        pulling.tasks.insert(queue, Task { stop, handle });
    }
}

struct Puller {
    stage: Arc<Stage>,
    queue: Name,
    sink: Sink,
}

impl Puller {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let ended = async move {
            // The sender outlives the stage's tasks.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        tokio::select! {
            () = ended => {}
            () = self.pull() => {}
        }
    }

    /// Subscribes, again and again if need be, and hands on what comes.
    async fn pull(&self) {
        loop {
            // Whoever could not take anything would only keep it from others.
            self.wait_for_room().await;
            match self.subscribe().await {
                Ok(subscription) => self.hand_on(&subscription).await,
                Err(error) => {
                    tracing::warn!(queue = %self.queue, %error, "a stage cannot read its queue; it tries again");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn subscribe(&self) -> Result<Arc<Pulled>, bus::BusError> {
        let bus = &self.stage.runtime.bus;
        let takes_turns = !matches!(self.sink, Sink::Pool);
        self.stage.declare(&self.queue, takes_turns).await?;
        let from = Destination::Queue(self.queue.clone());
        let per_worker = self.stage.mailbox_messages_max().saturating_mul(2);
        let workers = match self.sink {
            Sink::Pool => self.stage.workers_count().max(1),
            _ => 1,
        };
        let credit = per_worker
            .saturating_mul(workers)
            .max(BATCH_MAX)
            .min(self.stage.runtime.prefetch_max());
        let subscription = bus.subscribe(&from, credit, CALL).await?;
        Ok(Arc::new(Pulled::new(subscription)))
    }

    async fn hand_on(&self, subscription: &Arc<Pulled>) {
        while !subscription.is_stale() {
            let Some(wanted) = self.wait_for_demand(subscription).await else {
                tracing::debug!(queue = %self.queue, "no worker asked for long; the queue is read again when one does");
                return;
            };
            let look = LOOK.min(self.idle_max());
            let deliveries = match subscription.next_batch(wanted as usize, look).await {
                Ok(deliveries) => deliveries,
                Err(error) => {
                    tracing::warn!(queue = %self.queue, %error, "a stage lost its queue; it subscribes again");
                    return;
                }
            };
            if deliveries.is_empty() {
                continue;
            }
            match &self.sink {
                Sink::Pool => self.spread(subscription, deliveries).await,
                Sink::Cell(cell) => {
                    let envelopes = deliveries.into_iter();
                    cell.push_all(envelopes.map(|d| envelope(subscription, d, 0)));
                }
                Sink::Bucket(bucket) => {
                    let envelopes = deliveries.into_iter();
                    let envelopes = envelopes.map(|d| envelope(subscription, d, *bucket));
                    self.stage.push_to_bucket(*bucket, envelopes);
                }
                Sink::Forward => self.forward(subscription, deliveries).await,
            }
        }
    }

    /// Waits until somebody has room; for how many messages. None if that takes so long that the
    /// subscription should rather end: then what the engine has sent ahead is for others. It stays
    /// open while a worker still holds something that came from it.
    async fn wait_for_demand(&self, subscription: &Arc<Pulled>) -> Option<u32> {
        loop {
            let room = tokio::time::timeout(self.idle_max(), self.wait_for_room());
            if let Ok(wanted) = room.await {
                return Some(wanted);
            }
            if Arc::strong_count(subscription) == 1 {
                return None;
            }
        }
    }

    /// How long a subscription stays open although nobody has room.
    fn idle_max(&self) -> Duration {
        Duration::from_millis(self.stage.runtime.settings.subscription_idle_ms_max)
    }

    /// Waits until somebody has room; for how many messages.
    async fn wait_for_room(&self) -> u32 {
        loop {
            let room = self.stage.room.listen();
            let free = self.free_room();
            if free > 0 {
                return free.min(BATCH_MAX);
            }
            room.await;
        }
    }

    fn free_room(&self) -> u32 {
        match &self.sink {
            Sink::Pool => {
                let cells = self.stage.cells.read();
                let mut free = 0u32;
                for cell in cells.iter() {
                    free = free.saturating_add(cell.free_room());
                    if free >= BATCH_MAX {
                        break;
                    }
                }
                free
            }
            Sink::Cell(cell) => cell.free_room(),
            Sink::Bucket(bucket) => {
                let cell = self.stage.cell_of(&crate::scope::Scope::Bucket(*bucket));
                cell.map_or(0, |cell| cell.free_room())
            }
            Sink::Forward => BATCH_MAX,
        }
    }

    /// Hands each message to the worker that the router chooses.
    async fn spread(&self, subscription: &Arc<Pulled>, deliveries: Vec<BusDelivery>) {
        let single = {
            let cells = self.stage.cells.read();
            (cells.len() == 1).then(|| cells[0].clone())
        };
        let envelopes = deliveries.into_iter().map(|d| envelope(subscription, d, 0));
        if let Some(cell) = single {
            cell.push_all(envelopes);
            return;
        }
        let mut unplaced = Unplaced(envelopes.collect());
        loop {
            let room = self.stage.room.listen();
            unplaced.place(&self.stage);
            if unplaced.0.is_empty() {
                return;
            }
            room.await;
        }
    }

    /// Sends what outside clients published on to the queue of its bucket.
    async fn forward(&self, subscription: &Arc<Pulled>, deliveries: Vec<BusDelivery>) {
        let StageKind::Keyed(rule) = &self.stage.kind else {
            unreachable!("only keyed stages forward");
        };
        if self.stage.is_memory() {
            for delivery in deliveries {
                match rule.key(&delivery.message) {
                    Ok(key) => {
                        let bucket = bucket_of(&key);
                        let envelope = envelope(subscription, delivery, bucket);
                        self.stage.push_to_bucket(bucket, std::iter::once(envelope));
                    }
                    Err(failure) => {
                        self.turn_down(subscription, &delivery, failure.reason)
                            .await
                    }
                }
            }
            return;
        }
        let mut receipts = Vec::with_capacity(deliveries.len());
        let mut sends = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            match rule.key(&delivery.message) {
                Ok(key) => {
                    let queue = self.stage.address.bucket(bucket_of(&key));
                    receipts.push(delivery.receipt);
                    sends.push((Destination::Queue(queue), delivery.message));
                }
                Err(failure) => {
                    self.turn_down(subscription, &delivery, failure.reason)
                        .await
                }
            }
        }
        let owner = match self.stage.shared_owner(&Scope::Owner) {
            None => None,
            Some(Ok(owner)) => Some(owner),
            // Another node forwards now; what came here goes back.
            Some(Err(_)) => return subscription.release(&receipts),
        };
        let commit = Commit {
            owner,
            consumed: vec![Consumed {
                subscription: &***subscription,
                receipts,
            }],
            sends,
            ..Commit::default()
        };
        self.commit(subscription, &commit).await;
    }

    /// The next forward may follow as soon as this one has its place.
    async fn commit(&self, subscription: &Pulled, commit: &Commit<'_>) {
        let timeout = Duration::from_millis(self.stage.runtime.settings.commit_timeout_ms);
        let mut is_noted = false;
        loop {
            match self.stage.runtime.bus.submit(commit, timeout).await {
                Ok(_) => return,
                Err(error) if error.can_retry() => {
                    if !std::mem::replace(&mut is_noted, true) {
                        self.stage.note_blocked(&error);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    if let bus::BusError::Fenced { .. } = error {
                        self.stage.lose(&Scope::Owner);
                    }
                    tracing::warn!(queue = %self.queue, %error, "messages could not be forwarded; they come again");
                    for consumed in &commit.consumed {
                        consumed.subscription.release(&consumed.receipts);
                    }
                    subscription.make_stale();
                    return;
                }
            }
        }
    }

    async fn turn_down(&self, subscription: &Arc<Pulled>, delivery: &BusDelivery, reason: String) {
        let reject = Reject::Dead { reason };
        if let Err(error) = subscription.reject(delivery, reject, CALL).await {
            tracing::warn!(queue = %self.queue, %error, "a message could not be put among the dead letters; it comes again");
        }
    }
}

/// Messages that were pulled and have no worker yet. Those that never get one are given back.
struct Unplaced(VecDeque<Envelope>);

impl Unplaced {
    /// Hands out as many as there is room for.
    fn place(&mut self, stage: &Stage) {
        let cells = stage.cells.read();
        while let Some(first) = self.0.front() {
            let chosen = stage.choose(&cells, &first.incoming, None);
            let Some(cell) = chosen.and_then(|chosen| cells.get(chosen as usize)) else {
                return;
            };
            if let Some(envelope) = self.0.pop_front() {
                cell.push(envelope);
            }
        }
    }
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        release(self.0.drain(..));
    }
}

fn envelope(subscription: &Arc<Pulled>, delivery: BusDelivery, bucket: u32) -> Envelope {
    let (message, tag) = delivery.split();
    let incoming = Incoming {
        message,
        value: None,
        kind: Kind::Message,
        reply_to: ReplyTo::Headers,
        tries: tag.tries,
    };
    let source = Source {
        subscription: subscription.clone(),
        tag,
    };
    Envelope {
        incoming,
        source: Some(source),
        bucket,
    }
}
