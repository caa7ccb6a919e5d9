//! The thread that writes and syncs, strictly one batch after the other: if batch n+1 is found on disk, batch n
//! had been synced. Recovery relies on this to tell damage from a torn tail.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::JournalFailed;
use crate::options::Sync;
use crate::pending::Batch;
use crate::shared::Shared;
use crate::storage::is_exhaustion;

/// Between two tries to write to a disk without space.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(shared: &Shared) {
    while let Some(batch) = next_batch(shared) {
        match write(shared, &batch) {
            Ok(()) => shared.batch_durable(batch),
            // Never tried again: after a failed sync the pages may be gone although a second sync succeeds.
            Err(failed) => return shared.fail(failed),
        }
    }
}

fn next_batch(shared: &Shared) -> Option<Arc<Batch>> {
    let mut pending = shared.pending.lock();
    loop {
        if pending.failed.is_some() {
            return None;
        }
        if let Some(batch) = pending.next_batch() {
            shared.finish(pending);
            return Some(batch);
        }
        if pending.stopping {
            return None;
        }
        pending.writer_idle = true;
        shared.work.wait(&mut pending);
        pending.writer_idle = false;
    }
}

fn write(shared: &Shared, batch: &Batch) -> Result<(), JournalFailed> {
    let file = &batch.segment.file;
    loop {
        match file.write_at(batch.start as u64, &batch.buffer) {
            Ok(()) => break,
            // Nothing of this batch was synced, so it may be written once more.
            Err(error)
                if is_exhaustion(&error)
                    && shared.wait_for_space(&error.to_string(), RETRY_PAUSE) => {}
            Err(error) => return Err(failure("writing", batch, &error)),
        }
    }
    let started = Instant::now();
    if shared.options.sync == Sync::Fdatasync {
        file.sync_data()
            .map_err(|error| failure("syncing", batch, &error))?;
    }
    shared.recorder.batch(batch.buffer.len(), started.elapsed());
    Ok(())
}

fn failure(operation: &str, batch: &Batch, error: &io::Error) -> JournalFailed {
    JournalFailed::after(operation, &batch.segment.name(), error)
}
