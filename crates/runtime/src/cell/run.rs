//! An activation: handles what waits for a worker, batch by batch, until nothing is left.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kernel::Message;
use kernel::worker::{Failure, Incoming, Kind, Ticket, Turn, Worker};

use super::completions::Completions;
use super::{Cell, host};
use crate::alarm_clock::What;
use crate::control::{Control, Done};
use crate::mailbox::{Envelope, Source};
use crate::scope::Scope;
use crate::stage::Version;
use crate::views::WorkerState;

/// How long an activation may go on while others wait for its thread.
const SLICE: Duration = Duration::from_millis(2);

/// What a worker keeps between activations.
#[derive(Default)]
pub(super) struct Body {
    pub instance: Option<Box<dyn Worker>>,
    pub version: Option<Arc<Version>>,
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

/// An activation in progress.
pub(super) struct Run {
    pub cell: Arc<Cell>,
    pub body: Body,
    /// The turn in progress, and whose state it sees.
    turn: Option<(Scope, Turn)>,
    pub incomings: Vec<Incoming>,
    pub sources: Vec<Option<Source>>,
    /// Those who wait until nothing is left in the mailbox.
    pub draining: Vec<Done<()>>,
    /// Messages that are done with without being handled: replies that came too late.
    pub discarded: Vec<Source>,
}

enum Next {
    Control(Control),
    Batch,
    Nothing,
}

/// Lists that an activation needs. Threads keep them for the next one, for most activations are short.
#[derive(Default)]
struct Lists {
    batch: VecDeque<Envelope>,
    incomings: Vec<Incoming>,
    sources: Vec<Option<Source>>,
}

/// Longer lists are not kept.
const KEPT_MAX: usize = 1_024;

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
}

/// Everything that waits for the worker, after the message that was handed over with it if there is
/// one. On somebody else's thread it gives way after one batch: then it has to be taken to the turn
/// threads.
///
/// It is made for every activation and moved, so it should stay small.
pub(super) fn activation(
    cell: Arc<Cell>,
    first: Option<Envelope>,
    mut is_guest: bool,
) -> impl Future<Output = ()> + Send {
    let body = std::mem::take(&mut *cell.body.lock());
    let lists = LISTS.take();
    let mut run = Run {
        cell,
        body,
        turn: None,
        incomings: lists.incomings,
        sources: lists.sources,
        draining: Vec::new(),
        discarded: Vec::new(),
    };
    let mut batch = lists.batch;
    batch.extend(first);
    async move {
        let mut now = Instant::now();
        let mut slice_began = now;
        let mut next = match batch.is_empty() {
            true => run.next(&mut batch),
            false => Next::Batch,
        };
        loop {
            match next {
                Next::Control(control) => Box::pin(run.control(control)).await,
                Next::Batch => {
                    run.cell.set_state(WorkerState::Busy);
                    run.batch(&mut batch, now).await;
                }
                Next::Nothing => break,
            }
            if is_guest && run.cell.waiting() > 0 {
                is_guest = false;
                futures_lite::future::yield_now().await;
            }
            now = Instant::now();
            if now - slice_began > SLICE {
                if run.cell.stage.runtime.threads.is_contended() {
                    futures_lite::future::yield_now().await;
                    now = Instant::now();
                }
                slice_began = now;
            }
            next = run.next(&mut batch);
        }
        if batch.capacity().max(run.incomings.capacity()) <= KEPT_MAX {
            LISTS.set(Lists {
                batch: std::mem::take(&mut batch),
                incomings: std::mem::take(&mut run.incomings),
                sources: std::mem::take(&mut run.sources),
            });
        }
    }
}

impl Run {
    /// What to do next. If that is nothing the activation is over: the body is back in the cell
    /// before anybody can start another one.
    fn next(&mut self, batch: &mut VecDeque<Envelope>) -> Next {
        let cell = self.cell.clone();
        let mut mailbox = cell.mailbox.lock();
        if let Some(control) = mailbox.take_control() {
            return Next::Control(control);
        }
        if !mailbox.held && mailbox.len() > 0 {
            mailbox.take_batch(self.batch_messages_max(), batch);
            cell.waiting.store(mailbox.len() as u32, Ordering::Relaxed);
            drop(mailbox);
            cell.stage.room.notify(usize::MAX);
            return Next::Batch;
        }
        if let Some(done) = self.draining.pop() {
            return Next::Control(Control::Drain(done));
        }
        cell.last_active_s
            .store(cell.stage.runtime.seconds(), Ordering::Relaxed);
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

    /// Handles a batch, bucket by bucket if the stage is keyed.
    async fn batch(&mut self, batch: &mut VecDeque<Envelope>, began: Instant) {
        if let Some(extras) = &mut self.body.extras {
            extras.singles = extras.singles.saturating_sub(1);
        }
        let messages = batch.len();
        if self.cell.stage.is_keyed() {
            // The last bucket comes first; within a bucket the order stays.
            let batch = batch.make_contiguous();
            batch.sort_by_key(|envelope| Reverse(envelope.bucket));
        }
        while let Some(last) = batch.back() {
            let bucket = last.bucket;
            let others = batch.iter().rposition(|other| other.bucket != bucket);
            for envelope in batch.drain(others.map_or(0, |other| other + 1)..) {
                self.accept(envelope);
            }
            let scope = self.cell.scope(bucket);
            if !self.group(&scope).await {
                // A failure: what is left waits in its place behind what failed.
                self.leave(batch.drain(..));
                return;
            }
        }
        self.measure(messages, began.elapsed());
    }

    /// Puts what was not begun back into the mailbox, behind what was put back before.
    fn leave(&self, rest: impl Iterator<Item = Envelope>) {
        let rest: Vec<Envelope> = rest.collect();
        if rest.is_empty() {
            return;
        }
        let failed = self.put_back_count();
        let mut mailbox = self.cell.mailbox.lock();
        let mut front = VecDeque::new();
        mailbox.take_batch(failed, &mut front);
        mailbox.put_back(rest.into_iter());
        mailbox.put_back(front.into_iter());
        self.cell
            .waiting
            .store(mailbox.len() as u32, Ordering::Relaxed);
    }

    fn put_back_count(&self) -> usize {
        self.body.extras.as_ref().map_or(0, |extras| extras.singles)
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
                self.discarded.extend(envelope.source);
                return;
            }
            envelope.incoming.kind = Kind::Reply(ticket);
        }
        self.incomings.push(envelope.incoming);
        self.sources.push(envelope.source);
    }

    /// Handles and commits the messages at hand, of one scope. Whether the next may follow.
    async fn group(&mut self, scope: &Scope) -> bool {
        if self.incomings.is_empty() {
            if !self.discarded.is_empty() {
                Box::pin(self.commit_or_log(scope)).await;
            }
            return true;
        }
        let messages = self.incomings.len() as u64;
        match self.attempt(scope).await {
            Ok(()) => {}
            Err(failure) => return Box::pin(self.recover(scope, failure)).await,
        }
        match self.commit(scope).await {
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
        let mut turn = self.take_turn(scope);
        let limits = self.version().spec.instance_limits.clone();
        let instance = self.body.instance.as_mut().expect("it was started");
        let handled = host::call(&limits, instance.handle(&self.incomings, &mut turn)).await;
        if handled.is_err() {
            turn.clear();
        }
        self.turn = Some((scope.clone(), turn));
        handled
    }

    /// A turn for this scope: the last one, if it was for the same.
    pub fn take_turn(&mut self, scope: &Scope) -> Turn {
        match self.turn.take() {
            Some((of, turn)) if of == *scope => turn,
            _ => self.new_turn(scope),
        }
    }

    pub fn new_turn(&self, scope: &Scope) -> Turn {
        let version = self.version();
        let host = host::CellHost::new(self.cell.clone(), version.clone(), scope.clone());
        Turn::new(Arc::new(host), version.spec.turn_limits.clone())
    }

    pub fn put_turn(&mut self, scope: &Scope, turn: Turn) {
        self.turn = Some((scope.clone(), turn));
    }

    /// Forgets the turn, whose limits or grants may be those of another version.
    pub fn forget_turn(&mut self) {
        self.turn = None;
    }

    /// Gives the messages at hand back to the front of the mailbox, to come again one by one.
    pub fn put_back(&mut self, scope: &Scope) {
        let bucket = match scope {
            Scope::Bucket(bucket) => *bucket,
            _ => 0,
        };
        let incomings = self.incomings.drain(..);
        let envelopes: Vec<Envelope> = incomings
            .zip(self.sources.drain(..))
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
