//! Bringing messages from within this process to workers.

#![expect(clippy::result_large_err, reason = "what is refused is given back")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kernel::Message;
use kernel::worker::Incoming;

use super::{NoRoom, Stage};
use crate::cell::Cell;
use crate::key::bucket_of;
use crate::mailbox::Envelope;
use crate::messages::{Entry, Messages, Sorted};
use crate::moves::{Held, Moves, Place};
use crate::outgoing::Way;
use crate::router::{RouterKind, Workers};
use crate::spec::StageKind;

thread_local! {
    /// Spares an allocation per message.
    static CHOSEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// Messages of one batch by the worker that gets them.
    static SORTED: RefCell<Vec<Sorted>> = const { RefCell::new(Vec::new()) };
}

/// The workers of a stage as a router sees them.
pub(super) struct Candidates<'a> {
    pub cells: &'a [Arc<Cell>],
    /// What is about to be handed over to each; nothing to those beyond the end.
    pub sorted: &'a [Sorted],
    /// How many messages may wait for one; slow workers get fewer from the queue.
    pub messages_max: Option<u32>,
}

/// Where the messages of a batch can go.
struct Places<'a> {
    moves: &'a Moves<Envelope>,
    cells: &'a [Arc<Cell>],
    /// How many messages may wait for one worker.
    max: u32,
}

impl Workers for Candidates<'_> {
    fn count(&self) -> u32 {
        self.cells.len() as u32
    }

    fn waiting(&self, worker: u32) -> u32 {
        let sorted = self.sorted.get(worker as usize).map_or(0, Sorted::len);
        self.cells[worker as usize].waiting() + sorted as u32
    }

    fn has_room(&self, worker: u32) -> bool {
        let cell = &self.cells[worker as usize];
        match self.messages_max {
            Some(max) => self.waiting(worker) < max,
            None => cell.has_room(),
        }
    }
}

impl Stage {
    /// Hands a message to a worker that has room, without waiting.
    pub fn try_dispatch(&self, incoming: Incoming) -> Result<(), Refused> {
        self.try_place(incoming, Cell::try_push)
    }

    /// Finds the worker for a message and hands it over with `place`.
    fn try_place<T: Default>(
        &self,
        incoming: Incoming,
        place: impl FnOnce(&Arc<Cell>, Incoming, u32, u32) -> Result<T, Incoming>,
    ) -> Result<T, Refused> {
        let max = self.mailbox_messages_max();
        let put = |cell: &Arc<Cell>, incoming, bucket| {
            place(cell, incoming, bucket, max).map_err(Refused::Full)
        };
        if self.is_routed() {
            let Some(owner) = self.owner.lock().clone() else {
                return Err(Refused::Full(incoming));
            };
            return put(&owner, incoming, 0);
        }
        if let StageKind::Keyed(rule) = &self.kind {
            let bucket = match rule.key_of(&incoming) {
                Ok(key) => bucket_of(&key),
                Err(failure) => return Err(Refused::Never(incoming, failure.reason)),
            };
            // Whoever moves a bucket changes its place while nobody is between reading it and handing over.
            let moves = self.moves.read();
            let worker = match moves.place(bucket) {
                Place::Worker(worker) => worker,
                Place::Held(held) => {
                    let held = self.hold(held, incoming, bucket, max);
                    return held.map(|()| T::default()).map_err(Refused::Full);
                }
            };
            let cells = self.cells.read();
            let Some(cell) = cells.get(worker as usize) else {
                return Err(Refused::Full(incoming));
            };
            return put(cell, incoming, bucket);
        }
        let cells = self.cells.read();
        let chosen = match cells.len() {
            1 => Some(0),
            _ => self.choose(&cells, &incoming, Some(max)),
        };
        match chosen.and_then(|chosen| cells.get(chosen as usize)) {
            Some(cell) => put(cell, incoming, 0),
            None => Err(Refused::Full(incoming)),
        }
    }

    /// The worker that the router chooses, if any has room.
    pub(super) fn choose(
        &self,
        cells: &[Arc<Cell>],
        incoming: &Incoming,
        messages_max: Option<u32>,
    ) -> Option<u32> {
        let candidates = Candidates {
            cells,
            sorted: &[],
            messages_max,
        };
        self.choose_among(&candidates, &incoming.message)
    }

    fn choose_among(&self, candidates: &Candidates<'_>, message: &Message) -> Option<u32> {
        CHOSEN.with_borrow_mut(|chosen| {
            chosen.clear();
            match self.router.select(message, candidates, chosen) {
                Ok(()) => chosen.first().copied(),
                Err(failure) => {
                    tracing::warn!(stage = %self.address, reason = %failure, "the router failed");
                    None
                }
            }
        })
    }

    /// Hands a message to a worker, waiting for room as long as a send may wait.
    pub async fn dispatch(&self, incoming: Incoming) -> Result<(), NoRoom> {
        match self.try_dispatch(incoming) {
            Ok(()) => Ok(()),
            Err(refused) => self.dispatch_refused(refused).await,
        }
    }

    /// Goes on with a message that was refused at first.
    pub async fn dispatch_refused(&self, refused: Refused) -> Result<(), NoRoom> {
        let attempt = |incoming| self.try_dispatch(incoming);
        self.with_room(refused, attempt).await
    }

    /// Hands messages over, in their order, waiting for room as their way allows. Gives those for which there is no
    /// place.
    pub async fn dispatch_batch(&self, batch: &mut Messages, way: Way) -> Vec<NoRoom> {
        let mut refused = Vec::new();
        self.try_dispatch_batch(batch, way, &mut refused);
        if !batch.is_empty() {
            Box::pin(self.dispatch_rest(batch, way, &mut refused)).await;
        }
        refused
    }

    async fn dispatch_rest(&self, batch: &mut Messages, way: Way, refused: &mut Vec<NoRoom>) {
        let patience = Duration::from_millis(self.runtime.settings.send_timeout_ms);
        let mut deadline = tokio::time::Instant::now() + patience;
        let _starved = self.starved();
        let mut full = self.full_workers();
        let mut stands = None;
        loop {
            let room = self.room.listen();
            self.try_dispatch_batch(batch, way, refused);
            if batch.is_empty() {
                return;
            }
            // It will never have room again; another one may take its place.
            if self.is_stopping() {
                self.refuse_rest(batch, patience, refused);
                return;
            }
            if tokio::time::timeout_at(deadline, room).await.is_ok() {
                continue;
            }
            if way == Way::Sent || !self.is_serving() {
                self.refuse_rest(batch, patience, refused);
                return;
            }
            if way == Way::Inside && stands.is_none() && self.has_stood(&full) {
                stands = Some(self.stands_in_cycle());
            }
            full = self.full_workers();
            deadline = tokio::time::Instant::now() + patience;
        }
    }

    fn refuse_rest(&self, batch: &mut Messages, patience: Duration, refused: &mut Vec<NoRoom>) {
        let reason = format!(
            "no worker of {} had room for another message within {patience:?}",
            self.address
        );
        let no_room = |incoming| NoRoom {
            incoming,
            reason: reason.clone(),
        };
        refused.extend(std::iter::from_fn(|| batch.pop()).map(no_room));
    }

    /// Takes what the stage left whose place this one takes, before anybody else can send to it, so that nobody is overtaken. It
    /// was within the limits of that one, so the room that there is here does not matter. Gives what is to be dispatched later.
    pub fn take_over(&self, left: Vec<Incoming>) -> Vec<Incoming> {
        let (mut batch, mut refused) = (Messages::default(), Vec::new());
        left.into_iter().for_each(|incoming| batch.push(incoming));
        self.dispatch_up_to(u32::MAX, &mut batch, &mut refused);
        let refused = refused.into_iter().map(|refused| refused.incoming);
        refused.chain(std::iter::from_fn(|| batch.pop())).collect()
    }

    /// Hands over those for which there is room now; the others stay in the batch.
    fn try_dispatch_batch(&self, batch: &mut Messages, way: Way, refused: &mut Vec<NoRoom>) {
        let max = match way {
            Way::Inside => self.spill_messages_max(),
            Way::Edge | Way::Sent => self.mailbox_messages_max(),
        };
        self.dispatch_up_to(max, batch, refused);
    }

    /// As [`Stage::try_dispatch_batch`], so that no more than this wait for each worker.
    fn dispatch_up_to(&self, max: u32, batch: &mut Messages, refused: &mut Vec<NoRoom>) {
        if self.is_routed() {
            if let Some(owner) = self.owner.lock().clone() {
                owner.try_push_all(batch, max);
            }
            return;
        }
        // Whoever moves a bucket changes its place while nobody is between reading it and handing over.
        let moves = self.moves.read();
        let cells = self.cells.read();
        if let (StageKind::Pool(_), [cell]) = (&self.kind, &cells[..]) {
            cell.try_push_all(batch, max);
            return;
        }
        SORTED.with_borrow_mut(|sorted| {
            if sorted.len() < cells.len() {
                sorted.resize_with(cells.len(), Sorted::default);
            }
            let sorted = &mut sorted[..cells.len()];
            if self.kind == StageKind::Pool(RouterKind::Own) {
                // It looks inside.
                batch.spread().iter_mut().for_each(Incoming::encode_value);
            }
            let places = Places {
                moves: &moves,
                cells: &cells,
                max,
            };
            batch.unfold();
            match batch.values() {
                Some(values) => self.sort_out(values, &places, sorted, refused),
                None => self.sort_out(batch.spread(), &places, sorted, refused),
            }
            for (cell, messages) in cells.iter().zip(sorted) {
                if messages.len() > 0 {
                    cell.try_push_sorted(messages, max);
                    messages.buckets.clear();
                    batch.take_from(&mut messages.messages, usize::MAX);
                }
            }
        });
    }

    /// Holds a message of this process for a bucket that is on its way, if there is room.
    fn hold(
        &self,
        held: &Held<Envelope>,
        incoming: Incoming,
        bucket: u32,
        max: u32,
    ) -> Result<(), Incoming> {
        let message = Envelope::local(incoming, bucket);
        held.try_push(message, max).map_err(|back| back.incoming)?;
        self.book.came(1);
        Ok(())
    }

    /// Finds the place of each message; those for which there is none now stay in the list.
    fn sort_out<E: Entry>(
        &self,
        entries: &mut VecDeque<E>,
        places: &Places<'_>,
        sorted: &mut [Sorted],
        refused: &mut Vec<NoRoom>,
    ) {
        for _ in 0..entries.len() {
            let Some(entry) = entries.pop_front() else {
                break;
            };
            match self.place_for(&entry, places, sorted) {
                Ok(Some((Place::Worker(cell), bucket))) => {
                    sorted[cell as usize].push(entry, bucket);
                }
                Ok(Some((Place::Held(held), bucket))) => {
                    let incoming = entry.into_incoming();
                    let back = self.hold(held, incoming, bucket, places.max).err();
                    entries.extend(back.and_then(E::back));
                }
                Ok(None) => entries.push_back(entry),
                Err(reason) => refused.push(NoRoom {
                    incoming: entry.into_incoming(),
                    reason,
                }),
            }
        }
    }

    /// The place for a message, and its bucket. None if everybody is full.
    fn place_for<'a>(
        &self,
        entry: &impl Entry,
        places: &Places<'a>,
        sorted: &[Sorted],
    ) -> Result<Option<(Place<'a, Envelope>, u32)>, String> {
        if let StageKind::Keyed(rule) = &self.kind {
            let key = entry.key(rule).map_err(|failure| failure.reason)?;
            let bucket = bucket_of(&key);
            return Ok(match places.moves.place(bucket) {
                // The stage has ended.
                Place::Worker(worker) if worker as usize >= places.cells.len() => None,
                place => Some((place, bucket)),
            });
        }
        let candidates = Candidates {
            cells: places.cells,
            sorted,
            messages_max: Some(places.max),
        };
        let chosen = self.choose_among(&candidates, entry.message());
        Ok(chosen.map(|chosen| (Place::Worker(chosen), 0)))
    }

    /// Hands messages over one after another; gives those back for which there was no place.
    pub async fn dispatch_all(&self, messages: Vec<Incoming>) -> Vec<Incoming> {
        let mut refused = Vec::new();
        for incoming in messages {
            if let Err(NoRoom { incoming, .. }) = self.dispatch(incoming).await {
                refused.push(incoming);
            }
        }
        refused
    }

    /// Like [`Stage::dispatch`], for somebody who waits for the answer.
    pub async fn dispatch_ask(&self, incoming: Incoming) -> Result<(), NoRoom> {
        match self.try_place(incoming, Cell::begin_for_asker) {
            Ok(Some(begun)) => {
                begun.run(&self.runtime.threads).await;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(refused) => Box::pin(self.dispatch_refused(refused)).await,
        }
    }

    /// Hands a message to this worker, waiting for room as long as a send may wait.
    pub async fn dispatch_to(&self, cell: &Arc<Cell>, incoming: Incoming) -> Result<(), NoRoom> {
        let max = self.mailbox_messages_max();
        let attempt = |incoming| cell.try_push(incoming, 0, max).map_err(Refused::Full);
        match attempt(incoming) {
            Ok(()) => Ok(()),
            Err(refused) => self.with_room(refused, attempt).await,
        }
    }

    /// Tries again whenever there is room, as long as a send may wait.
    async fn with_room(
        &self,
        refused: Refused,
        attempt: impl Fn(Incoming) -> Result<(), Refused>,
    ) -> Result<(), NoRoom> {
        let mut incoming = match refused {
            Refused::Never(incoming, reason) => return Err(NoRoom { incoming, reason }),
            Refused::Full(incoming) => incoming,
        };
        let waited = Duration::from_millis(self.runtime.settings.send_timeout_ms);
        let deadline = tokio::time::Instant::now() + waited;
        let _starved = self.starved();
        loop {
            let room = self.room.listen();
            incoming = match attempt(incoming) {
                Ok(()) => return Ok(()),
                Err(Refused::Never(incoming, reason)) => return Err(NoRoom { incoming, reason }),
                Err(Refused::Full(incoming)) => incoming,
            };
            if tokio::time::timeout_at(deadline, room).await.is_err() {
                let reason = format!(
                    "no worker of {} had room for another message within {waited:?}",
                    self.address
                );
                return Err(NoRoom { incoming, reason });
            }
        }
    }
}

/// Why a message was not taken.
pub(crate) enum Refused {
    /// There is no room now.
    Full(Incoming),
    /// It can never be taken.
    Never(Incoming, String),
}
