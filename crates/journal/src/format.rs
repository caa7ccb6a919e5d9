//! The bytes on disk.
//!
//! A segment file starts with one sector of header; batches follow, each starting on a sector of its
//! own, so a durable sector is never written again. A batch is a header and its records back to back. All
//! numbers are little-endian.
//!
//! ```text
//! segment: magic 8 | version 4 | number 4 | bytes 4 | oldest 4 | salt 8 | checksum 4
//! batch:   magic 4 | checksum 4 | sequence 8 | bytes 4 | records 4 | oldest 4 | flags 4
//! record:  bytes 4 | checksum 4 | payload
//! ```
//!
//! The checksums of batches and records cover the segment's random salt and the position too. So neither
//! stale bytes, nor bytes at a wrong place, nor a payload that imitates a batch can pass.

use crc32c::{crc32c, crc32c_append};

pub(crate) const FORMAT_VERSION: u32 = 1;
/// The unit that a disk writes or does not write.
pub(crate) const SECTOR_BYTES: u32 = 512;
/// Where the first batch of a segment starts.
pub(crate) const FIRST_BATCH_OFFSET: u32 = SECTOR_BYTES;
pub(crate) const BATCH_HEADER_BYTES: usize = 32;
pub(crate) const RECORD_HEADER_BYTES: usize = 8;
/// Records end before this many bytes from the end of a segment: room for batches without records, which
/// must be possible when everything else is refused (they allow front segments to be deleted).
pub(crate) const RECORDS_TAIL_BYTES: u32 = 4 * SECTOR_BYTES;
/// What a segment with a single record needs besides that record's payload.
pub(crate) const RECORD_OVERHEAD_BYTES: u32 =
    FIRST_BATCH_OFFSET + RECORDS_TAIL_BYTES + (BATCH_HEADER_BYTES + RECORD_HEADER_BYTES) as u32;

/// The last batch of its segment: the next one stands in the next segment, which therefore must exist.
pub(crate) const FLAG_LAST: u32 = 1;
/// The journal was shut down cleanly after this batch.
pub(crate) const FLAG_CLOSED: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"HIVEWIRE";
const BATCH_MAGIC: [u8; 4] = *b"BTCH";
const SEGMENT_HEADER_BYTES: usize = 36;

/// What the first sector of a segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub number: u32,
    pub bytes: u32,
    /// The oldest segment that was still needed when this one was made.
    pub oldest: u32,
    pub salt: u64,
}

/// Why a segment header was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderProblem {
    Checksum,
    Version(u32),
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SECTOR_BYTES as usize] {
        let mut sector = [0; SECTOR_BYTES as usize];
        sector[..8].copy_from_slice(&SEGMENT_MAGIC);
        sector[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        sector[12..16].copy_from_slice(&self.number.to_le_bytes());
        sector[16..20].copy_from_slice(&self.bytes.to_le_bytes());
        sector[20..24].copy_from_slice(&self.oldest.to_le_bytes());
        sector[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c(&sector[..32]);
        sector[32..SEGMENT_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    /// Checksum before version: a flipped bit must not look like another format.
    pub fn decode(sector: &[u8]) -> Result<Self, HeaderProblem> {
        if sector.len() < SEGMENT_HEADER_BYTES
            || sector[..8] != SEGMENT_MAGIC
            || u32_at(sector, 32) != crc32c(&sector[..32])
        {
            return Err(HeaderProblem::Checksum);
        }
        match u32_at(sector, 8) {
            FORMAT_VERSION => Ok(Self {
                number: u32_at(sector, 12),
                bytes: u32_at(sector, 16),
                oldest: u32_at(sector, 20),
                salt: u64_at(sector, 24),
            }),
            other => Err(HeaderProblem::Version(other)),
        }
    }
}

/// Identifies the place that a checksum is bound to.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Place {
    pub salt: u64,
    pub segment: u32,
    pub offset: u32,
}

impl Place {
    fn bytes(self, extra: u32) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.salt.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.segment.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&extra.to_le_bytes());
        bytes
    }
}

/// The first bytes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// One more than that of the batch before, across segments.
    pub sequence: u64,
    /// Length with this header, without the filling up to the next sector.
    pub bytes: u32,
    pub records: u32,
    /// Segments before this one are not needed once this batch is durable.
    pub oldest: u32,
    pub flags: u32,
}

impl BatchHeader {
    pub fn encode(&self, place: Place) -> [u8; BATCH_HEADER_BYTES] {
        let mut header = [0; BATCH_HEADER_BYTES];
        header[..4].copy_from_slice(&BATCH_MAGIC);
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..20].copy_from_slice(&self.bytes.to_le_bytes());
        header[20..24].copy_from_slice(&self.records.to_le_bytes());
        header[24..28].copy_from_slice(&self.oldest.to_le_bytes());
        header[28..32].copy_from_slice(&self.flags.to_le_bytes());
        let checksum = crc32c_append(crc32c(&header[8..]), &place.bytes(0));
        header[4..8].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    pub fn decode(bytes: &[u8], place: Place) -> Option<Self> {
        let header = bytes.get(..BATCH_HEADER_BYTES)?;
        if header[..4] != BATCH_MAGIC
            || u32_at(header, 4) != crc32c_append(crc32c(&header[8..]), &place.bytes(0))
        {
            return None;
        }
        Some(Self {
            sequence: u64_at(header, 8),
            bytes: u32_at(header, 16),
            records: u32_at(header, 20),
            oldest: u32_at(header, 24),
            flags: u32_at(header, 28),
        })
    }
}

/// The part of a record's checksum that does not depend on its place: computed before any lock is taken.
pub(crate) fn payload_checksum(parts: &[&[u8]]) -> u32 {
    parts
        .iter()
        .fold(0, |checksum, part| crc32c_append(checksum, part))
}

/// The first bytes of a record, given the checksum of its payload.
pub(crate) fn record_header(
    payload_checksum: u32,
    bytes: u32,
    place: Place,
) -> [u8; RECORD_HEADER_BYTES] {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&bytes.to_le_bytes());
    header[4..]
        .copy_from_slice(&crc32c_append(payload_checksum, &place.bytes(bytes)).to_le_bytes());
    header
}

/// The payload length that a record header states.
pub(crate) fn record_bytes(header: &[u8]) -> usize {
    u32_at(header, 0) as usize
}

/// Whether payload, length and place fit the checksum in the record's header.
pub(crate) fn record_is_intact(header: &[u8], payload: &[u8], place: Place) -> bool {
    record_header(crc32c(payload), payload.len() as u32, place) == header[..RECORD_HEADER_BYTES]
}

/// The payload of the intact record at the start of `bytes`.
pub(crate) fn record_at(bytes: &[u8], place: Place) -> Option<&[u8]> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let payload = bytes[RECORD_HEADER_BYTES..].get(..record_bytes(header))?;
    record_is_intact(header, payload, place).then_some(payload)
}

/// The next sector boundary at or after `offset`.
pub(crate) fn sector_after(offset: u32) -> u32 {
    offset.next_multiple_of(SECTOR_BYTES)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        salt: 7,
        segment: 3,
        offset: 512,
    };

    #[test]
    fn segment_header_survives_and_no_flip_does() {
        let header = SegmentHeader {
            number: 3,
            bytes: 65536,
            oldest: 2,
            salt: 99,
        };
        let sector = header.encode();
        assert_eq!(SegmentHeader::decode(&sector), Ok(header));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut flipped = sector;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                SegmentHeader::decode(&flipped),
                Err(HeaderProblem::Checksum)
            );
        }
    }

    #[test]
    fn batch_header_is_bound_to_its_place() {
        let header = BatchHeader {
            sequence: 9,
            bytes: 100,
            records: 2,
            oldest: 1,
            flags: FLAG_LAST,
        };
        let bytes = header.encode(PLACE);
        assert_eq!(BatchHeader::decode(&bytes, PLACE), Some(header));
        for place in [
            Place { salt: 8, ..PLACE },
            Place {
                segment: 4,
                ..PLACE
            },
            Place {
                offset: 1024,
                ..PLACE
            },
        ] {
            assert_eq!(BatchHeader::decode(&bytes, place), None);
        }
    }

    #[test]
    fn record_is_bound_to_its_place() {
        let mut bytes = record_header(payload_checksum(&[b"he", b"llo"]), 5, PLACE).to_vec();
        bytes.extend_from_slice(b"hello");
        assert_eq!(record_at(&bytes, PLACE), Some(&b"hello"[..]));
        assert_eq!(
            record_at(
                &bytes,
                Place {
                    offset: 513,
                    ..PLACE
                }
            ),
            None
        );
        assert_eq!(record_at(&bytes[..12], PLACE), None);
    }
}
