//! An activation: handles what waits for a worker, batch by batch, until nothing is left.

use std::collections::{HashMap, VecDeque};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kernel::Message;
use kernel::worker::{Effects, Failure, Incoming, Kind, Stretch, Ticket, Turn, Worker};

use super::completions::Completions;
use super::provide::Providing;
use super::underway::Underway;
use super::{Cell, Place, host};
use crate::alarm_clock::What;
use crate::control::{Control, Done};
use crate::mailbox::{Envelope, Envelopes, Source};
use crate::scope::Scope;
use crate::stage::{Part, Version, release};
use crate::views::WorkerState;

/// How long an activation may go on while others wait for its thread.
const SLICE: Duration = Duration::from_millis(2);

/// What a worker keeps between activations.
#[derive(Default)]
pub(super) struct Body {
    pub instance: Option<Box<dyn Worker>>,
    pub version: Option<Arc<Version>>,
    pub providing: Providing,
    /// What few workers need, so that an idle one costs little.
    pub extras: Option<Box<Extras>>,
}

/// What few workers need.
#[derive(Default)]
pub(super) struct Extras {
    /// A new version that has to prove itself.
    pub probation: Option<Probation>,
    /// The epochs of what it owns.
    pub epochs: HashMap<Scope, u64>,
    /// So many messages at the front of the mailbox are handled one by one.
    pub singles: usize,
    /// Its last turn failed.
    pub failing: bool,
    /// Commits that are not permanent yet.
    pub completions: Option<Arc<Completions>>,
    /// Commits that are not answered yet, by the bucket.
    pub underway: HashMap<u32, Arc<Underway>>,
}

/// A new version that has to prove itself, and what is needed to go back.
pub(super) struct Probation {
    pub old: Arc<Version>,
    /// The old instance, as it was when it was replaced.
    pub parked: Option<Box<dyn Worker>>,
    /// What the worker last saved.
    pub snapshot: Bytes,
    /// Whether the new version has committed anything since.
    pub has_committed: bool,
    pub turns_left: u32,
}

impl Body {
    pub fn new(version: Arc<Version>) -> Self {
        Self {
            version: Some(version),
            ..Self::default()
        }
    }

    pub fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

/// An activation in progress. It is made for every activation and moved, so it should stay small.
pub(super) struct Run {
    pub cell: Arc<Cell>,
    pub body: Body,
    pub desk: Box<Desk>,
}

/// What an activation has at hand.
#[derive(Default)]
pub(super) struct Desk {
    /// What is handled next.
    batch: Envelopes,
    /// The turn in progress, and whose state it sees.
    pub turn: Option<(Scope, Turn)>,
    /// Memory for the effects of the next turn.
    memory: Option<Box<Effects>>,
    /// The messages of the turn.
    pub incomings: VecDeque<Incoming>,
    /// How many of them nobody sent, such as timers.
    pub events: u64,
    /// How many of them came from the bus.
    pub pulled: u64,
    /// One of them wakes the worker, which does not know it yet.
    is_woken: bool,
    /// Or the messages of the turn that came together, as long as nobody needs one by itself.
    pub stretches: Vec<Stretch>,
    /// Where they came from; less than there are messages if the others came from this process.
    pub sources: Vec<Option<Source>>,
    /// Those who wait until nothing of a bucket is left in the mailbox.
    pub leaving: Vec<(u32, Done<()>)>,
    /// Messages that are done with without being handled: replies that came too late.
    pub discarded: Vec<Source>,
    /// How long commits of the batch have waited for the bus.
    pub waited: Duration,
    /// How long the batch has waited for room at those it sends to, if that is measured.
    pub blocked: Duration,
}

/// Longer lists are not kept.
const KEPT_MAX: usize = 1_024;

thread_local! {
    /// Threads keep a desk for the next activation, for most are short.
    static DESK: std::cell::Cell<Option<Box<Desk>>> = const { std::cell::Cell::new(None) };
}

impl Desk {
    /// Leaves a clean desk for the next activation on this thread.
    fn leave(mut self: Box<Self>) {
        if let Some((_, turn)) = self.turn.take() {
            self.memory = Some(turn.into_memory());
        }
        // Almost always they are empty already.
        self.forget_messages();
        self.sources.clear();
        self.leaving.clear();
        self.discarded.clear();
        let longest = self.batch.capacity().max(self.incomings.capacity());
        let sends = self.memory.as_ref().map_or(0, |m| m.sends.capacity());
        if longest.max(sends) <= KEPT_MAX {
            DESK.set(Some(self));
        }
    }
}

/// The messages of the turn.
impl Desk {
    pub fn messages(&self) -> usize {
        let in_stretches: usize = self.stretches.iter().map(Stretch::len).sum();
        self.incomings.len() + in_stretches
    }

    /// Lets each message be one by itself.
    pub fn spread(&mut self) {
        spread(&mut self.stretches, &mut self.incomings);
    }

    pub fn forget_messages(&mut self) {
        self.incomings.clear();
        self.stretches.clear();
    }
}

/// Lets each message of some series be one by itself.
fn spread(stretches: &mut Vec<Stretch>, incomings: &mut VecDeque<Incoming>) {
    let items = stretches.iter().flat_map(Stretch::items);
    incomings.extend(items.map(Incoming::from));
    stretches.clear();
}

enum Next {
    Control(Control),
    Batch,
    Provide,
    Nothing,
}

/// Everything that waits for the worker, after the message that was handed over with it if there is
/// one. On somebody else's thread it gives way after one batch: then it has to be taken to the turn
/// threads.
pub(super) fn activation(
    cell: Arc<Cell>,
    first: Option<Envelope>,
    mut is_guest: bool,
) -> impl Future<Output = ()> + Send {
    let mut desk = DESK.take().unwrap_or_default();
    if let Some(first) = first {
        desk.batch.push(first);
    }
    let body = std::mem::take(&mut *cell.body.lock());
    let mut run = Run { cell, body, desk };
    async move {
        let mut now = Instant::now();
        let mut slice_began = now;
        let mut next = match run.desk.batch.is_empty() {
            true => run.next(now),
            false => Next::Batch,
        };
        loop {
            match next {
                Next::Control(control) => {
                    Box::pin(run.control(control)).await;
                    now = Instant::now();
                }
                Next::Batch => {
                    run.cell.set_state(WorkerState::Busy);
                    now = run.batch(now).await;
                }
                Next::Provide => {
                    Box::pin(run.provide()).await;
                    now = Instant::now();
                }
                Next::Nothing => break,
            }
            if is_guest && run.cell.waiting() > 0 {
                is_guest = false;
                futures_lite::future::yield_now().await;
                now = Instant::now();
            }
            if now - slice_began > SLICE {
                if run.cell.stage.runtime.threads.is_contended() {
                    futures_lite::future::yield_now().await;
                    now = Instant::now();
                }
                slice_began = now;
            }
            next = run.next(now);
        }
        run.desk.leave();
    }
}

impl Run {
    /// What to do next. If that is nothing the activation is over: the body is back in the cell
    /// before anybody can start another one.
    fn next(&mut self, now: Instant) -> Next {
        let cell = &*self.cell;
        let mut mailbox = cell.mailbox.lock();
        if let Some(control) = mailbox.take_control() {
            return Next::Control(control);
        }
        if mailbox.take_mark()
            && let Some(gauge) = cell.gauge.get()
        {
            gauge.answer_probe(now);
        }
        let is_left = |(bucket, _): &(u32, Done<()>)| mailbox.held || !mailbox.has_bucket(*bucket);
        if let Some(left) = self.desk.leaving.iter().position(is_left) {
            let (bucket, done) = self.desk.leaving.swap_remove(left);
            return Next::Control(Control::Leave { bucket, done });
        }
        if !mailbox.held && mailbox.len() > 0 && !cell.stage.leaves_waiting() {
            mailbox.take_batch(self.batch_messages_max(), &mut self.desk.batch);
            let waiting = mailbox.len() as u32;
            cell.waiting.store(waiting, Ordering::Relaxed);
            drop(mailbox);
            // Senders go on when half of it is free, so that they are not woken for each batch.
            let stage = &cell.stage;
            if waiting <= stage.mailbox_messages_max() / 2
                || stage.has_freed_spill(cell, self.desk.batch.len())
            {
                cell.stage.room.notify(usize::MAX);
            }
            return Next::Batch;
        }
        if !mailbox.held && self.is_to_provide() {
            return Next::Provide;
        }
        let second = cell.stage.runtime.seconds_at(now);
        cell.last_active_s.store(second, Ordering::Relaxed);
        if cell.state() == WorkerState::Busy {
            cell.set_state(match self.body.instance {
                Some(_) => WorkerState::Idle,
                None => WorkerState::Passive,
            });
        }
        *cell.body.lock() = std::mem::take(&mut self.body);
        if mailbox.len() == 0 {
            mailbox.shrink();
        }
        mailbox.active = false;
        Next::Nothing
    }

    fn batch_messages_max(&self) -> usize {
        let extras = self.body.extras.as_ref();
        if extras.is_some_and(|extras| extras.singles > 0) {
            return 1;
        }
        let room = self.cell.room.load(Ordering::Relaxed);
        room.min(self.version().spec.intake.batch_messages_max)
            .max(1) as usize
    }

    pub fn version(&self) -> &Arc<Version> {
        self.body
            .version
            .as_ref()
            .expect("a version is there during an activation")
    }

    /// Goes over to this version; gives the one before.
    pub fn set_version(&mut self, version: Arc<Version>) -> Option<Arc<Version>> {
        self.cell.version.store(version.number, Ordering::Relaxed);
        self.forget_turn();
        self.body.version.replace(version)
    }

    /// Handles a batch, bucket by bucket if the stage is keyed. When it was done.
    async fn batch(&mut self, began: Instant) -> Instant {
        if let Some(extras) = &mut self.body.extras {
            extras.singles = extras.singles.saturating_sub(1);
        }
        let messages = self.desk.batch.len();
        self.desk.waited = Duration::ZERO;
        self.desk.blocked = Duration::ZERO;
        self.desk.batch.sort_by_bucket();
        while let Some(bucket) = self.desk.batch.first_bucket() {
            // What few turns need would make every activation larger.
            if self.has_underway(bucket) && !Box::pin(self.settle(bucket)).await {
                self.leave_rest();
                return Instant::now();
            }
            let before = self.desk.batch.len();
            (self.desk.events, self.desk.pulled) = (0, 0);
            self.accept_bucket(bucket);
            let taken = before - self.desk.batch.len();
            self.cell.stage.count_bucket(bucket, taken);
            let scope = self.cell.scope(bucket);
            if !self.group(&scope).await {
                // A failure: what is left waits in its place behind what failed.
                self.leave_rest();
                return Instant::now();
            }
        }
        let now = Instant::now();
        // A commit takes as long for one message as for many.
        let worked = (now - began).saturating_sub(self.desk.waited);
        self.measure(messages, worked);
        if let Some(gauge) = self.cell.gauge.get() {
            // While it waits for a commit it is not free for others; while it waits for room it is not the slow one.
            let blocked = self.desk.blocked;
            gauge.add((now - began).saturating_sub(blocked), blocked);
        }
        now
    }

    /// Puts what was not begun back into the mailbox, behind what was put back before.
    fn leave_rest(&mut self) {
        let rest: Vec<Envelope> = iter::from_fn(|| self.desk.batch.pop()).collect();
        if rest.is_empty() {
            return;
        }
        let failed = self.put_back_count();
        let mut mailbox = self.cell.mailbox.lock();
        let mut front = Envelopes::default();
        mailbox.take_batch(failed, &mut front);
        let front: Vec<Envelope> = iter::from_fn(|| front.pop()).collect();
        mailbox.put_back(rest.into_iter());
        mailbox.put_back(front.into_iter());
        self.cell
            .waiting
            .store(mailbox.len() as u32, Ordering::Relaxed);
    }

    fn put_back_count(&self) -> usize {
        self.body.extras.as_ref().map_or(0, |extras| extras.singles)
    }

    /// Adds the messages of the first bucket to the turn.
    fn accept_bucket(&mut self, bucket: u32) {
        let desk = &mut *self.desk;
        // Values and series come from this process and have no headers, so none of them answers an ask.
        if !self.cell.stage.is_shared()
            && (desk.batch.take_values(&mut desk.incomings)
                || desk.batch.take_series(&mut desk.stretches))
        {
            return;
        }
        // Without headers none of them answers an ask.
        if !self.cell.stage.is_shared()
            && desk.incomings.is_empty()
            && let Some(plain) = desk.batch.plain()
            && plain
                .iter()
                .all(|i| i.message.headers.is_empty() && i.kind == Kind::Message)
        {
            std::mem::swap(&mut desk.incomings, plain);
            return;
        }
        let is_ours = !self.cell.stage.is_keyed() || self.cell.stage.holds(Part::Bucket(bucket));
        while self.desk.batch.first_bucket() == Some(bucket)
            && let Some(envelope) = self.desk.batch.pop()
        {
            match is_ours && !envelope.is_stale() {
                true => self.accept(envelope),
                // It comes again: to the node that has the bucket now, or behind what failed.
                false => {
                    self.cell.stage.note_dropped(&self.cell, &envelope);
                    release([envelope]);
                }
            }
        }
    }

    /// Adds a message to the turn, as what it is for this worker.
    fn accept(&mut self, mut envelope: Envelope) {
        if envelope.incoming.kind == Kind::Message
            && let Some(ticket) = ticket_of(&envelope.incoming.message)
        {
            let scope = self.cell.scope(envelope.bucket);
            let alarms = &self.cell.stage.runtime.alarms;
            if !alarms.cancel(&self.cell.stage, &scope, &What::Ask(ticket)) {
                self.cell
                    .stage
                    .counters
                    .late_replies
                    .fetch_add(1, Ordering::Relaxed);
                match envelope.source {
                    Some(source) => self.desk.discarded.push(source),
                    None => self.note_dropped(1),
                }
                return;
            }
            envelope.incoming.kind = Kind::Reply(ticket);
        }
        if envelope.incoming.kind == Kind::Woken {
            if !self.version().code.info().native && !matches!(self.cell.place, Place::Owner) {
                // A component has taken the place of whom it was for.
                self.cell.stage.note_dropped(&self.cell, &envelope);
                return;
            }
            self.desk.is_woken = true;
        }
        match envelope.incoming.kind {
            Kind::Message | Kind::Reply(_) => {
                self.desk.pulled += u64::from(envelope.source.is_some());
            }
            _ => self.desk.events += 1,
        }
        if envelope.source.is_some() {
            self.desk
                .sources
                .resize_with(self.desk.incomings.len(), || None);
            self.desk.sources.push(envelope.source);
        }
        self.desk.incomings.push_back(envelope.incoming);
    }

    /// Handles and commits the messages at hand, of one scope. Whether the next may follow.
    async fn group(&mut self, scope: &Scope) -> bool {
        let messages = self.desk.messages() as u64;
        if messages == 0 {
            if !self.desk.discarded.is_empty() {
                Box::pin(self.commit_or_log(scope)).await;
            }
            return true;
        }
        match self.attempt(scope).await {
            Ok(()) => {}
            Err(failure) => return Box::pin(self.recover(scope, failure)).await,
        }
        let committed = match self.leaves_commit(scope) {
            Some(bucket) => match Box::pin(self.leave_commit(scope, bucket)).await {
                Ok(()) => return true,
                Err(failure) => Err(failure),
            },
            None => self.commit(scope).await,
        };
        match committed {
            Ok(()) => {
                self.succeeded(messages).await;
                true
            }
            Err(failure) => Box::pin(self.recover(scope, failure)).await,
        }
    }

    async fn commit_or_log(&mut self, scope: &Scope) {
        if let Err(failure) = self.commit(scope).await {
            tracing::warn!(worker = %self.cell.address(), reason = %failure, "late replies were not settled and come again");
        }
    }

    /// Calls the worker with the messages at hand.
    pub async fn attempt(&mut self, scope: &Scope) -> Result<(), Failure> {
        if self.body.instance.is_none() {
            Box::pin(self.start_instance()).await?;
        }
        self.begin_woken(scope);
        self.turn(scope);
        let limit = self.call_limit();
        let takes_values = self.version().code.takes_values();
        let desk = &mut *self.desk;
        let instance = self.body.instance.as_mut().expect("it was started");
        let (_, turn) = desk.turn.as_mut().expect("it was begun");
        let takes_series = |messages| instance.takes_series(messages);
        let handled = match desk.incomings.is_empty() && desk.stretches.iter().all(takes_series) {
            true => instance.handle_series(&desk.stretches, turn),
            false => {
                spread(&mut desk.stretches, &mut desk.incomings);
                let messages = desk.incomings.make_contiguous();
                if !takes_values {
                    messages.iter_mut().for_each(Incoming::encode_value);
                }
                instance.handle(messages, turn)
            }
        };
        let handled = host::call(limit, handled).await;
        if handled.is_err() {
            turn.clear();
        }
        handled
    }

    /// The turn begins: whoever wakes the worker from now on does so anew.
    pub fn begin_woken(&mut self, scope: &Scope) {
        if std::mem::take(&mut self.desk.is_woken) {
            self.cell.stage.woken.forget(scope);
        }
    }

    /// How long a call of the worker may take.
    pub fn call_limit(&self) -> Duration {
        Duration::from_millis(self.version().spec.instance_limits.call_ms_max)
    }

    /// The turn for this scope: the last one, if it was for the same.
    pub fn turn(&mut self, scope: &Scope) -> &mut Turn {
        if self.desk.turn.as_ref().is_none_or(|(of, _)| of != scope) {
            let memory = match self.desk.turn.take() {
                Some((_, turn)) => turn.into_memory(),
                None => self.desk.memory.take().unwrap_or_default(),
            };
            let version = self.version();
            let limits = version.spec.turn_limits.clone();
            let turn = Turn::with_memory(self.host(scope), limits, memory);
            self.desk.turn = Some((scope.clone(), turn));
        }
        let (_, turn) = self.desk.turn.as_mut().expect("it was just set");
        turn
    }

    pub fn new_turn(&self, scope: &Scope) -> Turn {
        let limits = self.version().spec.turn_limits.clone();
        Turn::new(self.host(scope), limits)
    }

    fn host(&self, scope: &Scope) -> Arc<host::CellHost> {
        let (cell, version) = (self.cell.clone(), self.version().clone());
        Arc::new(host::CellHost::new(cell, version, scope.clone()))
    }

    /// Forgets the turn, whose limits or grants may be those of another version.
    pub fn forget_turn(&mut self) {
        self.desk.turn = None;
    }

    /// Gives the messages at hand back to the front of the mailbox, to come again one by one.
    pub fn put_back(&mut self, scope: &Scope) {
        let bucket = match scope {
            Scope::Bucket(bucket) => *bucket,
            _ => 0,
        };
        let sources = self
            .desk
            .sources
            .drain(..)
            .chain(iter::repeat_with(|| None));
        let woken = &self.cell.stage.woken;
        let envelopes: Vec<Envelope> = iter::zip(self.desk.incomings.drain(..), sources)
            // Another one may have come to wake the worker meanwhile.
            .filter(|(incoming, _)| incoming.kind != Kind::Woken || woken.note(scope))
            .map(|(incoming, source)| Envelope {
                incoming,
                source,
                bucket,
            })
            .collect();
        let count = envelopes.len();
        let mut mailbox = self.cell.mailbox.lock();
        mailbox.put_back(envelopes.into_iter());
        self.cell
            .waiting
            .store(mailbox.len() as u32, Ordering::Relaxed);
        drop(mailbox);
        self.body.extras().singles += count;
    }

    /// Drops timers and time limits of asks of this scope that have gone off and wait.
    pub fn drop_alarms(&mut self, scope: &Scope) {
        let bucket = match scope {
            Scope::Bucket(bucket) => *bucket,
            _ => 0,
        };
        self.desk.batch.drop_alarms(bucket);
        let mut mailbox = self.cell.mailbox.lock();
        mailbox.drop_alarms(bucket);
        self.cell.note_waiting(&mailbox);
    }

    /// Learns how many messages are as much work as one batch should be.
    fn measure(&self, messages: usize, took: Duration) {
        let intake = &self.version().spec.intake;
        let per_message = (took.as_nanos() as u64 / messages.max(1) as u64).max(1);
        let fits = (intake.batch_ms * 1_000_000 / per_message).max(1);
        let room = u64::from(self.cell.room.load(Ordering::Relaxed));
        let max = u64::from(intake.mailbox_messages_max);
        let next = fits.min(room * 2).min(max).max(1);
        if next != room {
            self.cell.room.store(next as u32, Ordering::Relaxed);
        }
    }
}

/// The prefix of ids that the runtime gives to asks.
pub(super) const ASK_PREFIX: &str = "ask-";

/// The ticket of the ask that a message answers.
fn ticket_of(message: &Message) -> Option<Ticket> {
    if message.headers.is_empty() || message.headers.get(Message::REPLY_TO).is_some() {
        return None;
    }
    let id = message.headers.get(Message::CORRELATION_ID)?;
    id.strip_prefix(ASK_PREFIX)?.parse().ok()
}
