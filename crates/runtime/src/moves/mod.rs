//! Which worker has which bucket of a keyed stage, and what becomes of buckets that are on their way to another one.
//!
//! A state machine: an event and the time go in, actions come out. It does no I/O and knows neither threads nor a clock;
//! `stage/moves.rs` drives it with workers and the time of the process, `simulation` with simulated ones.
//!
//! Why nothing is lost, doubled or out of order. Events change the state while it is locked for writing, and their actions are
//! done before it is unlocked; senders ask for the [`Place`] and hand over while it is locked for reading. So when a bucket is
//! marked as on its way, everything before is in the mailbox of its worker, and everything after is held. The worker is asked
//! to give between two batches, so what it gives is all there is of the bucket; that, and behind it what was held, goes to the new
//! worker with the same event that changes the owner. A worker that takes too long keeps the bucket: what was held goes to the end
//! of its mailbox. When it answers at last, what it gave goes back to the front, before it looks at its mailbox again.

mod held;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(crate) use self::held::Held;
use crate::key::BUCKETS;
use crate::table::Table;

/// How long a worker may take to finish its batch and give a bucket.
pub(crate) const GIVE_MAX: Duration = Duration::from_secs(60);
/// How many buckets are on their way at the same time when many have to move.
pub(crate) const ROUND: usize = 8;

/// Owners of buckets, and buckets on their way with the messages `M` that are held for them.
pub(crate) struct Moves<M> {
    table: Table,
    /// How many workers there are; none that is numbered higher has a bucket, or is about to get one.
    workers: u32,
    /// Buckets on their way. It is empty almost always, and that is all that a message looks at then.
    leaving: BTreeMap<u32, Leaving<M>>,
    moves_begun: u64,
    life: Life,
}

/// A bucket on its way.
struct Leaving<M> {
    id: MoveId,
    from: u32,
    to: u32,
    since: Instant,
    held: Held<M>,
}

/// One move of one bucket. No two of a stage are the same, so an answer that comes late is known as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MoveId {
    pub bucket: u32,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// What is on its way arrives; nothing else leaves.
    Stopping,
    Ended,
}

/// Where a message for a bucket goes.
pub(crate) enum Place<'a, M> {
    /// Into the mailbox of this worker.
    Worker(u32),
    /// The bucket is on its way.
    Held(&'a Held<M>),
}

/// What happens to buckets.
pub(crate) enum Event<M> {
    /// A bucket is to go to another worker.
    Wanted {
        bucket: u32,
        to: u32,
        /// How many messages wait for the worker that has it.
        waiting: u32,
    },
    /// A worker gave what waited of a bucket.
    Gave { id: MoveId, given: Vec<M> },
    /// A worker that was asked for a bucket will not answer: it is gone.
    Gone { id: MoveId },
    /// Whoever wanted the move has waited as long as the worker was given.
    Waited { id: MoveId },
    /// There are so many workers now, more than before.
    Added { workers: u32 },
    /// The workers from this number on are to go.
    Removed { workers: u32 },
    /// The stage is about to end.
    Stopping,
    /// The stage has ended: its workers do nothing more.
    Ended,
}

/// What has to be done, in this order, before anybody looks for a place again.
#[derive(Debug, PartialEq)]
pub(crate) enum Action<M> {
    /// Ask the worker to give the bucket, and come back with [`Event::Waited`] if it has not answered by then.
    Ask {
        worker: u32,
        id: MoveId,
        until: Instant,
    },
    /// Put messages at the end of the worker's mailbox, whether there is room or not.
    Push { worker: u32, messages: Vec<M> },
    /// What was given goes back to where it was: to the front of the giver's mailbox, before the giver looks there again.
    PutBack { messages: Vec<M> },
    /// Nobody handles these any more.
    LetGo { messages: Vec<M> },
    /// Let go of the workers from this number on.
    Dismiss { workers: u32 },
    /// The bucket has arrived.
    Moved { paused: Duration },
    /// The bucket stays with the worker.
    Stays {
        bucket: u32,
        worker: u32,
        why: Why,
        paused: Duration,
    },
}

/// Why a bucket stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Why {
    #[error("there is no worker {0} to give it to")]
    NoWorker(u32),
    #[error("it is on its way to worker {0}, and has to arrive first")]
    OnItsWay(u32),
    #[error("it has to be given to another worker before this one can go")]
    Owned,
    #[error("it was still busy after {0:?}")]
    Busy(Duration),
    #[error("the worker is gone")]
    Gone,
    #[error("the stage is stopping")]
    Stopping,
}

impl<M> Moves<M> {
    pub fn new(table: Table, workers: u32) -> Self {
        Self {
            table,
            workers,
            leaving: BTreeMap::new(),
            moves_begun: 0,
            life: Life::Running,
        }
    }

    /// Where a message for this bucket goes. Every message of a keyed stage asks.
    #[inline]
    pub fn place(&self, bucket: u32) -> Place<'_, M> {
        if !self.leaving.is_empty()
            && let Some(leaving) = self.leaving.get(&bucket)
        {
            return Place::Held(&leaving.held);
        }
        Place::Worker(self.table.owner(bucket))
    }

    /// Who has which bucket; one that is on its way still has its old worker.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many messages are held.
    pub fn held_messages(&self) -> usize {
        self.leaving.values().map(|l| l.held.len()).sum()
    }

    /// The buckets that have to move, and where to, so that so many workers share them evenly.
    pub fn moves_for(&self, workers: u32) -> Vec<(u32, u32)> {
        let next = self.table.resized(workers);
        (0..BUCKETS)
            .filter(|bucket| self.table.owner(*bucket) != next.owner(*bucket))
            .map(|bucket| (bucket, next.owner(bucket)))
            .collect()
    }

    /// What follows from an event.
    pub fn step(&mut self, event: Event<M>, now: Instant) -> Vec<Action<M>> {
        match event {
            Event::Wanted {
                bucket,
                to,
                waiting,
            } => self.wanted(bucket, to, waiting, now),
            Event::Gave { id, given } => self.gave(id, given, now),
            Event::Gone { id } => self.stays(id, Why::Gone, now),
            Event::Waited { id } => match self.is_overdue(id, now) {
                true => self.stays(id, Why::Busy(GIVE_MAX), now),
                false => Vec::new(),
            },
            Event::Added { workers } => {
                self.workers = self.workers.max(workers);
                Vec::new()
            }
            Event::Removed { workers } => self.removed(workers),
            Event::Stopping => {
                self.life = Life::Stopping;
                Vec::new()
            }
            Event::Ended => self.ended(),
        }
    }

    fn wanted(&mut self, bucket: u32, to: u32, waiting: u32, now: Instant) -> Vec<Action<M>> {
        let from = self.table.owner(bucket);
        let why = match self.leaving.get(&bucket) {
            _ if self.life != Life::Running => Some(Why::Stopping),
            _ if to >= self.workers => Some(Why::NoWorker(to)),
            Some(leaving) => Some(Why::OnItsWay(leaving.to)),
            None => None,
        };
        if let Some(why) = why {
            let paused = Duration::ZERO;
            return vec![refusal(bucket, from, why, paused)];
        }
        if from == to {
            return Vec::new();
        }
        self.moves_begun += 1;
        let id = MoveId {
            bucket,
            number: self.moves_begun,
        };
        let leaving = Leaving {
            id,
            from,
            to,
            since: now,
            held: Held::behind(waiting),
        };
        self.leaving.insert(bucket, leaving);
        vec![Action::Ask {
            worker: from,
            id,
            until: now + GIVE_MAX,
        }]
    }

    fn gave(&mut self, id: MoveId, mut messages: Vec<M>, now: Instant) -> Vec<Action<M>> {
        let Some(leaving) = self.arrive(id) else {
            // It has stayed with its worker since, which is the one that gave: a later move asks the same worker, after this.
            return vec![match self.life {
                Life::Ended => Action::LetGo { messages },
                Life::Running | Life::Stopping => Action::PutBack { messages },
            }];
        };
        self.table.owners[id.bucket as usize] = leaving.to;
        self.table.version += 1;
        messages.extend(leaving.held.into_messages());
        let paused = now.saturating_duration_since(leaving.since);
        let worker = leaving.to;
        vec![Action::Push { worker, messages }, Action::Moved { paused }]
    }

    fn is_overdue(&self, id: MoveId, now: Instant) -> bool {
        let leaving = self.leaving.get(&id.bucket);
        leaving.is_some_and(|leaving| now.saturating_duration_since(leaving.since) >= GIVE_MAX)
    }

    /// The bucket stays where it was, and so does what was held for it; nothing if it has arrived already.
    fn stays(&mut self, id: MoveId, why: Why, now: Instant) -> Vec<Action<M>> {
        let Some(leaving) = self.arrive(id) else {
            return Vec::new();
        };
        let worker = leaving.from;
        let messages = leaving.held.into_messages();
        let paused = now.saturating_duration_since(leaving.since);
        vec![
            Action::Push { worker, messages },
            refusal(id.bucket, worker, why, paused),
        ]
    }

    /// The bucket is no longer on its way by this move, if it was.
    fn arrive(&mut self, id: MoveId) -> Option<Leaving<M>> {
        let leaving = self.leaving.get(&id.bucket)?;
        if leaving.id != id {
            return None;
        }
        self.leaving.remove(&id.bucket)
    }

    /// Workers go when they have no bucket, and none is on its way to them.
    fn removed(&mut self, workers: u32) -> Vec<Action<M>> {
        let leaving = self.leaving.values();
        let arriving = leaving.into_iter().find(|leaving| leaving.to >= workers);
        if let Some(Leaving { id, from, to, .. }) = arriving {
            let why = Why::OnItsWay(*to);
            return vec![refusal(id.bucket, *from, why, Duration::ZERO)];
        }
        let owned = (0..BUCKETS).find(|bucket| self.table.owner(*bucket) >= workers);
        if let Some(bucket) = owned {
            let owner = self.table.owner(bucket);
            return vec![refusal(bucket, owner, Why::Owned, Duration::ZERO)];
        }
        self.workers = workers;
        vec![Action::Dismiss { workers }]
    }

    /// Nothing is on its way any more; what was held is for whoever ends the stage.
    fn ended(&mut self) -> Vec<Action<M>> {
        self.life = Life::Ended;
        self.workers = 0;
        let leaving = std::mem::take(&mut self.leaving).into_values();
        let messages = leaving.flat_map(|l| l.held.into_messages()).collect();
        vec![Action::Dismiss { workers: 0 }, Action::LetGo { messages }]
    }
}

#[cfg(test)]
impl<M> Moves<M> {
    /// The control of the tests: changes the owner without asking the old one for anything.
    pub fn move_wrongly(&mut self, bucket: u32, to: u32) {
        self.table.owners[bucket as usize] = to;
    }

    /// The buckets that are on their way.
    pub fn on_their_way(&self) -> Vec<u32> {
        self.leaving.keys().copied().collect()
    }
}

fn refusal<M>(bucket: u32, worker: u32, why: Why, paused: Duration) -> Action<M> {
    Action::Stays {
        bucket,
        worker,
        why,
        paused,
    }
}
