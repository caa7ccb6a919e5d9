//! A worker's place in this process: its mailbox, its instance if it has one, and its counters.
//!
//! An idle worker is nothing but a [`Cell`]. When a message comes an *activation* is started on
//! the turn threads; it handles what waits, batch by batch, and ends when nothing is left.

#![expect(clippy::result_large_err, reason = "what is refused is given back")]

mod commit;
mod completions;
mod control;
mod failing;
mod host;
mod instance;
mod provide;
mod run;
mod underway;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kernel::worker::Incoming;
use kernel::{Name, WorkerAddress};
use parking_lot::Mutex;

use self::run::Body;
use crate::control::Control;
use crate::mailbox::{Envelope, Mailbox};
use crate::messages::{Messages, Sorted};
use crate::scaling::{Gauge, Probe, WorkerSample};
use crate::scope::Scope;
use crate::stage::{Stage, Version};
use crate::turn_threads::TurnThreads;
use crate::views::{WorkerState, WorkerView};

/// How many messages a worker gets at once before it is known how fast it is. It doubles with
/// every batch that is quick enough.
const ROOM_AT_START: u32 = 1;

/// A worker that can do as many messages in the time of one batch is quick.
const QUICK_ROOM: u32 = 256;

/// A worker's place.
pub(crate) struct Cell {
    pub stage: Arc<Stage>,
    pub place: Place,
    mailbox: Mutex<Mailbox>,
    body: Mutex<Body>,
    /// Messages of this process that came to the worker, not counting those that came to another one before. It is changed
    /// with the mailbox locked.
    came: AtomicU64,
    /// Messages in the mailbox, readable without its lock.
    waiting: AtomicU32,
    /// How many messages are about as much work as one batch should be.
    room: AtomicU32,
    turns: AtomicU64,
    /// The number of the version that it runs.
    version: AtomicU32,
    restarts: AtomicU32,
    /// Seconds since the start of the process when it last had a message.
    last_active_s: AtomicU32,
    state: AtomicU8,
    /// What is measured, if the stage finds its size by itself.
    gauge: OnceLock<Box<Gauge>>,
}

/// A worker that is active with nothing but this message, and has to be run.
pub(crate) struct Begun {
    cell: Arc<Cell>,
    incoming: Incoming,
    bucket: u32,
}

impl Begun {
    /// Runs the worker here for one message; what takes longer goes on on the turn threads.
    pub async fn run(self, threads: &TurnThreads) {
        let first = Envelope::local(self.incoming, self.bucket);
        let mut activation = Box::pin(run::activation(self.cell, Some(first), true));
        let polled = futures_lite::future::poll_once(&mut activation).await;
        if polled.is_none() {
            threads.spawn(activation);
        }
    }
}

/// Which worker it is.
pub(crate) enum Place {
    /// One of the stage's workers.
    Worker(u32),
    /// A child of one.
    Child(Box<Child>),
    /// The owner of a routed stage.
    Owner,
}

/// A child.
pub(crate) struct Child {
    pub worker: u32,
    pub name: Name,
    pub args: bytes::Bytes,
}

impl Cell {
    pub fn new(stage: Arc<Stage>, place: Place, version: Arc<Version>) -> Arc<Self> {
        Arc::new(Self {
            stage,
            place,
            mailbox: Mutex::default(),
            version: AtomicU32::new(version.number),
            body: Mutex::new(Body::new(version)),
            came: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            room: AtomicU32::new(ROOM_AT_START),
            turns: AtomicU64::new(0),
            restarts: AtomicU32::new(0),
            last_active_s: AtomicU32::new(0),
            state: AtomicU8::new(WorkerState::Passive as u8),
            gauge: OnceLock::new(),
        })
    }

    /// The number that supervision and routers know it by.
    pub fn number(&self) -> u32 {
        match &self.place {
            Place::Worker(number) => *number,
            Place::Child(child) => child.worker,
            Place::Owner => 0,
        }
    }

    pub fn address(&self) -> WorkerAddress {
        let stage = &self.stage.address;
        let child = match &self.place {
            Place::Worker(number) => return stage.worker(*number),
            Place::Child(child) => child.name.as_str(),
            Place::Owner => "router",
        };
        let address = stage.worker(self.number()).with_child(child);
        address.expect("the name of a child was checked when it was started")
    }

    /// Whose state it works on; in a keyed stage that depends on the message.
    pub fn scope(&self, bucket: u32) -> Scope {
        match &self.place {
            Place::Worker(_) if self.stage.is_keyed() => Scope::Bucket(bucket),
            Place::Worker(number) => Scope::Worker(*number),
            Place::Child(child) => Scope::Child(child.worker, child.name.clone()),
            Place::Owner => Scope::Owner,
        }
    }

    /// Puts a message into the mailbox, whether there is room or not.
    pub fn push(self: &Arc<Self>, envelope: Envelope) {
        self.push_all(std::iter::once(envelope));
    }

    /// Puts messages into the mailbox, whether there is room or not.
    pub fn push_all(self: &Arc<Self>, envelopes: impl Iterator<Item = Envelope>) {
        let mut mailbox = self.mailbox.lock();
        for envelope in envelopes {
            mailbox.push(envelope);
        }
        self.waiting.store(mailbox.len() as u32, Ordering::Relaxed);
        let starts = !mailbox.active && !mailbox.held;
        mailbox.active |= starts;
        drop(mailbox);
        if starts {
            self.activate();
        }
    }

    /// Puts a message from within this process into the mailbox if fewer than `messages_max` wait
    /// there.
    pub fn try_push(
        self: &Arc<Self>,
        incoming: Incoming,
        bucket: u32,
        messages_max: u32,
    ) -> Result<(), Incoming> {
        let mut mailbox = self.mailbox.lock();
        if mailbox.gone || mailbox.len() as u32 >= messages_max {
            return Err(incoming);
        }
        mailbox.push(Envelope::local(incoming, bucket));
        self.note_came(1);
        self.waiting.store(mailbox.len() as u32, Ordering::Relaxed);
        let starts = !mailbox.active && !mailbox.held;
        mailbox.active |= starts;
        drop(mailbox);
        if starts {
            self.activate();
        }
        Ok(())
    }

    /// Moves messages from within this process into the mailbox until `messages_max` wait there.
    pub fn try_push_all(self: &Arc<Self>, messages: &mut Messages, messages_max: u32) {
        self.push_some(messages_max, |mailbox, free| {
            mailbox.push_plain(messages, free);
        });
    }

    /// As [`Cell::try_push_all`], with messages and their buckets.
    pub fn try_push_sorted(self: &Arc<Self>, messages: &mut Sorted, messages_max: u32) {
        self.push_some(messages_max, |mailbox, free| {
            mailbox.push_sorted(messages, free);
        });
    }

    /// Lets as many messages be pushed as there is room for.
    fn push_some(self: &Arc<Self>, messages_max: u32, push: impl FnOnce(&mut Mailbox, usize)) {
        let mut mailbox = self.mailbox.lock();
        let free = (messages_max as usize).saturating_sub(mailbox.len());
        if free == 0 {
            return;
        }
        let before = mailbox.len();
        push(&mut mailbox, free);
        self.note_came(mailbox.len() - before);
        self.waiting.store(mailbox.len() as u32, Ordering::Relaxed);
        let starts = !mailbox.active && !mailbox.held;
        mailbox.active |= starts;
        drop(mailbox);
        if starts {
            self.activate();
        }
    }

    /// Hands a message from within this process to the worker for somebody who waits for its answer. If the worker is known
    /// to be quick and has nothing else to do, it runs on this thread, so that the asker need not
    /// wait for another one.
    pub fn begin_for_asker(
        self: &Arc<Self>,
        incoming: Incoming,
        bucket: u32,
        messages_max: u32,
    ) -> Result<Option<Begun>, Incoming> {
        if !self.is_quick() || self.stage.leaves_waiting() {
            self.try_push(incoming, bucket, messages_max)?;
            return Ok(None);
        }
        let mut mailbox = self.mailbox.lock();
        if mailbox.active || mailbox.held || mailbox.len() > 0 {
            drop(mailbox);
            self.try_push(incoming, bucket, messages_max)?;
            return Ok(None);
        }
        mailbox.active = true;
        self.note_came(1);
        drop(mailbox);
        Ok(Some(Begun {
            cell: self.clone(),
            incoming,
            bucket,
        }))
    }

    /// Whether a turn has taken some microseconds of late. A component may be stopped only after
    /// its deadline, so it never counts.
    fn is_quick(&self) -> bool {
        self.room.load(Ordering::Relaxed) >= QUICK_ROOM && self.stage.is_native()
    }

    /// Asks something of the worker; it comes before all messages that wait.
    pub fn control(self: &Arc<Self>, control: Control) {
        if self.put_control(control) {
            self.activate();
        }
    }

    /// As [`Cell::control`]; whether the caller has to see to it that an activation runs.
    pub fn put_control(&self, control: Control) -> bool {
        let mut mailbox = self.mailbox.lock();
        mailbox.push_control(control);
        !std::mem::replace(&mut mailbox.active, true)
    }

    /// Runs what waits as part of the caller, which is on a turn thread.
    pub async fn run_here(self: &Arc<Self>) {
        run::activation(self.clone(), None, false).await;
    }

    /// Starts an activation; the mailbox says already that there is one.
    pub fn activate(self: &Arc<Self>) {
        let activation = run::activation(self.clone(), None, false);
        self.stage.runtime.threads.spawn(activation);
    }

    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// How many messages of this process came to it.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Acquire)
    }

    /// Messages came; the mailbox is locked.
    fn note_came(&self, messages: usize) {
        let came = self.came.load(Ordering::Relaxed);
        self.came.store(came + messages as u64, Ordering::Release);
    }

    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether it could do with more messages from the queue. A slow worker takes few, so that the
    /// others get the rest.
    pub fn has_room(&self) -> bool {
        let room = self.room.load(Ordering::Relaxed).saturating_mul(2);
        let usable = !matches!(self.state(), WorkerState::Stopped | WorkerState::Waiting);
        usable && self.waiting() < room.min(self.stage.mailbox_messages_max())
    }

    /// How many more messages from the queue it could do with.
    pub fn free_room(&self) -> u32 {
        if !self.has_room() {
            return 0;
        }
        let room = self.room.load(Ordering::Relaxed).saturating_mul(2);
        let max = room.min(self.stage.mailbox_messages_max());
        max.saturating_sub(self.waiting())
    }

    pub fn state(&self) -> WorkerState {
        match self.state.load(Ordering::Relaxed) {
            0 => WorkerState::Idle,
            1 => WorkerState::Busy,
            2 => WorkerState::Passive,
            3 => WorkerState::Waiting,
            _ => WorkerState::Stopped,
        }
    }

    fn set_state(&self, state: WorkerState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Whether it has been idle since before that second and could do without its instance.
    pub fn is_idle_since(&self, second: u32) -> bool {
        self.state() == WorkerState::Idle && self.last_active_s.load(Ordering::Relaxed) <= second
    }

    /// It takes no messages until told to go on.
    pub fn put_aside(&self) {
        self.mailbox.lock().held = true;
        self.set_state(WorkerState::Stopped);
    }

    /// Takes what waits away from a worker that does not go on.
    pub fn take_waiting(&self) -> Vec<Envelope> {
        let mut mailbox = self.mailbox.lock();
        self.waiting.store(0, Ordering::Relaxed);
        mailbox.drain()
    }

    /// Takes away what came from the bus and was not begun, for somebody who gives it back.
    pub fn give_back(&self) -> Vec<Envelope> {
        let mut mailbox = self.mailbox.lock();
        let (pulled, own): (Vec<_>, Vec<_>) = mailbox
            .drain()
            .into_iter()
            .partition(|envelope| envelope.source.is_some());
        mailbox.put_back(own.into_iter());
        self.note_waiting(&mailbox);
        pulled
    }

    /// What happened here since the last look.
    pub fn sample(&self, now: Instant) -> WorkerSample {
        let gauge = self.gauge.get_or_init(Box::default);
        gauge.sample(self.turns(), now)
    }

    /// What became of the last probe.
    pub fn take_probe(&self, now: Instant) -> Probe {
        let gauge = self.gauge.get();
        gauge.map_or(Probe::None, |gauge| gauge.take_probe(now))
    }

    /// Sends a probe to the worker, behind what waits. One that has nothing to do is not woken for it.
    pub fn probe(&self, now: Instant) {
        let gauge = self.gauge.get_or_init(Box::default);
        let mut mailbox = self.mailbox.lock();
        if !gauge.begin_probe(now) {
            return;
        }
        match mailbox.active || mailbox.len() > 0 {
            true => mailbox.set_mark(),
            false => gauge.answer_probe(now),
        }
    }

    /// Lets others know how much waits, after the mailbox was changed.
    fn note_waiting(&self, mailbox: &Mailbox) {
        self.waiting.store(mailbox.len() as u32, Ordering::Relaxed);
    }

    /// The worker is gone for good: takes away what waits, and lets nothing more in.
    pub fn retire(&self) -> Vec<Envelope> {
        self.mailbox.lock().gone = true;
        self.take_waiting()
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Option<Arc<Cell>> {
        self.stage
            .children
            .lock()
            .get(&(self.number(), Name::new(name).ok()?))
            .cloned()
    }

    pub fn view(&self) -> WorkerView {
        let number = self.number();
        let children = self.stage.children.lock();
        let own = children.keys().filter(|(worker, _)| *worker == number);
        let children = own.map(|(_, name)| name.to_string()).collect();
        let failures = self.stage.last_failures.lock();
        WorkerView {
            address: self.address(),
            state: self.state(),
            version: self.version.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            waiting: self.waiting(),
            children,
            last_failure: failures.get(&number).cloned(),
        }
    }
}
