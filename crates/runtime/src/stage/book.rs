//! The book of a stage's input: what came, what is done, what waits, and what was dropped.
//!
//! What came from within this process is counted here, what came over the bus by its engine. Workers count under locks and in
//! numbers that they keep anyway; only what is rare (timers, dead letters, workers that go) has counters of its own. Whoever
//! reads looks at what is done before what came, so that never more is done than came; what waits is the difference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Stage;
use crate::cell::{Cell, Place};
use crate::key::BUCKETS;
use crate::views::InputView;

/// What is counted of messages of this process, beside what each worker counts.
#[derive(Default)]
pub(crate) struct Book {
    /// Those that came and are in no worker's count: they were held for a bucket, or turned down.
    came: AtomicU64,
    dropped: AtomicU64,
    /// Turns that were no messages: timers, wakes, ends of children.
    events: AtomicU64,
    /// Turns with messages from the bus.
    pulled: AtomicU64,
    gone: Mutex<Gone>,
}

/// What workers counted that are no more, or go.
#[derive(Default)]
struct Gone {
    came: u64,
    turns: u64,
    going: Vec<Arc<Cell>>,
}

/// One look at it.
#[derive(Clone, Copy, Default)]
struct Look {
    came: u64,
    done: u64,
    dropped: u64,
}

impl Book {
    /// Messages came that wait elsewhere than in mailboxes.
    pub fn came(&self, messages: u64) {
        self.came.fetch_add(messages, Ordering::Release);
    }

    /// Messages that had come are dropped.
    pub fn dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Release);
    }

    /// Messages came for which there was no room or no place.
    pub fn turned_down(&self, messages: u64) {
        self.came(messages);
        self.dropped(messages);
    }

    /// So many of the next turns are no messages, or messages from the bus.
    pub fn others(&self, events: u64, pulled: u64) {
        self.events.fetch_add(events, Ordering::Release);
        self.pulled.fetch_add(pulled, Ordering::Release);
    }

    /// A worker goes, but may still be in a turn.
    pub fn goes(&self, cells: &[Arc<Cell>]) {
        self.gone.lock().going.extend_from_slice(cells);
    }

    /// Workers are gone.
    pub fn went<'a>(&self, cells: impl Iterator<Item = &'a Arc<Cell>>) {
        let mut gone = self.gone.lock();
        for cell in cells {
            gone.going.retain(|going| !Arc::ptr_eq(going, cell));
            gone.came += cell.came();
            gone.turns += cell.turns();
        }
    }
}

impl Stage {
    /// Whether what this worker gets is input of the stage. What a routed stage gives its workers is that no more.
    pub fn counts(&self, cell: &Cell) -> bool {
        match cell.place {
            Place::Owner => true,
            Place::Worker(_) => !self.is_routed(),
            Place::Child(_) => false,
        }
    }

    fn look_at_book(&self) -> Look {
        let owner = self.owner.lock().clone();
        let cells = self.cells.read();
        let gone = self.book.gone.lock();
        let workers = cells.iter().filter(|_| !self.is_routed());
        let all = || workers.clone().chain(&owner).chain(&gone.going);
        let dropped = self.book.dropped.load(Ordering::Acquire);
        let turns = gone.turns + all().map(|cell| cell.turns()).sum::<u64>();
        let events = self.book.events.load(Ordering::Acquire);
        let pulled = self.book.pulled.load(Ordering::Acquire);
        let came = self.book.came.load(Ordering::Acquire);
        Look {
            came: came + gone.came + all().map(|cell| cell.came()).sum::<u64>(),
            done: turns.saturating_sub(events + pulled),
            dropped,
        }
    }

    /// What is known of its input; none if the engine cannot say what became of messages.
    pub fn input(&self) -> Option<InputView> {
        let on_bus = self.input_on_bus();
        if !self.is_memory() {
            return on_bus;
        }
        // Where the engine does not tell, what was handled is known, and not what waits there.
        let handled = match on_bus {
            Some(_) => 0,
            None => self.book.pulled.load(Ordering::Acquire),
        };
        let look = self.look_at_book();
        let on_bus = on_bus.unwrap_or_default();
        let queued = look.came.saturating_sub(look.done + look.dropped);
        let room = u64::from(self.mailbox_messages_max()) * u64::from(self.workers_count());
        Some(InputView {
            came: look.done + look.dropped + queued + handled + on_bus.came,
            done: look.done + handled + on_bus.done,
            queued: queued + on_bus.queued,
            dropped: look.dropped + on_bus.dropped,
            room: Some(room),
        })
    }

    fn input_on_bus(&self) -> Option<InputView> {
        let bus = &self.runtime.bus;
        let own = bus.book(&self.address.queue())?;
        let mut input = InputView {
            queued: own.waits,
            dropped: own.dead,
            ..InputView::default()
        };
        let has_buckets = self.is_keyed() && !self.is_memory();
        if !has_buckets {
            input.done = own.done;
        }
        // What is done at the entrance has come to a bucket, and is counted there.
        for bucket in 0..if has_buckets { BUCKETS } else { 0 } {
            let book = bus.book(&self.address.bucket(bucket))?;
            input.queued += book.waits;
            input.done += book.done;
            input.dropped += book.dead;
        }
        input.came = input.done + input.queued + input.dropped;
        Some(input)
    }

    /// Goes on with the book of the stage whose place it takes. What that one left comes anew.
    pub fn go_on_counting(&self, old: &Self) {
        if !self.is_memory() || !old.is_memory() {
            return;
        }
        let Look { done, dropped, .. } = old.look_at_book();
        let mut gone = self.book.gone.lock();
        gone.came += done;
        gone.turns += done;
        drop(gone);
        self.book.turned_down(dropped);
    }
}
