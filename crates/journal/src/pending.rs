//! What was appended and is not durable yet. Everything here happens under one short lock and in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{AppendError, JournalFailed};
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, FIRST_BATCH_OFFSET, FLAG_CLOSED, FLAG_LAST,
    RECORD_HEADER_BYTES, SECTOR_BYTES, payload_checksum, record_at, record_header, sector_after,
};
use crate::options::Options;
use crate::position::Position;
use crate::segment::Segment;

/// Buffers longer than this are given back to the allocator instead of being used again.
const SPARE_BYTES_MAX: usize = 32 << 20;
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Records that are written and synced together. The buffer starts with room for the batch header, so it goes
/// to disk as it is.
pub(crate) struct Batch {
    pub segment: Arc<Segment>,
    pub start: u32,
    pub buffer: Vec<u8>,
    pub records: u32,
    pub sequence: u64,
}

impl Batch {
    fn new(segment: Arc<Segment>, start: u32, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(BATCH_HEADER_BYTES, 0);
        Self {
            segment,
            start,
            buffer,
            records: 0,
            sequence: 0,
        }
    }

    /// Where the next record of this batch would stand.
    fn end(&self) -> u32 {
        self.start + self.buffer.len() as u32
    }

    /// The last position that is durable once this batch is.
    pub fn last_position(&self) -> Position {
        Position::new(self.segment.number, self.end() - 1)
    }

    /// A record of this batch.
    pub fn record(&self, position: Position) -> Option<&[u8]> {
        let inside = position.segment() == self.segment.number && position.offset() >= self.start;
        let at = inside.then(|| (position.offset() - self.start) as usize)?;
        record_at(
            self.buffer.get(at..)?,
            self.segment.place(position.offset()),
        )
    }
}

/// Everything between an append and its sync.
pub(crate) struct Pending {
    options: Options,
    open: Batch,
    /// Complete batches of segments that ran full before the writer came by.
    sealed: VecDeque<Arc<Batch>>,
    in_flight: Option<Arc<Batch>>,
    /// Segments that follow the active one, ready to be written.
    prepared: VecDeque<Arc<Segment>>,
    spare: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    next_sequence: u64,
    oldest: u32,
    /// A batch must be written even without records, to carry `oldest`.
    mark_wanted: bool,
    pending_bytes: usize,
    pub appended_records: u64,
    pub appended_bytes: u64,
    pub failed: Option<JournalFailed>,
    pub stopping: bool,
    close_mark_done: bool,
    /// Why no next segment could be prepared.
    pub no_next_segment: Option<Arc<str>>,
    /// Why the writer cannot write.
    pub no_write: Option<Arc<str>>,
    pub writer_idle: bool,
    /// Segments that became active since the last look.
    rolled: Vec<Arc<Segment>>,
}

/// Where appending goes on after recovery.
pub(crate) struct Start {
    pub active: Arc<Segment>,
    pub offset: u32,
    pub prepared: VecDeque<Arc<Segment>>,
    pub next_sequence: u64,
    pub oldest: u32,
}

impl Pending {
    pub fn new(options: Options, start: Start) -> Self {
        Self {
            options,
            open: Batch::new(start.active, start.offset, Vec::new()),
            sealed: VecDeque::new(),
            in_flight: None,
            prepared: start.prepared,
            spare: Vec::new(),
            scratch: Vec::new(),
            next_sequence: start.next_sequence,
            oldest: start.oldest,
            mark_wanted: false,
            pending_bytes: 0,
            appended_records: 0,
            appended_bytes: 0,
            failed: None,
            stopping: false,
            close_mark_done: false,
            no_next_segment: None,
            no_write: None,
            writer_idle: false,
            rolled: Vec::new(),
        }
    }

    /// Appends a record whose payload checksum is known.
    pub fn append(
        &mut self,
        parts: &[&[u8]],
        checksum: u32,
        keepers: u32,
    ) -> Result<Position, AppendError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.admit(bytes, keepers)?;
        let needed = RECORD_HEADER_BYTES as u32 + bytes as u32;
        if !self.fits(needed) {
            self.roll()?;
        }
        let offset = self.open.end();
        let segment = &self.open.segment;
        let header = record_header(checksum, bytes as u32, segment.place(offset));
        let position = Position::new(segment.number, offset);
        if keepers > 0 {
            segment.keepers.fetch_add(keepers as u64, Ordering::AcqRel);
        }
        let buffer = &mut self.open.buffer;
        buffer.extend_from_slice(&header);
        parts.iter().for_each(|part| buffer.extend_from_slice(part));
        self.open.records += 1;
        self.pending_bytes += needed as usize;
        self.appended_records += 1;
        self.appended_bytes += bytes;
        Ok(position)
    }

    fn admit(&self, bytes: u64, keepers: u32) -> Result<(), AppendError> {
        self.check_running()?;
        let record_bytes_max = self.options.record_bytes_max;
        if bytes > record_bytes_max as u64 {
            return Err(AppendError::TooLarge {
                bytes,
                record_bytes_max,
            });
        }
        // Records that nobody keeps are what frees space (acknowledgements): they may use up the reserve.
        if keepers > 0 {
            self.check_space()
        } else {
            Ok(())
        }
    }

    pub fn check_running(&self) -> Result<(), AppendError> {
        match &self.failed {
            Some(failed) => Err(failed.clone().into()),
            None if self.stopping => Err(JournalFailed::closed().into()),
            None => Ok(()),
        }
    }

    fn check_space(&self) -> Result<(), AppendError> {
        let reason = match (&self.no_write, &self.no_next_segment) {
            (Some(reason), _) => reason,
            (None, Some(reason)) if !self.has_reserve() => reason,
            _ => return Ok(()),
        };
        Err(AppendError::DiskFull {
            reason: reason.clone(),
        })
    }

    fn has_reserve(&self) -> bool {
        let room = self
            .open
            .segment
            .records_end()
            .saturating_sub(self.open.end());
        !self.prepared.is_empty() || room >= self.options.reserve_bytes()
    }

    /// Whether an append should be made now: `Ok(false)` means later, an error means refused.
    pub fn readiness(&self) -> Result<bool, AppendError> {
        self.check_running()?;
        self.check_space()?;
        Ok(self.has_reserve() && self.pending_bytes < self.options.pending_bytes_max)
    }

    fn fits(&self, needed: u32) -> bool {
        self.open.end() as u64 + needed as u64 <= self.open.segment.records_end() as u64
    }

    /// Ends the active segment and goes on in the next one.
    fn roll(&mut self) -> Result<(), AppendError> {
        let Some(next) = self.prepared.pop_front() else {
            let reason = self.no_next_segment.clone();
            return Err(
                reason.map_or(AppendError::NotReady, |reason| AppendError::DiskFull {
                    reason,
                }),
            );
        };
        let last = self.seal(FLAG_LAST, next.clone(), FIRST_BATCH_OFFSET);
        self.sealed.push_back(last);
        self.rolled.push(next);
        Ok(())
    }

    /// Completes the open batch and opens the one that follows it at `start` of `segment`.
    fn seal(&mut self, flags: u32, segment: Arc<Segment>, start: u32) -> Arc<Batch> {
        let buffer = self.spare.pop().unwrap_or_default();
        let mut batch = std::mem::replace(&mut self.open, Batch::new(segment, start, buffer));
        batch.sequence = self.next_sequence;
        self.next_sequence += 1;
        self.mark_wanted = false;
        let header = BatchHeader {
            sequence: batch.sequence,
            bytes: batch.buffer.len() as u32,
            records: batch.records,
            oldest: self.oldest,
            flags,
        };
        let place = batch.segment.place(batch.start);
        batch.buffer[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode(place));
        let unfilled = batch.buffer.len();
        batch
            .buffer
            .resize(sector_after(unfilled as u32) as usize, 0);
        self.pending_bytes += batch.buffer.len() - unfilled + BATCH_HEADER_BYTES;
        batch
            .segment
            .used_bytes
            .store(batch.end(), Ordering::Relaxed);
        Arc::new(batch)
    }

    /// Completes the open batch; the next one follows it in the same segment.
    fn seal_in_place(&mut self, flags: u32) -> Arc<Batch> {
        let segment = self.open.segment.clone();
        let start = sector_after(self.open.end());
        self.seal(flags, segment, start)
    }

    /// The next batch to write, if there is anything to write.
    pub fn next_batch(&mut self) -> Option<Arc<Batch>> {
        let batch = self.sealed.pop_front().or_else(|| self.complete_open());
        self.in_flight = batch.clone();
        batch
    }

    fn complete_open(&mut self) -> Option<Arc<Batch>> {
        if self.open.records > 0 {
            return Some(self.seal_in_place(0));
        }
        let close = self.stopping && !self.close_mark_done;
        // Nothing may follow the mark of a clean end.
        if !close && (!self.mark_wanted || self.stopping) {
            return None;
        }
        // One sector must stay free for the batch that ends the segment.
        if self.open.start + 2 * SECTOR_BYTES > self.open.segment.bytes {
            self.roll().ok()?;
            return self.sealed.pop_front();
        }
        self.close_mark_done |= close;
        Some(self.seal_in_place(if close { FLAG_CLOSED } else { 0 }))
    }

    /// Whether the writer has something to do.
    pub fn has_work(&self) -> bool {
        !self.sealed.is_empty() || self.open.records > 0 || self.mark_wanted || self.stopping
    }

    /// Forgets the batch that was written and keeps its buffer for another.
    pub fn batch_done(&mut self, batch: Arc<Batch>) {
        self.in_flight = None;
        self.pending_bytes -= batch.buffer.len();
        // A reader may still look at it; then the buffer goes with the reader.
        if let Ok(batch) = Arc::try_unwrap(batch)
            && batch.buffer.capacity() <= SPARE_BYTES_MAX
            && self.spare.len() < 2
        {
            self.spare.push(batch.buffer);
        }
    }

    /// Takes no more records; with `mark_close`, the last batch says that this is a clean end.
    pub fn stop(&mut self, mark_close: bool) {
        self.stopping = true;
        self.close_mark_done = !mark_close;
    }

    /// A record that is still in memory.
    pub fn find(&self, position: Position) -> Option<Found> {
        if let Some(record) = self.open.record(position) {
            return Some(Found::Copy(record.to_vec()));
        }
        let mut complete = self.in_flight.iter().chain(&self.sealed);
        complete
            .find(|batch| batch.record(position).is_some())
            .cloned()
            .map(Found::Batch)
    }

    /// From the next batch on, segments before `oldest` are not needed. Returns the sequence of that batch.
    pub fn set_oldest(&mut self, oldest: u32) -> u64 {
        self.oldest = oldest;
        self.mark_wanted = true;
        self.next_sequence
    }

    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The number of the segment to prepare, if one is missing.
    pub fn segment_to_prepare(&self) -> Option<u32> {
        self.prepared
            .is_empty()
            .then(|| self.open.segment.number + 1)
    }

    pub fn add_prepared(&mut self, segment: Segment) {
        self.prepared.push_back(Arc::new(segment));
        self.no_next_segment = None;
    }

    pub fn take_rolled(&mut self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut self.rolled)
    }
}

/// A record that is not on disk yet.
pub(crate) enum Found {
    /// Its batch is complete.
    Batch(Arc<Batch>),
    /// Its batch is still open: a copy of the payload.
    Copy(Vec<u8>),
}

/// Appends several records in order, with no other record between them. The journal is locked meanwhile: do
/// only short work, and call neither [`crate::Journal::append`] nor [`crate::Journal::read`].
pub struct Appender<'a> {
    pub(crate) pending: &'a mut Pending,
}

impl Appender<'_> {
    /// Refuses where [`crate::Journal::ready`] would wait or refuse. Whoever appends records that take space calls it
    /// first, so that what is not on disk yet stays within its bounds.
    pub fn check_ready(&self) -> Result<(), AppendError> {
        if self.pending.readiness()? {
            Ok(())
        } else {
            Err(AppendError::NotReady)
        }
    }

    /// Appends a record made of `parts`; see [`crate::Journal::append`].
    pub fn append(&mut self, parts: &[&[u8]], keepers: u32) -> Result<Position, AppendError> {
        self.pending.append(parts, payload_checksum(parts), keepers)
    }

    /// Appends the record that `write` puts into the empty buffer it is given.
    pub fn append_with(
        &mut self,
        length_hint: usize,
        keepers: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Position, AppendError> {
        // A buffer of its own, so that a `write` which clears it cannot harm the records before it.
        let mut scratch = std::mem::take(&mut self.pending.scratch);
        scratch.clear();
        scratch.reserve(length_hint);
        write(&mut scratch);
        let appended = self.append(&[&scratch], keepers);
        if scratch.capacity() <= SCRATCH_BYTES_MAX {
            self.pending.scratch = scratch;
        }
        appended
    }
}
