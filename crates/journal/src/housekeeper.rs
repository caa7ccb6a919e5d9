//! The thread that prepares the next segment and deletes the oldest ones, so that neither appending nor syncing
//! waits for it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::JournalFailed;
use crate::format::SegmentHeader;
use crate::segment::{CreateFailed, create_segment, segment_name};
use crate::shared::Shared;
use crate::storage::is_exhaustion;

/// Between two tries to prepare a segment on a disk without space.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Segments before `oldest` may be deleted once the batch `sequence` is durable.
struct Deletion {
    sequence: u64,
    oldest: u32,
}

pub(crate) fn run(shared: &Shared) {
    let mut deletion = None;
    loop {
        delete_front(shared, &mut deletion);
        let prepared = prepare_next(shared);
        if !wait(shared, prepared) {
            return;
        }
    }
}

/// False when it is time to stop.
fn wait(shared: &Shared, prepared: bool) -> bool {
    let mut chores = shared.chores.lock();
    while !chores.poked && !chores.stopping {
        if prepared {
            shared.chore.wait(&mut chores);
        } else if shared.chore.wait_for(&mut chores, RETRY_PAUSE).timed_out() {
            break;
        }
    }
    chores.poked = false;
    !chores.stopping
}

/// False if there was no space.
fn prepare_next(shared: &Shared) -> bool {
    let (number, oldest) = {
        let pending = shared.pending.lock();
        match pending.segment_to_prepare() {
            Some(number) if pending.failed.is_none() => (number, pending.oldest()),
            _ => return true,
        }
    };
    let header = SegmentHeader {
        number,
        bytes: shared.options.segment_bytes,
        oldest,
        salt: 0,
    };
    match create_segment(&*shared.storage, header) {
        Ok(segment) => {
            shared
                .recorder
                .segments_created
                .fetch_add(1, Ordering::Relaxed);
            let mut pending = shared.pending.lock();
            if pending.no_next_segment.is_some() {
                tracing::info!(
                    segment = number,
                    "there is space again: the journal goes on"
                );
            }
            pending.add_prepared(segment);
            shared.finish(pending);
            true
        }
        Err(failed) if is_exhaustion(&failed.error) && !failed.renamed => {
            report_full(shared, number, &failed);
            false
        }
        Err(failed) => {
            shared.fail(JournalFailed::after(
                failed.operation,
                &segment_name(number),
                &failed.error,
            ));
            true
        }
    }
}

fn report_full(shared: &Shared, number: u32, failed: &CreateFailed) {
    let free = shared
        .storage
        .free_bytes()
        .map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let reason = format!(
        "{} of {} ({} bytes) in {} failed: {} ({free} bytes free)",
        failed.operation,
        segment_name(number),
        shared.options.segment_bytes,
        shared.storage.location(),
        failed.error
    );
    let mut pending = shared.pending.lock();
    if pending.no_next_segment.is_none() {
        tracing::warn!(
            reason,
            "no space for the next segment; the journal tries again until there is"
        );
    }
    pending.no_next_segment = Some(reason.into());
    shared.finish(pending);
}

/// First a durable batch says which segment is the oldest one needed, then the files before it go. So a missing
/// file is either covered by such a batch, or it is damage; and what made a segment garbage is durable
/// before the segment is gone.
fn delete_front(shared: &Shared, deletion: &mut Option<Deletion>) {
    if let Some(due) = deletion.take_if(|deletion| shared.durable_sequence() >= deletion.sequence) {
        delete_before(shared, due.oldest);
    }
    if deletion.is_none() {
        *deletion = mark_oldest(shared);
    }
    shared
        .deletion_waits
        .store(deletion.is_some(), Ordering::Release);
    // The sync may have come before the flag was set; then nobody would poke.
    if deletion
        .as_ref()
        .is_some_and(|deletion| shared.durable_sequence() >= deletion.sequence)
    {
        shared.poke();
    }
}

fn mark_oldest(shared: &Shared) -> Option<Deletion> {
    let mut pending = shared.pending.lock();
    let oldest = shared.table.lock().oldest_needed();
    if pending.failed.is_some() || oldest <= pending.oldest() {
        return None;
    }
    let sequence = pending.set_oldest(oldest);
    shared.finish(pending);
    Some(Deletion { sequence, oldest })
}

fn delete_before(shared: &Shared, oldest: u32) {
    let doomed = shared.table.lock().take_before(oldest);
    for segment in &doomed {
        // A file that stays behind does no harm: the next open sees that it is not needed, and removes it.
        match shared.storage.remove(&segment.name()) {
            Ok(()) => {
                _ = shared
                    .recorder
                    .segments_deleted
                    .fetch_add(1, Ordering::Relaxed)
            }
            Err(error) => {
                tracing::warn!(segment = segment.number, %error, "a segment could not be deleted")
            }
        }
    }
    if let Err(error) = shared.storage.sync_dir() {
        tracing::warn!(%error, "the folder could not be synced after deleting segments");
    }
}
