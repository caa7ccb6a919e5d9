//! A stage that is only simulated: senders, workers, those who want moves, and a clock. One step after another happens, and a
//! seed decides which.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::book::Book;
use super::changes::{Resize, Wanted};
use super::worker::{Ask, Did, Worker};
use super::{Chance, Ending, Fault, Outcome, Step};
use crate::mailbox::Envelope;
use crate::moves::{Action, Event, MoveId, Moves, Place};
use crate::table::Table;

const SENDERS: usize = 4;
const KEYS_EACH: u32 = 6;
pub const KEYS: u32 = SENDERS as u32 * KEYS_EACH;
pub const WORKERS_MAX: u32 = 6;
const MESSAGES_MAX: u32 = 12;
const BATCH_MESSAGES_MAX: usize = 5;
/// The last sender is a queue: what it sends is taken whether there is room or not, but never more than this.
const CREDIT: usize = 8;
const QUEUE: usize = SENDERS - 1;
/// After so many steps nothing new begins.
const STEPS: u64 = 4_000;
/// By then everything has to be at rest.
const STEPS_MAX: u64 = 60_000;
/// How many steps lie between two looks at everything.
const LOOK_EACH: u64 = 32;

pub struct World {
    pub(super) chance: Chance,
    pub(super) fault: Fault,
    pub(super) start: Instant,
    pub(super) now_ms: u64,
    pub(super) moves: Moves<Envelope>,
    pub(super) workers: Vec<Worker>,
    pub(super) senders: Vec<VecDeque<Envelope>>,
    /// What a stage before this one left; it comes first.
    pub(super) left: VecDeque<Envelope>,
    pub(super) queued: usize,
    pub(super) wanted: Vec<Wanted>,
    /// Moves that a worker was asked for and will not answer.
    pub(super) forgotten: Vec<MoveId>,
    pub(super) resize: Option<Resize>,
    pub(super) is_stopping: bool,
    pub(super) has_ended: bool,
    pub(super) ending: Ending,
    pub(super) book: Book,
    pub(super) outcome: Outcome,
}

impl World {
    pub fn new(seed: u64, fault: Fault) -> Self {
        let mut chance = Chance::new(seed);
        let workers = chance.random.u32(1..=WORKERS_MAX);
        let ending = chance.ending();
        Self {
            chance,
            fault,
            start: Instant::now(),
            now_ms: 0,
            moves: Moves::new(Table::new(workers), workers),
            workers: (0..workers).map(|_| Worker::new()).collect(),
            senders: (0..SENDERS).map(|_| VecDeque::new()).collect(),
            left: VecDeque::new(),
            queued: 0,
            wanted: Vec::new(),
            forgotten: Vec::new(),
            resize: None,
            is_stopping: false,
            has_ended: false,
            ending,
            book: Book::new(KEYS),
            outcome: Outcome::default(),
        }
    }

    /// Lets everything happen, in the order that the seed gives; what is wrong in the end, in words.
    pub fn run(mut self) -> (Outcome, Result<(), String>) {
        let checked = self.run_all();
        (self.outcome, checked)
    }

    fn run_all(&mut self) -> Result<(), String> {
        for step in 0..STEPS_MAX {
            self.chance.is_calm = step >= STEPS;
            self.now_ms += self.chance.passes_ms();
            match self.chance.random.u32(0..100) {
                0..=39 => self.send(),
                40..=79 => self.work()?,
                80..=84 => self.want()?,
                85..=89 => self.wait()?,
                90..=96 => self.change_size()?,
                97 => self.replace(),
                _ => self.end()?,
            }
            if step.is_multiple_of(LOOK_EACH) {
                self.look()?;
            }
            if self.chance.is_calm && self.is_at_rest() {
                return self.finish();
            }
        }
        Err(format!("it stands still: {} wanted", self.wanted.len()))
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = self.has_ended || self.workers.iter().all(Worker::is_idle);
        let all_sent = self.left.is_empty() && self.senders.iter().all(VecDeque::is_empty);
        is_idle
            && (all_sent || self.has_ended)
            && self.wanted.is_empty()
            && self.resize.is_none()
            && (!self.is_stopping || self.has_ended)
    }

    fn finish(&mut self) -> Result<(), String> {
        if !self.moves.on_their_way().is_empty() || self.moves.held_messages() > 0 {
            return Err("something is held although nothing moves".into());
        }
        let left = self.left.drain(..);
        let unsent = self.senders.iter_mut().flat_map(|s| s.drain(..));
        // After the end of a stage everything is there that was not handled, in order.
        for envelope in left.chain(unsent) {
            self.book.note(&envelope)?;
        }
        self.book.check()
    }

    /// A sender sends what it has, or some more.
    fn send(&mut self) {
        if self.has_ended {
            return;
        }
        if !self.left.is_empty() {
            let mut left = std::mem::take(&mut self.left);
            self.place(&mut left);
            self.left = left;
            return;
        }
        let sender = self.chance.random.usize(0..SENDERS);
        let mut messages = std::mem::take(&mut self.senders[sender]);
        if messages.is_empty() && !self.chance.is_calm {
            for _ in 0..self.chance.random.u32(1..=6) {
                let key = sender as u32 * KEYS_EACH + self.chance.random.u32(0..KEYS_EACH);
                messages.push_back(self.book.write(key));
            }
        }
        match sender {
            QUEUE => self.pull(&mut messages),
            _ => self.place(&mut messages),
        }
        self.senders[sender] = messages;
    }

    /// Hands over those for which there is room, in their order.
    fn place(&mut self, messages: &mut VecDeque<Envelope>) {
        for _ in 0..messages.len() {
            let Some(envelope) = messages.pop_front() else {
                return;
            };
            let bucket = envelope.bucket;
            let worker = match self.moves.place(bucket) {
                Place::Held(_) if self.fault == Fault::NotHeld => self.moves.table().owner(bucket),
                Place::Worker(worker) => worker,
                Place::Held(held) => {
                    self.outcome.held += 1;
                    messages.extend(held.try_push(envelope, MESSAGES_MAX).err());
                    continue;
                }
            };
            let mailbox = &mut self.workers[worker as usize].mailbox;
            match mailbox.len() < MESSAGES_MAX as usize {
                true => mailbox.push(envelope),
                false => messages.push_back(envelope),
            }
        }
    }

    /// Hands over as many as there is credit for, whether there is room or not.
    fn pull(&mut self, messages: &mut VecDeque<Envelope>) {
        while self.queued < CREDIT
            && let Some(envelope) = messages.pop_front()
        {
            self.queued += 1;
            match self.moves.place(envelope.bucket) {
                Place::Worker(worker) => self.workers[worker as usize].mailbox.push(envelope),
                Place::Held(held) => held.extend(std::iter::once(envelope)),
            }
        }
    }

    /// A worker does the next few things.
    fn work(&mut self) -> Result<(), String> {
        if self.workers.is_empty() {
            return Ok(());
        }
        let number = self.chance.random.usize(0..self.workers.len());
        for _ in 0..self.chance.random.u32(1..=3) {
            self.work_once(number)?;
        }
        Ok(())
    }

    fn work_once(&mut self, number: usize) -> Result<(), String> {
        let worker = &mut self.workers[number];
        match worker.step(self.now_ms, BATCH_MESSAGES_MAX, &mut self.chance) {
            Did::Nothing => Ok(()),
            Did::Handled(messages) => self.handled(number as u32, &messages),
            Did::Gave { id, given } => self.gave(number, id, given),
            Did::Forgot(id) => {
                self.forgotten.push(id);
                Ok(())
            }
        }
    }

    fn handled(&mut self, worker: u32, messages: &[Envelope]) -> Result<(), String> {
        for envelope in messages {
            let owner = self.moves.table().owner(envelope.bucket);
            if owner != worker && self.fault.is_watched() {
                let bucket = envelope.bucket;
                return Err(format!("{worker} handled bucket {bucket} of {owner}"));
            }
            let (key, number) = super::book::read(envelope);
            self.note("handled", key, number);
            self.book.note(envelope)?;
            self.queued -= usize::from(key / KEYS_EACH == QUEUE as u32);
        }
        Ok(())
    }

    fn gave(&mut self, worker: usize, id: MoveId, given: Vec<Envelope>) -> Result<(), String> {
        if self.fault == Fault::LateDropped && !self.moves.on_their_way().contains(&id.bucket) {
            return Ok(());
        }
        self.event("gave", Event::Gave { id, given }, Some(worker))
    }

    pub(super) fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms)
    }

    fn note(&mut self, what: &'static str, a: u32, b: u32) {
        let step: Step = (self.now_ms, what, a, b);
        self.outcome.trace.push(step);
    }

    /// Lets something happen to buckets, and does what follows.
    pub(super) fn event(
        &mut self,
        name: &'static str,
        event: Event<Envelope>,
        giver: Option<usize>,
    ) -> Result<(), String> {
        let (about, given) = match &event {
            Event::Gave { id, given } => (Some(*id), given.len()),
            Event::Gone { id } | Event::Waited { id } => (Some(*id), 0),
            _ => (None, 0),
        };
        let bucket = about.map_or(u32::MAX, |id| id.bucket);
        self.note(name, bucket, given as u32);
        let actions = self.moves.step(event, self.now());
        for action in actions {
            self.act(action, about, given, giver)?;
        }
        Ok(())
    }

    fn act(
        &mut self,
        action: Action<Envelope>,
        about: Option<MoveId>,
        given: usize,
        giver: Option<usize>,
    ) -> Result<(), String> {
        match action {
            Action::Ask { worker, id, until } => {
                self.note("ask", worker, id.bucket);
                self.workers[worker as usize].ask(Ask::Give(id));
                self.wanted.push(Wanted {
                    id,
                    until,
                    is_resize: false,
                });
            }
            Action::Push {
                worker,
                mut messages,
            } => {
                self.note("push", worker, messages.len() as u32);
                if self.fault == Fault::HeldFirst {
                    messages.rotate_left(given);
                }
                let mailbox = &mut self.workers[worker as usize].mailbox;
                messages.into_iter().for_each(|m| mailbox.push(m));
            }
            Action::PutBack { messages } => self.put_back(messages, giver, about)?,
            Action::LetGo { messages } => {
                self.note("let go", 0, messages.len() as u32);
                self.outcome.let_go += messages.len();
                if self.fault != Fault::EndForgets {
                    self.left.extend(messages);
                }
            }
            Action::Dismiss { workers } => self.dismiss(workers)?,
            Action::Moved { .. } => {
                self.outcome.moved += 1;
                self.wanted.retain(|wanted| Some(wanted.id) != about);
            }
            Action::Stays { bucket, worker, .. } => {
                self.note("stays", worker, bucket);
                self.outcome.stayed += 1;
                let by_resize = |wanted: &Wanted| wanted.is_resize && Some(wanted.id) == about;
                if let Some(resize) = &mut self.resize {
                    resize.has_failed |= self.wanted.iter().any(by_resize);
                }
                self.wanted.retain(|wanted| Some(wanted.id) != about);
            }
        }
        Ok(())
    }

    /// A worker gave too late.
    fn put_back(
        &mut self,
        messages: Vec<Envelope>,
        giver: Option<usize>,
        about: Option<MoveId>,
    ) -> Result<(), String> {
        let (Some(giver), Some(id)) = (giver, about) else {
            return Err("something was put back that nobody gave".into());
        };
        self.note("put back", giver as u32, messages.len() as u32);
        self.outcome.put_back += usize::from(!messages.is_empty());
        let owner = self.moves.table().owner(id.bucket);
        if owner as usize != giver && self.fault.is_watched() {
            return Err(format!("bucket {} of {owner} went to {giver}", id.bucket));
        }
        match self.fault {
            Fault::PutBackLast => {
                let mailbox = &mut self.workers[giver].mailbox;
                messages.into_iter().for_each(|m| mailbox.push(m));
            }
            _ => self.workers[giver].put_back(messages),
        }
        Ok(())
    }

    /// Workers go. Before the end they have nothing any more; at the end what they have is left over.
    fn dismiss(&mut self, workers: u32) -> Result<(), String> {
        self.note("dismiss", workers, self.workers.len() as u32);
        for mut worker in self.workers.split_off(workers as usize) {
            if !self.is_stopping {
                self.outcome.dismissed += 1;
                // What it was asked for in vain it still does.
                let buckets = worker.buckets();
                if !buckets.is_empty() {
                    return Err(format!("a worker went with messages of {buckets:?}"));
                }
            }
            self.left.extend(worker.mailbox.drain());
        }
        Ok(())
    }

    /// Looks at everything: each bucket is with one worker only, and nothing has grown beyond its bounds.
    fn look(&mut self) -> Result<(), String> {
        let mut messages = [0_usize; crate::key::BUCKETS as usize];
        for number in 0..self.workers.len() {
            for bucket in self.workers[number].buckets() {
                let owner = self.moves.table().owner(bucket) as usize;
                if owner != number && self.fault.is_watched() {
                    return Err(format!(
                        "{number} has messages of bucket {bucket} of {owner}"
                    ));
                }
                messages[bucket as usize] += 1;
            }
        }
        let bound = MESSAGES_MAX as usize + BATCH_MESSAGES_MAX + CREDIT;
        for (bucket, mut messages) in (0..).zip(messages) {
            if let Place::Held(held) = self.moves.place(bucket) {
                messages += held.len();
            }
            self.outcome.most = self.outcome.most.max(messages);
            if messages > bound && self.fault.is_watched() {
                return Err(format!("{messages} wait for bucket {bucket}"));
            }
        }
        Ok(())
    }
}
