//! Opening a journal: reading what is there, mending what a crash left, and going on.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::OpenError;
use crate::format::{FIRST_BATCH_OFFSET, SegmentHeader};
use crate::options::Options;
use crate::pending::Start;
use crate::position::Position;
use crate::scan::{Found, Scan, storage_error};
use crate::segment::{Segment, create_segment, segment_name};
use crate::storage::{Storage, StorageFile};

/// Its presence says that a journal was made in this folder: then no segments at all means damage.
pub(crate) const MARKER_NAME: &str = "journal-exists";
const MARKER_TEXT: &[u8] =
    b"This folder holds a journal. Its files belong together: move or delete all or none.\n";
const ZEROS_BYTES: usize = 64 << 10;

/// What was found when a journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Intact records, all of which were replayed.
    pub records: u64,
    /// Bytes of their payloads.
    pub record_bytes: u64,
    /// Segments that are needed.
    pub segments: usize,
    /// The journal had been shut down, not killed (or it is new).
    pub clean_shutdown: bool,
    /// What was dropped at the end: a batch that a crash cut short, never acknowledged.
    pub torn_tail: Option<TornTail>,
}

/// Bytes at the end of a journal that a crash left and that were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// Where it starts.
    pub offset: u64,
    /// How many bytes there were.
    pub bytes: u64,
}

/// What a scan means to the outside.
pub(crate) fn summary(scan: &Scan) -> Recovery {
    Recovery {
        records: scan.records,
        record_bytes: scan.record_bytes,
        segments: scan.segments.len(),
        clean_shutdown: scan.closed || (scan.last_batch.is_none() && scan.torn_tail.is_none()),
        torn_tail: scan.torn_tail.clone(),
    }
}

/// A journal ready to go on.
pub(crate) struct Opened {
    pub segments: VecDeque<Arc<Segment>>,
    pub start: Start,
    /// Everything up to here is durable.
    pub durable: Position,
}

/// Makes durable what was found, removes what is not needed, and makes the first segment of a new journal.
pub(crate) fn mend(
    storage: &dyn Storage,
    options: &Options,
    mut scan: Scan,
) -> Result<Opened, OpenError> {
    make_last_batch_durable(&scan)?;
    clear_tail(&scan)?;
    // A name may have been given by a process that was killed before it synced the folder. This comes
    // before any removal, and removals come after the batch that allows them was made durable above.
    sync_dir(storage)?;
    remove_leftovers(storage, &scan.leftovers)?;
    if scan.segments.is_empty() {
        scan.segments.push(first_segment(storage, options)?);
    }
    if !scan.has_marker {
        write_marker(storage).map_err(|source| storage_error("writing", MARKER_NAME, source))?;
    }
    Ok(opened(scan))
}

/// The last batch may only be in the page cache, even marked clean there after a sync that failed in
/// the process before. Writing it once more and syncing makes sure, before anyone acts on its records.
fn make_last_batch_durable(scan: &Scan) -> Result<(), OpenError> {
    let Some(batch) = &scan.last_batch else {
        return Ok(());
    };
    let found = &scan.segments[batch.segment];
    let written = found.file.write_at(batch.offset as u64, &batch.data);
    written.map_err(|source| storage_error("writing", &found.name(), source))?;
    sync(found)
}

/// Overwrites a torn tail with zeros, durably: its bytes must never complete a later batch at the same place.
fn clear_tail(scan: &Scan) -> Result<(), OpenError> {
    for (index, found) in scan.segments.iter().enumerate().skip(scan.active) {
        if found.torn_bytes == 0 {
            continue;
        }
        let start = if index == scan.active {
            scan.offset
        } else {
            FIRST_BATCH_OFFSET
        };
        let end = start + found.torn_bytes;
        let zeroed = write_zeros(&*found.file, start as u64, end as u64);
        zeroed.map_err(|source| storage_error("clearing the tail", &found.name(), source))?;
        sync(found)?;
    }
    Ok(())
}

fn write_zeros(file: &dyn StorageFile, start: u64, end: u64) -> std::io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut offset = start;
    while offset < end {
        let length = (end - offset).min(ZEROS_BYTES as u64);
        file.write_at(offset, &zeros[..length as usize])?;
        offset += length;
    }
    Ok(())
}

fn sync(found: &Found) -> Result<(), OpenError> {
    found
        .file
        .sync_data()
        .map_err(|source| storage_error("syncing", &found.name(), source))
}

fn sync_dir(storage: &dyn Storage) -> Result<(), OpenError> {
    storage
        .sync_dir()
        .map_err(|source| storage_error("syncing", &storage.location(), source))
}

fn remove_leftovers(storage: &dyn Storage, names: &[String]) -> Result<(), OpenError> {
    if names.is_empty() {
        return Ok(());
    }
    for name in names {
        storage
            .remove(name)
            .map_err(|source| storage_error("removing", name, source))?;
    }
    sync_dir(storage)
}

fn first_segment(storage: &dyn Storage, options: &Options) -> Result<Found, OpenError> {
    let header = SegmentHeader {
        number: 1,
        bytes: options.segment_bytes,
        oldest: 1,
        salt: 0,
    };
    let made = create_segment(storage, header.clone());
    let segment =
        made.map_err(|failed| storage_error(failed.operation, &segment_name(1), failed.error))?;
    let header = SegmentHeader {
        salt: segment.salt,
        ..header
    };
    Ok(Found {
        header,
        file: segment.file,
        used_bytes: FIRST_BATCH_OFFSET,
        torn_bytes: 0,
    })
}

fn write_marker(storage: &dyn Storage) -> std::io::Result<()> {
    let marker = storage.create(MARKER_NAME)?;
    marker.write_at(0, MARKER_TEXT)?;
    marker.sync_data()?;
    storage.sync_dir()
}

fn opened(scan: Scan) -> Opened {
    let (active, offset) = (scan.active, scan.offset);
    let segment =
        |found: Found| Arc::new(Segment::new(&found.header, found.file, found.used_bytes));
    let mut segments: VecDeque<Arc<Segment>> = scan.segments.into_iter().map(segment).collect();
    let prepared = segments.split_off(active + 1);
    let durable = Position::new(segments[active].number, offset - 1);
    let start = Start {
        active: segments[active].clone(),
        offset,
        prepared,
        next_sequence: scan.next_sequence,
        oldest: scan.oldest,
    };
    Opened {
        segments,
        start,
        durable,
    }
}
