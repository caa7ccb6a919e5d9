//! Segment files: making, opening, deleting, and counting who still needs them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::format::{FIRST_BATCH_OFFSET, Place, RECORDS_TAIL_BYTES, SegmentHeader};
use crate::storage::{Storage, StorageFile};

const SEGMENT_SUFFIX: &str = ".journal";
const NEW_SUFFIX: &str = ".journal.new";

/// The name of a segment's file.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:08}{SEGMENT_SUFFIX}")
}

fn new_name(number: u32) -> String {
    format!("{number:08}{NEW_SUFFIX}")
}

/// The number of a segment, if `name` is the name of one.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SEGMENT_SUFFIX)?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// Whether `name` is that of a segment whose making was cut short.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.ends_with(NEW_SUFFIX)
}

/// An open segment.
pub(crate) struct Segment {
    pub number: u32,
    pub bytes: u32,
    pub salt: u64,
    pub file: Box<dyn StorageFile>,
    /// How many things outside still need a record of this segment.
    pub keepers: AtomicU64,
    /// Up to where batches were appended.
    pub used_bytes: AtomicU32,
}

impl Segment {
    pub fn new(header: &SegmentHeader, file: Box<dyn StorageFile>, used_bytes: u32) -> Self {
        Self {
            number: header.number,
            bytes: header.bytes,
            salt: header.salt,
            file,
            keepers: AtomicU64::new(0),
            used_bytes: AtomicU32::new(used_bytes),
        }
    }

    pub fn name(&self) -> String {
        segment_name(self.number)
    }

    pub fn place(&self, offset: u32) -> Place {
        Place {
            salt: self.salt,
            segment: self.number,
            offset,
        }
    }

    /// Where records must end.
    pub fn records_end(&self) -> u32 {
        self.bytes - RECORDS_TAIL_BYTES
    }
}

/// Why a segment could not be made.
pub(crate) struct CreateFailed {
    pub operation: &'static str,
    pub error: io::Error,
    /// The file has its final name, so trying again could meet half-done work.
    pub renamed: bool,
}

/// Makes a segment: under another name until its length and header are durable. So a file with the name of
/// a segment always has its full length and an intact header, and anything else is damage.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    mut header: SegmentHeader,
) -> Result<Segment, CreateFailed> {
    let (unfinished, name) = (new_name(header.number), segment_name(header.number));
    let made = fill_segment(storage, &mut header, &unfinished);
    let file = match made {
        Ok(file) => file,
        Err((operation, error)) => {
            // Gives the space back; if this fails too, the next open removes the file.
            let _ = storage.remove(&unfinished);
            return Err(CreateFailed {
                operation,
                error,
                renamed: false,
            });
        }
    };
    let failed = |operation| {
        move |error| CreateFailed {
            operation,
            error,
            renamed: true,
        }
    };
    storage
        .rename(&unfinished, &name)
        .map_err(failed("renaming"))?;
    storage.sync_dir().map_err(failed("syncing the folder"))?;
    Ok(Segment::new(&header, file, FIRST_BATCH_OFFSET))
}

fn fill_segment(
    storage: &dyn Storage,
    header: &mut SegmentHeader,
    name: &str,
) -> Result<Box<dyn StorageFile>, (&'static str, io::Error)> {
    header.salt = storage
        .random()
        .map_err(|error| ("drawing a random number", error))?;
    // Left over if an earlier try could not remove it.
    let _ = storage.remove(name);
    let file = storage.create(name).map_err(|error| ("creation", error))?;
    file.allocate(header.bytes as u64)
        .map_err(|error| ("allocation", error))?;
    file.write_at(0, &header.encode())
        .map_err(|error| ("writing the header", error))?;
    file.sync_data().map_err(|error| ("syncing", error))?;
    Ok(file)
}

/// A segment as the outside sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u32,
    /// Length of the file.
    pub bytes: u32,
    /// How much of it holds batches.
    pub used_bytes: u32,
    /// How many keepers its records still have.
    pub keepers: u64,
    /// It takes the next records, so it is never deleted.
    pub active: bool,
}

/// All segments in use, oldest first; the last one is active.
pub(crate) struct Table {
    segments: VecDeque<Arc<Segment>>,
    /// Off until everything live was registered after a replay.
    collecting: bool,
}

impl Table {
    pub fn new(segments: VecDeque<Arc<Segment>>) -> Self {
        Self {
            segments,
            collecting: false,
        }
    }

    pub fn get(&self, number: u32) -> Option<&Arc<Segment>> {
        let first = self.segments.front()?.number;
        self.segments.get(number.checked_sub(first)? as usize)
    }

    pub fn push(&mut self, segment: Arc<Segment>) {
        self.segments.push_back(segment);
    }

    pub fn start_collecting(&mut self) -> bool {
        !std::mem::replace(&mut self.collecting, true)
    }

    /// The oldest segment that is still needed.
    pub fn oldest_needed(&self) -> u32 {
        let active = self.segments.len() - 1;
        let needed = |segment: &&Arc<Segment>| segment.keepers.load(Ordering::Acquire) > 0;
        let first = self.segments.iter().take(active).find(needed);
        let kept = if self.collecting {
            first
        } else {
            self.segments.front()
        };
        kept.map_or(self.segments[active].number, |segment| segment.number)
    }

    /// Takes out the segments before `oldest`.
    pub fn take_before(&mut self, oldest: u32) -> Vec<Arc<Segment>> {
        let count = self
            .segments
            .iter()
            .take_while(|segment| segment.number < oldest)
            .count();
        self.segments.drain(..count).collect()
    }

    /// Whether the front segment became garbage by this.
    pub fn release(&mut self, number: u32, keepers: u32) -> bool {
        let Some(segment) = self.get(number) else {
            tracing::error!(
                segment = number,
                "a keeper of a deleted segment was released"
            );
            return false;
        };
        let before = segment
            .keepers
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
                Some(before.saturating_sub(keepers as u64))
            });
        let before = before.unwrap_or_default();
        if before < keepers as u64 {
            tracing::error!(
                segment = number,
                before,
                keepers,
                "more keepers were released than there were"
            );
        }
        before <= keepers as u64
            && self
                .segments
                .front()
                .is_some_and(|front| front.number == number)
    }

    pub fn keep(&mut self, number: u32, keepers: u32) {
        match self.get(number) {
            Some(segment) => _ = segment.keepers.fetch_add(keepers as u64, Ordering::AcqRel),
            None => tracing::error!(
                segment = number,
                "a record of a deleted segment got a keeper"
            ),
        }
    }

    pub fn infos(&self) -> Vec<SegmentInfo> {
        let active = self.segments.back().map(|segment| segment.number);
        let info = |segment: &Arc<Segment>| SegmentInfo {
            number: segment.number,
            bytes: segment.bytes,
            used_bytes: segment.used_bytes.load(Ordering::Relaxed),
            keepers: segment.keepers.load(Ordering::Relaxed),
            active: Some(segment.number) == active,
        };
        self.segments.iter().map(info).collect()
    }
}
