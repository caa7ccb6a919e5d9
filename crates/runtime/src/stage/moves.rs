//! Moving buckets from worker to worker, without stopping anything else.
//!
//! What is to be done is decided by [`Moves`], which says why nothing is lost; here it is done, while that is
//! locked for writing. A worker that is asked settles what it has begun of the bucket, lets its outputs leave, and gives
//! what waits, between two batches. It is the worker's own call that brings this to the next one, so that nothing
//! depends on whether somebody still waits for the move. State, timers and pending asks belong to the bucket and are
//! found by whoever has it; the new worker raises the epoch with its first commit.

use std::sync::Arc;

use kernel::worker::{Failure, Incoming};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Stage;
use super::life::{local_messages, release};
use crate::cell::Cell;
use crate::control::Control;
use crate::error::ScaleError;
use crate::key::BUCKETS;
use crate::mailbox::Envelope;
use crate::moves::{Action, Event, MoveId, Moves, Place, ROUND};
use crate::scope::Scope;

/// A worker that was asked to give a bucket.
struct Asked {
    id: MoveId,
    given: oneshot::Receiver<Result<(), Failure>>,
    until: Instant,
}

/// What came of an event, beside what was done with messages.
#[derive(Default)]
pub(super) struct Outcome {
    asked: Option<Asked>,
    stays: Option<ScaleError>,
    /// A bucket has another worker now.
    has_moved: bool,
    /// What a worker gave in vain.
    back: Vec<Envelope>,
    /// What nobody handles any more.
    pub let_go: Vec<Envelope>,
    /// Workers that have no place any more.
    pub dismissed: Vec<Arc<Cell>>,
}

impl Outcome {
    /// An error if a bucket stays where it was not to stay.
    pub fn check(self) -> Result<(), ScaleError> {
        self.stays.map_or(Ok(()), Err)
    }
}

impl Stage {
    /// Puts messages of a bucket into the mailbox of its worker, whether there is room or not.
    pub fn push_to_bucket(&self, bucket: u32, envelopes: impl Iterator<Item = Envelope>) {
        let moves = self.moves.read();
        let worker = match moves.place(bucket) {
            Place::Worker(worker) => worker,
            Place::Held(held) => return held.extend(envelopes),
        };
        let cell = self.cells.read().get(worker as usize).cloned();
        match cell {
            Some(cell) => cell.push_all(envelopes),
            // The stage has ended; the bus delivers again.
            None => release(envelopes),
        }
    }

    /// Puts a message of this process into the mailbox of whoever works on a scope now, whether there is room or not. Whether
    /// there is somebody.
    pub fn push_to(&self, scope: &Scope, incoming: Incoming) -> bool {
        if let Scope::Bucket(bucket) = scope {
            let envelope = Envelope::local(incoming, *bucket);
            self.push_to_bucket(*bucket, std::iter::once(envelope));
            return true;
        }
        let cell = self.cell_of(scope);
        if let Some(cell) = &cell {
            cell.push(Envelope::local(incoming, 0));
        }
        cell.is_some()
    }

    /// Lets something happen to buckets, and does what follows from it before anybody looks for a place again.
    pub(super) fn bucket_event(&self, event: Event<Envelope>) -> Outcome {
        self.step_moves(&mut self.moves.write(), event)
    }

    fn step_moves(&self, moves: &mut Moves<Envelope>, event: Event<Envelope>) -> Outcome {
        let mut outcome = Outcome::default();
        for action in moves.step(event, Instant::now().into_std()) {
            self.do_for_buckets(action, &mut outcome);
        }
        outcome
    }

    /// The owners are locked for writing meanwhile.
    fn do_for_buckets(&self, action: Action<Envelope>, outcome: &mut Outcome) {
        let cell = |worker: u32| self.cells.read().get(worker as usize).cloned();
        match action {
            Action::Ask { worker, id, until } => {
                let (done, given) = oneshot::channel();
                if let Some(cell) = cell(worker) {
                    cell.control(Control::Give { id, done });
                }
                let until = until.into();
                outcome.asked = Some(Asked { id, given, until });
            }
            Action::Push { worker, messages } => match cell(worker) {
                Some(cell) => cell.push_all(messages.into_iter()),
                None => outcome.let_go.extend(messages),
            },
            Action::PutBack { messages } => outcome.back = messages,
            Action::LetGo { messages } => outcome.let_go.extend(messages),
            Action::Dismiss { workers } => {
                let mut cells = self.cells.write();
                outcome.dismissed = cells.split_off(workers as usize);
                self.book.goes(&outcome.dismissed);
            }
            Action::Moved { paused } => {
                outcome.has_moved = true;
                self.pauses.add(paused);
                self.room.notify(usize::MAX);
            }
            Action::Stays {
                bucket,
                worker,
                why,
                paused,
            } => {
                if !paused.is_zero() {
                    self.pauses.add(paused);
                }
                self.room.notify(usize::MAX);
                outcome.stays = Some(ScaleError::Move {
                    bucket,
                    worker: self.address.worker(worker),
                    reason: why.to_string(),
                });
            }
        }
    }

    /// A worker gives what waits of a bucket. What comes back belongs to the front of its mailbox, as before.
    pub fn bucket_given(self: &Arc<Self>, id: MoveId, given: Vec<Envelope>) -> Vec<Envelope> {
        let outcome = self.bucket_event(Event::Gave { id, given });
        if outcome.has_moved {
            self.wake_if_timed(&Scope::Bucket(id.bucket));
        }
        let left = local_messages(outcome.let_go.into_iter());
        if !left.is_empty() {
            // The stage has ended, and whoever ended it has not seen these.
            let stage = self.clone();
            self.runtime
                .tokio
                .spawn(async move { stage.bury(left).await });
        }
        outcome.back
    }

    /// Gives a bucket to another worker.
    pub async fn move_bucket(self: &Arc<Self>, bucket: u32, to: u32) -> Result<(), ScaleError> {
        let _changing = self.changing.lock().await;
        let refuse = |reason: String| Err(ScaleError::Refused { reason });
        if !self.is_keyed() {
            return refuse(format!(
                "{} is not keyed, so it has no buckets",
                self.address
            ));
        }
        if self.is_stopping() {
            return refuse(format!("{} is stopping", self.address));
        }
        if bucket >= BUCKETS || to >= self.workers_count() {
            return refuse(format!(
                "{} has buckets 0 to {} and workers 0 to {}; it has no bucket {bucket} for worker {to}",
                self.address,
                BUCKETS - 1,
                self.workers_count().saturating_sub(1)
            ));
        }
        self.move_buckets(&[(bucket, to)]).await
    }

    /// Gives buckets to other workers, few at a time. After a failure those that did not move stay where they are.
    pub(super) async fn move_buckets(&self, moves: &[(u32, u32)]) -> Result<(), ScaleError> {
        for round in moves.chunks(ROUND) {
            let begun: Vec<Outcome> = round
                .iter()
                .map(|(bucket, to)| self.begin_move(*bucket, *to))
                .collect();
            let mut outcome = Ok(());
            for begun in begun {
                let moved = self.finish_move(begun).await;
                outcome = outcome.and(moved);
            }
            outcome?;
        }
        Ok(())
    }

    fn begin_move(&self, bucket: u32, to: u32) -> Outcome {
        let mut moves = self.moves.write();
        let owner = moves.table().owner(bucket) as usize;
        let waiting = self.cells.read().get(owner).map_or(0, |c| c.waiting());
        let wanted = Event::Wanted {
            bucket,
            to,
            waiting,
        };
        self.step_moves(&mut moves, wanted)
    }

    async fn finish_move(&self, mut begun: Outcome) -> Result<(), ScaleError> {
        let Some(Asked { id, given, until }) = begun.asked.take() else {
            return begun.check();
        };
        let event = match tokio::time::timeout_at(until, given).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(_)) => Event::Gone { id },
            Err(_) => Event::Waited { id },
        };
        // If it was given just now nothing comes of this.
        self.bucket_event(event).check()
    }
}

#[cfg(test)]
impl Stage {
    /// The control of the tests: changes the owner without asking the old one for anything.
    pub fn move_bucket_wrongly(&self, bucket: u32, to: u32) {
        self.moves.write().move_wrongly(bucket, to);
    }
}
