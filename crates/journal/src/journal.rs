//! The handle of a journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::counters::Counters;
use crate::error::{AppendError, JournalFailed, OpenError, ReadError};
use crate::format::{
    RECORD_HEADER_BYTES, payload_checksum, record_at, record_bytes, record_is_intact,
};
use crate::options::Options;
use crate::pending::{Appender, Found, Pending};
use crate::position::{Durable, Position};
use crate::recovery::{Recovery, mend, summary};
use crate::scan::scan;
use crate::segment::{Segment, SegmentInfo, Table};
use crate::shared::Shared;
use crate::storage::Storage;
use crate::{housekeeper, writer};

/// Read at once; most records are shorter, so one read is enough for them.
const READ_BYTES: usize = 4096;

/// A journal. Clones share it; when the last one is dropped, what was appended is still written, but only
/// [`Journal::shutdown`] marks a clean end.
#[derive(Clone)]
pub struct Journal {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Journal {
    /// Opens the journal in `storage`, or makes one, and calls `replay` with every intact record in order.
    /// Before the first append or release, register with [`Journal::keep`] what is still needed.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        replay: &mut dyn FnMut(Position, &[u8]),
    ) -> Result<(Journal, Recovery), OpenError> {
        options.validate()?;
        let scanned = scan(&*storage, replay)?;
        let recovery = summary(&scanned);
        if let Some(torn) = &recovery.torn_tail {
            tracing::warn!(
                file = torn.file,
                offset = torn.offset,
                bytes = torn.bytes,
                "a torn tail was dropped"
            );
        }
        let opened = mend(&*storage, &options, scanned)?;
        let pending = Pending::new(options.clone(), opened.start);
        let shared = Shared::new(
            storage,
            options,
            pending,
            Table::new(opened.segments),
            opened.durable,
        );
        let handle = Handle {
            shared: Arc::new(shared),
            threads: Mutex::default(),
        };
        handle.start("journal-writer", writer::run)?;
        handle.start("journal-segments", housekeeper::run)?;
        Ok((
            Journal {
                handle: Arc::new(handle),
            },
            recovery,
        ))
    }

    /// Reads all of a journal and reports what [`Journal::open`] would find, without changing anything.
    pub fn check(
        storage: &dyn Storage,
        replay: &mut dyn FnMut(Position, &[u8]),
    ) -> Result<Recovery, OpenError> {
        scan(storage, replay).map(|scanned| summary(&scanned))
    }

    /// Appends a record made of `parts`, in memory: it is durable once [`Journal::durable`] has passed it.
    /// `keepers` counts those who need it; each is given back with [`Journal::release`]. A record with 0
    /// keepers is not a reason to keep its segment, and it is still taken from a reserve when the disk is
    /// full: right for records that only free others.
    pub fn append(&self, parts: &[&[u8]], keepers: u32) -> Result<Position, AppendError> {
        // Outside the lock: the part of the work that grows with the record.
        let checksum = payload_checksum(parts);
        self.shared().start_collecting();
        let mut pending = self.shared().pending.lock();
        let appended = pending.append(parts, checksum, keepers);
        self.shared().finish(pending);
        appended
    }

    /// Appends several records in order, with no other record between them. They are durable in this order,
    /// but a crash may keep the first ones only.
    pub fn append_many<R>(
        &self,
        append: impl FnOnce(&mut Appender<'_>) -> R,
    ) -> Result<R, AppendError> {
        self.shared().start_collecting();
        let mut pending = self.shared().pending.lock();
        pending.check_running()?;
        let result = append(&mut Appender {
            pending: &mut pending,
        });
        self.shared().finish(pending);
        Ok(result)
    }

    /// Waits until appending is welcome: less than `pending_bytes_max` in memory and the next segment prepared. Call
    /// it before taking locks. It waits for the disk, so give it a timeout.
    pub async fn ready(&self) -> Result<(), AppendError> {
        loop {
            if self.is_ready() {
                return Ok(());
            }
            // Enabled before the look, so that no wake-up falls between the two.
            let mut changed = std::pin::pin!(self.shared().readiness.notified());
            changed.as_mut().enable();
            if self.shared().pending.lock().readiness()? {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Whether [`Journal::ready`] would return at once with success.
    pub fn is_ready(&self) -> bool {
        self.shared().is_ready()
    }

    /// How far the journal is safe on disk.
    pub fn durable(&self) -> Durable {
        self.shared().durable()
    }

    /// Changes after each sync, and when the journal fails.
    pub fn watch(&self) -> watch::Receiver<Durable> {
        self.shared().watch.subscribe()
    }

    /// Waits until the record at `position` is durable. On a disk without space this can take until there is
    /// some: give it a timeout.
    pub async fn wait(&self, position: Position) -> Result<(), JournalFailed> {
        if self.durable().covers(position) {
            return Ok(());
        }
        let mut watch = self.watch();
        loop {
            if watch.borrow_and_update().covers(position) {
                return Ok(());
            }
            if let Some(failed) = self.failure() {
                return Err(failed);
            }
            if watch.changed().await.is_err() {
                return Err(JournalFailed::closed());
            }
        }
    }

    /// Why the journal has stopped, if it has.
    pub fn failure(&self) -> Option<JournalFailed> {
        self.shared().pending.lock().failed.clone()
    }

    /// Calls `listener` on the writer's thread after each sync, and when the journal fails. It must be
    /// quick, and it must not shut the journal down.
    pub fn on_durable(&self, listener: Box<dyn Fn(Durable) + Send + Sync>) {
        self.shared().listeners.lock().push(listener.into());
    }

    /// Reads one record back, also one that is not durable yet. Blocks on the disk.
    pub fn read(&self, position: Position) -> Result<Bytes, ReadError> {
        if !self.durable().covers(position) {
            let found = self.shared().pending.lock().find(position);
            match found {
                Some(Found::Copy(payload)) => return Ok(payload.into()),
                Some(Found::Batch(batch)) => {
                    return batch
                        .record(position)
                        .map(Bytes::copy_from_slice)
                        .ok_or(ReadError::Gone { position });
                }
                None => {}
            }
        }
        let segment = self.shared().table.lock().get(position.segment()).cloned();
        read_from_disk(&*segment.ok_or(ReadError::Gone { position })?, position)
    }

    /// `keepers` of the record at `position` are gone. Segments at the front without any are deleted once everything
    /// appended so far is durable.
    pub fn release(&self, position: Position, keepers: u32) {
        self.shared().start_collecting();
        let is_garbage = self
            .shared()
            .table
            .lock()
            .release(position.segment(), keepers);
        if is_garbage {
            self.shared().poke();
        }
    }

    /// Registers `keepers` of the record at `position`: after a replay, before the first append or release; or
    /// whenever a record that has a keeper gets another.
    pub fn keep(&self, position: Position, keepers: u32) {
        self.shared().table.lock().keep(position.segment(), keepers);
    }

    /// All segments in use, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared().table.lock().infos()
    }

    /// What the journal has done since it was opened.
    pub fn counters(&self) -> Counters {
        let pending = self.shared().pending.lock();
        self.shared()
            .recorder
            .counters(pending.appended_records, pending.appended_bytes)
    }

    /// Refuses new records, writes and syncs what is there, marks the clean end, and stops. Blocks on the disk.
    pub fn shutdown(&self) -> Result<(), JournalFailed> {
        self.handle.stop(true);
        self.failure()
            .filter(|failed| *failed != JournalFailed::closed())
            .map_or(Ok(()), Err)
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}

impl Handle {
    fn start(&self, name: &'static str, run: fn(&Shared)) -> Result<(), OpenError> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
                    // A listener panicked: without this thread nothing becomes durable, so say so.
                    shared.fail(JournalFailed {
                        reason: format!("its thread {name} panicked").into(),
                    });
                }
            });
        let failed = |source| OpenError::Storage {
            operation: "starting the thread",
            file: name.to_owned(),
            source,
        };
        self.threads.lock().push(thread.map_err(failed)?);
        Ok(())
    }

    fn stop(&self, mark_close: bool) {
        let mut pending = self.shared.pending.lock();
        if !pending.stopping {
            pending.stop(mark_close);
        }
        self.shared.work.notify_all();
        self.shared.finish(pending);
        self.shared.chores.lock().stopping = true;
        self.shared.chore.notify_one();
        let me = std::thread::current().id();
        // A listener may drop the last handle, on the writer's own thread.
        let threads = self
            .threads
            .lock()
            .drain(..)
            .filter(|thread| thread.thread().id() != me)
            .collect::<Vec<_>>();
        for thread in threads {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
        self.shared.listeners.lock().clear();
        self.shared.close();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop(false);
    }
}

fn read_from_disk(segment: &Segment, position: Position) -> Result<Bytes, ReadError> {
    let storage = |source| ReadError::Storage {
        position,
        file: segment.name(),
        source,
    };
    let damaged = || ReadError::Damaged {
        position,
        file: segment.name(),
    };
    let (offset, place) = (position.offset(), segment.place(position.offset()));
    let rest = segment
        .bytes
        .checked_sub(offset)
        .filter(|rest| *rest as usize > RECORD_HEADER_BYTES);
    let rest = rest.ok_or_else(damaged)? as usize;
    let mut first = [0; READ_BYTES];
    let first = &mut first[..rest.min(READ_BYTES)];
    segment
        .file
        .read_at(offset as u64, first)
        .map_err(storage)?;
    let bytes = record_bytes(first);
    if RECORD_HEADER_BYTES + bytes > rest {
        return Err(damaged());
    }
    if RECORD_HEADER_BYTES + bytes <= first.len() {
        return record_at(first, place)
            .map(Bytes::copy_from_slice)
            .ok_or_else(damaged);
    }
    let (header, start) = first.split_at(RECORD_HEADER_BYTES);
    let mut payload = BytesMut::zeroed(bytes);
    payload[..start.len()].copy_from_slice(start);
    let read = segment.file.read_at(
        offset as u64 + READ_BYTES as u64,
        &mut payload[start.len()..],
    );
    read.map_err(storage)?;
    if record_is_intact(header, &payload, place) {
        Ok(payload.freeze())
    } else {
        Err(damaged())
    }
}
