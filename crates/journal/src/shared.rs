//! What the handles and the two threads of a journal share.
//!
//! Locks, in the order they are taken: `pending`, `table`; `announcing`, `listeners`. `chores` is taken alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::counters::Recorder;
use crate::error::JournalFailed;
use crate::options::Options;
use crate::pending::{Batch, Pending};
use crate::position::{Durable, Position};
use crate::segment::Table;
use crate::storage::Storage;

type Listener = Arc<dyn Fn(Durable) + Send + Sync>;

/// What the housekeeper is asked to do.
#[derive(Default)]
pub(crate) struct Chores {
    pub poked: bool,
    pub stopping: bool,
}

pub(crate) struct Shared {
    pub storage: Arc<dyn Storage>,
    pub options: Options,
    pub pending: Mutex<Pending>,
    /// The writer waits here for work.
    pub work: Condvar,
    pub table: Mutex<Table>,
    pub collecting: AtomicBool,
    pub chores: Mutex<Chores>,
    /// The housekeeper waits here for chores.
    pub chore: Condvar,
    durable_position: AtomicU64,
    durable_sequence: AtomicU64,
    failed: AtomicBool,
    /// The housekeeper wants to know of the next sync.
    pub deletion_waits: AtomicBool,
    is_ready: AtomicBool,
    pub readiness: Notify,
    pub watch: watch::Sender<Durable>,
    pub listeners: Mutex<Vec<Listener>>,
    announcing: Mutex<()>,
    pub recorder: Recorder,
}

impl Shared {
    pub fn new(
        storage: Arc<dyn Storage>,
        options: Options,
        pending: Pending,
        table: Table,
        durable: Position,
    ) -> Self {
        let is_ready = pending.readiness() == Ok(true);
        Self {
            storage,
            options,
            pending: Mutex::new(pending),
            work: Condvar::new(),
            table: Mutex::new(table),
            collecting: AtomicBool::new(false),
            chores: Mutex::new(Chores::default()),
            chore: Condvar::new(),
            durable_position: AtomicU64::new(durable.raw()),
            durable_sequence: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            deletion_waits: AtomicBool::new(false),
            is_ready: AtomicBool::new(is_ready),
            readiness: Notify::new(),
            watch: watch::Sender::new(Durable {
                position: durable,
                failed: false,
            }),
            listeners: Mutex::new(Vec::new()),
            announcing: Mutex::new(()),
            recorder: Recorder::default(),
        }
    }

    pub fn durable(&self) -> Durable {
        Durable {
            position: Position::from_raw(self.durable_position.load(Ordering::Acquire)),
            failed: self.failed.load(Ordering::Acquire),
        }
    }

    pub fn durable_sequence(&self) -> u64 {
        self.durable_sequence.load(Ordering::Acquire)
    }

    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Ends a change of `pending`: follows up on rolled segments, tells those who wait to append, and wakes the
    /// writer if it sleeps and has work.
    pub fn finish(&self, mut pending: MutexGuard<'_, Pending>) {
        let rolled = pending.take_rolled();
        let has_rolled = !rolled.is_empty();
        if has_rolled {
            // Before the lock is let go, so that no one can know a position whose segment is not listed.
            let mut table = self.table.lock();
            rolled.into_iter().for_each(|segment| table.push(segment));
        }
        let readiness = pending.readiness();
        let is_ready = readiness == Ok(true);
        let changed = self.is_ready.swap(is_ready, Ordering::AcqRel) != is_ready;
        let wake = pending.writer_idle && pending.has_work();
        pending.writer_idle &= !wake;
        drop(pending);
        if wake {
            self.work.notify_one();
        }
        if has_rolled {
            self.poke();
        }
        if (changed && is_ready) || readiness.is_err() {
            self.readiness.notify_waiters();
        }
    }

    /// Makes the housekeeper look around.
    pub fn poke(&self) {
        self.chores.lock().poked = true;
        self.chore.notify_one();
    }

    /// From the first append or release after a replay on, front segments without keepers are deleted.
    pub fn start_collecting(&self) {
        if !self.collecting.load(Ordering::Relaxed) {
            self.collecting.store(true, Ordering::Relaxed);
            if self.table.lock().start_collecting() {
                self.poke();
            }
        }
    }

    /// A batch is on disk: moves the durable position, unless the journal failed meanwhile.
    pub fn batch_durable(&self, batch: Arc<Batch>) {
        let mut pending = self.pending.lock();
        if pending.failed.is_some() {
            return;
        }
        pending.no_write = None;
        self.durable_position
            .store(batch.last_position().raw(), Ordering::Release);
        self.durable_sequence
            .store(batch.sequence, Ordering::Release);
        pending.batch_done(batch);
        self.finish(pending);
        if self.deletion_waits.load(Ordering::Acquire) {
            self.poke();
        }
        self.announce();
    }

    /// Stops the journal for good. The first reason counts.
    pub fn fail(&self, failed: JournalFailed) {
        let mut pending = self.pending.lock();
        if pending.failed.is_some() {
            return;
        }
        tracing::error!(reason = %failed.reason, "the journal has stopped");
        pending.failed = Some(failed);
        self.failed.store(true, Ordering::Release);
        // The writer may sleep or wait for space: it must see this.
        self.work.notify_all();
        self.finish(pending);
        self.announce();
    }

    /// After the threads have ended: those who still wait learn that nothing more comes.
    pub fn close(&self) {
        self.pending
            .lock()
            .failed
            .get_or_insert_with(JournalFailed::closed);
        self.readiness.notify_waiters();
        self.watch.send_modify(|_| {});
    }

    /// One at a time and with the newest state: both threads announce, and nobody may see a failure taken back.
    fn announce(&self) {
        let _one_at_a_time = self.announcing.lock();
        let durable = self.durable();
        self.watch.send_replace(durable);
        // Called without this lock: a listener may add another.
        let listeners = self.listeners.lock().clone();
        listeners.iter().for_each(|listener| listener(durable));
    }

    /// The writer cannot write for lack of space: waits a while. False if it is time to stop.
    pub fn wait_for_space(&self, reason: &str, pause: Duration) -> bool {
        let mut pending = self.pending.lock();
        if pending.no_write.is_none() {
            tracing::warn!(
                reason,
                "the journal cannot write; it tries again until there is space"
            );
            pending.no_write = Some(reason.into());
            self.finish(pending);
            pending = self.pending.lock();
        }
        if pending.stopping || pending.failed.is_some() {
            return false;
        }
        self.work.wait_for(&mut pending, pause);
        !pending.stopping && pending.failed.is_none()
    }
}
