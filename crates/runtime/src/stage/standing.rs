//! Stages that stand still, because what they made, or what is meant for them, finds no room.

use parking_lot::Mutex;

use super::Stage;
use crate::cell::Cell;

/// Why a stage stands still, as long as anybody finds that it does.
#[derive(Default)]
pub(crate) struct Standing(Mutex<Found>);

#[derive(Default)]
struct Found {
    by: usize,
    why: String,
}

/// Somebody finds that a stage stands still until this is dropped.
pub(crate) struct Stands<'a>(&'a Standing);

impl Standing {
    pub fn begin(&self, why: String) -> Stands<'_> {
        let mut found = self.0.lock();
        found.by += 1;
        found.why = why;
        drop(found);
        Stands(self)
    }

    pub fn why(&self) -> Option<String> {
        let found = self.0.lock();
        (found.by > 0).then(|| found.why.clone())
    }
}

impl Drop for Stands<'_> {
    fn drop(&mut self) {
        self.0.0.lock().by -= 1;
    }
}

/// What each worker without room for messages of its own cycle has done so far.
pub(super) type Full = Vec<(u32, u64)>;

impl Stage {
    /// The workers that have no room for messages of their own cycle.
    pub(super) fn full_workers(&self) -> Full {
        let max = self.spill_messages_max();
        let owner = self.owner.lock().clone();
        let cells = self.cells.read();
        let full = cells.iter().chain(&owner);
        let full = full.filter(|cell| cell.waiting() >= max);
        full.map(|cell| (cell.number(), cell.turns())).collect()
    }

    /// Whether one of those that were full is so still, and has done nothing since. A full one that works is only slow.
    pub(super) fn has_stood(&self, before: &Full) -> bool {
        let now = self.full_workers();
        before.iter().any(|full| now.contains(full))
    }

    /// Says that its cycle stands still, until this is dropped.
    pub(super) fn stands_in_cycle(&self) -> Stands<'_> {
        let why = "there is no room left for the messages of its own cycle: raise its spill_messages_max, or let fewer messages in";
        tracing::warn!(stage = %self.address, why, "a cycle of stages stands still");
        self.standing.begin(why.to_owned())
    }

    /// Whether a worker that took messages has made half of the room for those of its cycle free by that, so that whoever
    /// waits for that room may go on.
    pub fn has_freed_spill(&self, cell: &Cell, taken: usize) -> bool {
        let half = self.spill_messages_max() as usize / 2;
        let waiting = cell.waiting() as usize;
        self.is_in_cycle() && waiting <= half && waiting + taken > half
    }
}
