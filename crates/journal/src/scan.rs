//! Reading a journal from disk without changing it: finds every intact record, where appending goes on, and
//! whether what is broken is a torn tail or damage.
//!
//! A batch is written only after the one before it was synced. So if a batch is broken and any later one exists, the
//! broken one had been synced, possibly acknowledged: damage, and the journal is not opened. If none
//! exists, the broken batch was never acknowledged: a torn tail, which is dropped as a whole.

use std::io;

use crate::error::OpenError;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, FIRST_BATCH_OFFSET, FLAG_CLOSED, FLAG_LAST, FORMAT_VERSION,
    HeaderProblem, Place, RECORD_HEADER_BYTES, SECTOR_BYTES, SegmentHeader, record_at,
    sector_after,
};
use crate::position::Position;
use crate::recovery::{MARKER_NAME, TornTail};
use crate::segment::{is_unfinished, segment_name, segment_number};
use crate::storage::{Storage, StorageFile};

/// Called with every intact record, in order.
pub(crate) type Replay<'a> = &'a mut dyn FnMut(Position, &[u8]);

/// A segment file that was found.
pub(crate) struct Found {
    pub header: SegmentHeader,
    pub file: Box<dyn StorageFile>,
    pub used_bytes: u32,
    /// Bytes of a torn tail, from where batches end on. Everything behind is zeros.
    pub torn_bytes: u32,
}

/// A stretch of bytes in a file.
#[derive(Default)]
pub(crate) struct Stretch {
    /// Index into [`Scan::segments`].
    pub segment: usize,
    pub offset: u32,
    pub data: Vec<u8>,
}

/// What was found on disk.
pub(crate) struct Scan {
    /// The needed segments, oldest first, without a gap.
    pub segments: Vec<Found>,
    /// Index of the segment where appending goes on.
    pub active: usize,
    /// Where in it.
    pub offset: u32,
    pub next_sequence: u64,
    /// The oldest segment needed.
    pub oldest: u32,
    /// The last intact batch: the only one that may not be synced yet.
    pub last_batch: Option<Stretch>,
    /// Files that are not needed.
    pub leftovers: Vec<String>,
    /// The file that says that a journal was made here.
    pub has_marker: bool,
    pub records: u64,
    pub record_bytes: u64,
    pub closed: bool,
    pub torn_tail: Option<TornTail>,
}

pub(crate) fn scan(storage: &dyn Storage, replay: Replay<'_>) -> Result<Scan, OpenError> {
    let names = storage
        .list()
        .map_err(|source| storage_error("listing", &storage.location(), source))?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    let has_marker = names.iter().any(|name| name == MARKER_NAME);
    if numbers.is_empty() && has_marker {
        return Err(damaged(
            &segment_name(1),
            0,
            "all segments are missing, although a journal was made here",
        ));
    }
    let mut scan = Scan::empty(has_marker);
    scan.leftovers = names
        .into_iter()
        .filter(|name| is_unfinished(name))
        .collect();
    for number in numbers {
        scan.segments.push(open_segment(storage, number)?);
    }
    let mut loaded = Loaded::default();
    scan.drop_unneeded(&mut loaded)?;
    if !scan.segments.is_empty() {
        Walk {
            scan: &mut scan,
            loaded,
            replay,
        }
        .run()?;
    }
    Ok(scan)
}

impl Scan {
    fn empty(has_marker: bool) -> Self {
        Self {
            segments: Vec::new(),
            active: 0,
            offset: FIRST_BATCH_OFFSET,
            next_sequence: 1,
            oldest: 1,
            last_batch: None,
            leftovers: Vec::new(),
            has_marker,
            records: 0,
            record_bytes: 0,
            closed: false,
            torn_tail: None,
        }
    }

    /// Sorts out segments that the journal itself has given up, and insists on all others.
    fn drop_unneeded(&mut self, loaded: &mut Loaded) -> Result<(), OpenError> {
        let oldest_at_creation = self
            .segments
            .iter()
            .map(|found| found.header.oldest)
            .max()
            .unwrap_or(1);
        self.oldest = oldest_at_creation.max(self.oldest_by_last_batch(loaded)?);
        let unneeded = self
            .segments
            .iter()
            .take_while(|found| found.header.number < self.oldest)
            .count();
        self.leftovers.extend(
            self.segments
                .drain(..unneeded)
                .map(|found| segment_name(found.header.number)),
        );
        for (expected, found) in (self.oldest..).zip(&self.segments) {
            if found.header.number != expected {
                return Err(missing(expected));
            }
        }
        // Unless there is nothing at all yet.
        if self.segments.is_empty() && unneeded > 0 {
            Err(missing(self.oldest))
        } else {
            Ok(())
        }
    }

    /// The oldest segment that is needed according to the last intact batch.
    fn oldest_by_last_batch(&self, loaded: &mut Loaded) -> Result<u32, OpenError> {
        for (index, found) in self.segments.iter().enumerate().rev() {
            let mut first = [0; BATCH_HEADER_BYTES];
            found.read(FIRST_BATCH_OFFSET, &mut first)?;
            if BatchHeader::decode(&first, found.place(FIRST_BATCH_OFFSET)).is_none() {
                continue;
            }
            loaded.load(found)?;
            // Its only batch may have been cut short by a crash: then the segment before has the last one.
            let Some(last) = found.last_batch(&loaded.bytes) else {
                continue;
            };
            let next = found.header.number + 1;
            let has_next = self
                .segments
                .get(index + 1)
                .is_some_and(|found| found.header.number == next);
            return if last.flags & FLAG_LAST != 0 && !has_next {
                Err(missing(next))
            } else {
                Ok(last.oldest)
            };
        }
        Ok(1)
    }
}

/// The bytes of one segment, so that none is read twice in a row.
#[derive(Default)]
struct Loaded {
    number: u32,
    bytes: Vec<u8>,
}

impl Loaded {
    fn load(&mut self, found: &Found) -> Result<(), OpenError> {
        if self.number != found.header.number {
            self.number = 0;
            self.bytes.resize(found.header.bytes as usize, 0);
            found.read(0, &mut self.bytes)?;
            self.number = found.header.number;
        }
        Ok(())
    }
}

impl Found {
    pub fn name(&self) -> String {
        segment_name(self.header.number)
    }

    fn place(&self, offset: u32) -> Place {
        Place {
            salt: self.header.salt,
            segment: self.header.number,
            offset,
        }
    }

    fn read(&self, offset: u32, buffer: &mut [u8]) -> Result<(), OpenError> {
        let read = self.file.read_at(offset as u64, buffer);
        read.map_err(|source| storage_error("reading", &self.name(), source))
    }

    /// The last of the intact batches from the start. Follows the headers and checks only the last batch as a whole: if one
    /// before it is broken, the walk that follows finds damage.
    fn last_batch(&self, bytes: &[u8]) -> Option<BatchHeader> {
        let (mut before, mut last) = (None, None::<BatchHeader>);
        let (mut offset, mut last_offset) = (FIRST_BATCH_OFFSET, FIRST_BATCH_OFFSET);
        while let Some(header) =
            BatchHeader::decode(bytes.get(offset as usize..)?, self.place(offset))
        {
            if last
                .as_ref()
                .is_some_and(|last| last.sequence + 1 != header.sequence)
            {
                break;
            }
            last_offset = offset;
            offset = sector_after(offset.saturating_add(header.bytes).min(self.header.bytes));
            before = last.replace(header);
        }
        let is_intact = self.check_batch(bytes, last_offset, None).is_ok();
        if is_intact { last } else { before }
    }

    /// Checks a whole batch: it counts only if all of it is intact.
    fn check_batch(
        &self,
        bytes: &[u8],
        offset: u32,
        expected: Option<u64>,
    ) -> Result<BatchHeader, Broken> {
        let broken = |offset, what| Broken { offset, what };
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let header = BatchHeader::decode(rest, self.place(offset))
            .ok_or(broken(offset, "a batch header is broken"))?;
        if expected.is_some_and(|expected| expected != header.sequence) {
            return Err(broken(offset, "a batch is out of sequence"));
        }
        let batch = rest
            .get(..header.bytes as usize)
            .ok_or(broken(offset, "a batch is too long"))?;
        let mut at = BATCH_HEADER_BYTES;
        for _ in 0..header.records {
            let record_offset = offset + at as u32;
            let record = record_at(
                batch.get(at..).unwrap_or_default(),
                self.place(record_offset),
            );
            at += RECORD_HEADER_BYTES
                + record
                    .ok_or(broken(record_offset, "a record is broken"))?
                    .len();
        }
        if at == batch.len() {
            Ok(header)
        } else {
            Err(broken(offset, "a batch has surplus bytes"))
        }
    }

    /// The first batch header on a sector in `from..`, whatever follows it.
    fn find_batch(&self, bytes: &[u8], from: u32) -> Option<u32> {
        let mut offsets = (from..self.header.bytes).step_by(SECTOR_BYTES as usize);
        offsets.find(|offset| {
            BatchHeader::decode(&bytes[*offset as usize..], self.place(*offset)).is_some()
        })
    }
}

struct Broken {
    offset: u32,
    what: &'static str,
}

/// Follows the batches from the oldest segment to the end.
struct Walk<'a, 'b> {
    scan: &'a mut Scan,
    loaded: Loaded,
    replay: Replay<'b>,
}

impl Walk<'_, '_> {
    fn run(mut self) -> Result<(), OpenError> {
        let mut expected = None;
        self.loaded.load(&self.scan.segments[0])?;
        let broken = loop {
            let found = &self.scan.segments[self.scan.active];
            match found.check_batch(&self.loaded.bytes, self.scan.offset, expected) {
                Ok(header) => {
                    expected = Some(header.sequence + 1);
                    self.take_batch(&header)?;
                }
                Err(broken) => break broken,
            }
        };
        self.scan.next_sequence = expected.unwrap_or(1);
        self.judge_tail(&broken)
    }

    fn take_batch(&mut self, header: &BatchHeader) -> Result<(), OpenError> {
        let (index, start) = (self.scan.active, self.scan.offset);
        self.replay_records(header);
        let end = sector_after(start + header.bytes);
        let mut last = self.scan.last_batch.take().unwrap_or_default();
        last.segment = index;
        last.offset = start;
        last.data.clear();
        last.data
            .extend_from_slice(&self.loaded.bytes[start as usize..(start + header.bytes) as usize]);
        self.scan.last_batch = Some(last);
        self.scan.closed = header.flags & FLAG_CLOSED != 0;
        self.scan.oldest = header.oldest.max(self.scan.oldest);
        self.scan.segments[index].used_bytes = end;
        self.scan.offset = end;
        if header.flags & FLAG_LAST != 0 {
            self.scan.active += 1;
            self.scan.offset = FIRST_BATCH_OFFSET;
            let number = self.scan.segments[index].header.number;
            // The next file had its name before this batch was written.
            let next = self
                .scan
                .segments
                .get(index + 1)
                .ok_or_else(|| missing(number + 1))?;
            self.loaded.load(next)?;
        }
        Ok(())
    }

    fn replay_records(&mut self, header: &BatchHeader) {
        let number = self.scan.segments[self.scan.active].header.number;
        let mut offset = self.scan.offset as usize + BATCH_HEADER_BYTES;
        for _ in 0..header.records {
            let payload = offset + RECORD_HEADER_BYTES;
            let length = crate::format::record_bytes(&self.loaded.bytes[offset..]);
            (self.replay)(
                Position::new(number, offset as u32),
                &self.loaded.bytes[payload..payload + length],
            );
            self.scan.records += 1;
            self.scan.record_bytes += length as u64;
            offset = payload + length;
        }
    }

    /// Looks at everything behind the last intact batch. A batch header there means that the broken place had been
    /// synced: damage. Anything else but zeros is what a crash left of a batch that was never acknowledged.
    fn judge_tail(&mut self, broken: &Broken) -> Result<(), OpenError> {
        let active = self.scan.active;
        for index in active..self.scan.segments.len() {
            let found = &mut self.scan.segments[index];
            let mut start = FIRST_BATCH_OFFSET;
            let mut later_from = start;
            if index == active {
                start = self.scan.offset;
                later_from = start + SECTOR_BYTES;
            } else {
                self.loaded.load(found)?;
            }
            if let Some(later) = found.find_batch(&self.loaded.bytes, later_from) {
                let what = format!(
                    "{}, and a later batch exists in {} at byte {later}",
                    broken.what,
                    found.name()
                );
                return Err(damaged(
                    &self.scan.segments[active].name(),
                    broken.offset as u64,
                    &what,
                ));
            }
            let bytes = used_bytes(self.loaded.bytes.get(start as usize..).unwrap_or_default());
            found.torn_bytes = bytes as u32;
            if bytes > 0 {
                let torn = TornTail {
                    file: found.name(),
                    offset: start as u64,
                    bytes: 0,
                };
                self.scan.torn_tail.get_or_insert(torn).bytes += bytes;
            }
        }
        Ok(())
    }
}

/// The length up to the last sector that is not all zeros.
fn used_bytes(bytes: &[u8]) -> u64 {
    let is_used = |sector: &&[u8]| sector.iter().fold(0, |any, byte| any | byte) != 0;
    let sectors = bytes.chunks(SECTOR_BYTES as usize);
    let unused = sectors
        .clone()
        .rev()
        .take_while(|sector| !is_used(sector))
        .count();
    ((sectors.len() - unused) * SECTOR_BYTES as usize) as u64
}

fn open_segment(storage: &dyn Storage, number: u32) -> Result<Found, OpenError> {
    let name = segment_name(number);
    let failed = |source| storage_error("opening", &name, source);
    let file = storage.open(&name).map_err(failed)?;
    let bytes = file.bytes().map_err(failed)?;
    if bytes < SECTOR_BYTES as u64 {
        return Err(damaged(&name, bytes, "the file is too short for a segment"));
    }
    let mut sector = [0; SECTOR_BYTES as usize];
    file.read_at(0, &mut sector)
        .map_err(|source| storage_error("reading", &name, source))?;
    let header = SegmentHeader::decode(&sector).map_err(|problem| match problem {
        HeaderProblem::Checksum => damaged(&name, 0, "the segment header is broken"),
        HeaderProblem::Version(found) => OpenError::UnsupportedFormat {
            file: name.clone(),
            found,
            supported: FORMAT_VERSION,
        },
    })?;
    if header.number != number {
        return Err(damaged(
            &name,
            0,
            &format!("the file holds segment {}", header.number),
        ));
    }
    if bytes != header.bytes as u64 {
        let what = format!("the file has {bytes} bytes instead of {}", header.bytes);
        return Err(damaged(&name, bytes.min(header.bytes as u64), &what));
    }
    Ok(Found {
        header,
        file,
        used_bytes: FIRST_BATCH_OFFSET,
        torn_bytes: 0,
    })
}

fn missing(number: u32) -> OpenError {
    damaged(
        &segment_name(number),
        0,
        "a segment that is needed is missing",
    )
}

fn damaged(file: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged {
        file: file.to_owned(),
        offset,
        what: what.to_owned(),
    }
}

pub(crate) fn storage_error(operation: &'static str, file: &str, source: io::Error) -> OpenError {
    OpenError::Storage {
        operation,
        file: file.to_owned(),
        source,
    }
}
