//! The thread that moves state to disk.
//!
//! A move goes in this order, and may end between any two steps:
//!
//! 1. The recent changes of some buckets are set aside; new ones come above them.
//! 2. The journal has all of them safe on disk. So the store never knows what a crash could take back.
//! 3. The store takes in all of them, in one step that is safe on disk.
//! 4. The journal notes what the store holds now. So a store that is lost or older is found out at the next start.
//! 5. The memory is freed, and the journal may forget these changes; it deletes nothing before the note is safe.
//!
//! If it ends early, everything that the store lacks still stands in the journal, and reading it back over what the store
//! has gives the same state: segments go from the front only, so of every key of which anything is left, the last change is.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use journal::Position;
use parking_lot::Mutex;

use super::buckets::Buckets;
use super::cold::{ColdStore, Moving, Stamp, StateError};
use crate::shared::Shared;

/// How often it looks whether the journal has synced.
const SYNC_PAUSE: Duration = Duration::from_millis(1);

/// After a move that was not possible for lack of space.
const RETRY_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 10_000 });

/// What the journal says about the store.
#[derive(Default)]
struct Note {
    stored: Option<Position>,
    /// What the store holds and the journal does not say yet.
    missing: Option<Stamp>,
}

struct Parts {
    shared: Arc<Shared>,
    buckets: Arc<Buckets>,
    store: Arc<dyn ColdStore>,
    note: Mutex<Note>,
}

/// Moves state to disk, until it is dropped.
pub(crate) struct Mover {
    parts: Arc<Parts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why a move came to nothing.
enum Ended {
    /// The broker ends, or the journal does.
    Stopped,
    Failed(StateError),
}

impl Mover {
    /// Starts the thread. `noted` is where the journal says what the store holds, if it does, and what it says.
    pub fn start(
        shared: &Arc<Shared>,
        buckets: &Arc<Buckets>,
        store: Arc<dyn ColdStore>,
        noted: Option<(Stamp, Position)>,
    ) -> std::io::Result<Self> {
        let holds = store.stamp();
        let parts = Arc::new(Parts {
            shared: shared.clone(),
            buckets: buckets.clone(),
            note: Mutex::new(Note {
                stored: noted.map(|(_, stored)| stored),
                missing: holds.filter(|holds| noted.is_none_or(|(stamp, _)| stamp != *holds)),
            }),
            store,
        });
        shared.state.set_store_works(true);
        shared.state.poke();
        let thread = std::thread::Builder::new().name("state-mover".to_owned());
        let running = parts.clone();
        let thread = thread.spawn(move || running.run())?;
        Ok(Self {
            parts,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// What the store holds.
    #[cfg(test)]
    pub fn stamp(&self) -> Option<Stamp> {
        self.parts.store.stamp()
    }

    /// What the store takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.parts.store.disk_bytes()
    }

    /// Writes again what the journal says about the store, if that stands in this segment.
    pub fn move_note_out_of(&self, segment: u32) {
        let mut note = self.parts.note.lock();
        let is_there = note
            .stored
            .is_some_and(|stored| stored.segment() == segment);
        if is_there && let Some(stamp) = self.parts.store.stamp() {
            self.parts.write_note(&mut note, stamp);
        }
    }

    /// Ends the thread, which leaves what it has begun as it is.
    pub fn stop(&self) {
        self.parts.shared.state.stop();
        if let Some(thread) = self.thread.lock().take() {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Parts {
    fn run(&self) {
        while self.shared.state.wait_for_work() {
            let done = catch_unwind(AssertUnwindSafe(|| self.work()));
            if done.is_err() {
                self.give_up("the thread that moves state panicked");
                return;
            }
        }
    }

    /// Moves until nothing has to be moved.
    fn work(&self) {
        loop {
            if !self.write_missing_note() {
                return;
            }
            let moving = self.buckets.start_moving(&self.shared.state, &self.store);
            if moving.is_empty() {
                return;
            }
            let moved = self.move_out(&moving);
            if moved.is_err() {
                self.stay(&moving);
            }
            // What is in the store takes no memory any more while that is tidied.
            drop(moving);
            let tidied = moved.and_then(|()| self.store.tidy().map_err(Ended::Failed));
            if let Err(ended) = tidied
                && !self.goes_on_after(ended)
            {
                return;
            }
        }
    }

    fn move_out(&self, moving: &[Moving]) -> Result<(), Ended> {
        let through = moving.iter().map(|part| part.layer.through()).max();
        // With the note of the move before: it may be missing for one move, not for two.
        self.wait_until_durable(through.max(self.note.lock().stored))?;
        let stamp = self.store.take_in(moving).map_err(Ended::Failed)?;
        self.note.lock().missing = Some(stamp);
        if !self.write_missing_note() {
            return Err(Ended::Stopped);
        }
        self.forget(moving);
        Ok(())
    }

    fn wait_until_durable(&self, through: Option<Position>) -> Result<(), Ended> {
        loop {
            let durable = self.shared.journal.durable();
            if through.is_none_or(|through| durable.covers(through)) {
                return Ok(());
            }
            if durable.failed || !self.shared.state.pause(SYNC_PAUSE) {
                return Err(Ended::Stopped);
            }
        }
    }

    /// Has the journal say what the store holds; false if that is not possible now.
    fn write_missing_note(&self) -> bool {
        loop {
            let is_ready = self.note.lock().missing.is_none() || self.shared.wait_until_ready();
            let mut note = self.note.lock();
            let Some(stamp) = note.missing else {
                return true;
            };
            if is_ready && self.write_note(&mut note, stamp) {
                return true;
            }
            drop(note);
            let failed = self.shared.journal.failure().is_some();
            if failed || !self.shared.state.pause(SYNC_PAUSE) {
                return false;
            }
        }
    }

    fn write_note(&self, note: &mut Note, stamp: Stamp) -> bool {
        let appended = self.shared.append(32, 1, |writer| {
            writer.state_moved(stamp.id, stamp.generation);
        });
        let Ok(stored) = appended else {
            return false;
        };
        if let Some(old) = note.stored.replace(stored) {
            self.shared.journal.release(old, 1);
        }
        note.missing = None;
        true
    }

    /// These changes are in the store: memory and journal need them no more.
    fn forget(&self, moving: &[Moving]) {
        let mut released: HashMap<u32, u32> = HashMap::new();
        for part in moving {
            if let Some(bucket) = self.buckets.find(&part.bucket) {
                let mut bucket = bucket.lock();
                let before = bucket.memory_bytes();
                bucket.has_moved(part.after);
                self.shared.state.changed(before, bucket.memory_bytes());
            }
            for position in part.layer.positions() {
                *released.entry(position.segment()).or_default() += 1;
            }
        }
        for (segment, count) in released {
            self.shared
                .journal
                .release(Position::new(segment, 0), count);
        }
    }

    /// These changes stay in memory and in the journal, as if nobody had tried.
    fn stay(&self, moving: &[Moving]) {
        for part in moving {
            let Some(bucket) = self.buckets.find(&part.bucket) else {
                continue;
            };
            let mut bucket = bucket.lock();
            let before = bucket.memory_bytes();
            let unneeded = bucket.stays();
            self.shared.state.changed(before, bucket.memory_bytes());
            self.shared.release(unneeded.into_iter());
        }
    }

    fn goes_on_after(&self, ended: Ended) -> bool {
        match ended {
            Ended::Stopped => false,
            Ended::Failed(error @ StateError::Full { .. }) => {
                tracing::error!(
                    "state stays in memory for now, beyond broker.state.memory_bytes_max: {error}"
                );
                self.shared.state.set_store_works(false);
                let goes_on = self.shared.state.pause(RETRY_PAUSE);
                self.shared.state.set_store_works(true);
                goes_on
            }
            Ended::Failed(error) => {
                self.give_up(&error.to_string());
                false
            }
        }
    }

    /// Nothing is moved any more. Everything there is can be read: from memory, from the journal, and from what the
    /// store has.
    fn give_up(&self, reason: &str) {
        self.shared.state.set_store_works(false);
        tracing::error!(
            "no more state is moved to disk until the next start; it stays in the journal and in memory, beyond broker.state.memory_bytes_max: {reason}"
        );
        self.shared.state.stop();
    }
}
