//! Sizes and the sync policy of a journal.

use crate::error::OpenError;
use crate::format::{RECORD_OVERHEAD_BYTES, SECTOR_BYTES};

const SEGMENT_BYTES_MIN: u32 = 16 << 10;
const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// Sizes and the sync policy of a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of each new segment file. Existing segments keep theirs.
    pub segment_bytes: u32,
    /// The longest record that is taken. It must fit into an empty segment.
    pub record_bytes_max: u32,
    /// Above this many bytes in memory that are not yet durable, [`crate::Journal::ready`] waits.
    pub pending_bytes_max: usize,
    /// Whether a batch is synced before it counts as durable.
    pub sync: Sync,
}

/// Whether a batch is synced before it counts as durable.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Every batch is followed by `fdatasync`: what is reported durable survives loss of power.
    Fdatasync,
    /// No sync. Only for the negative controls of tests and for benchmarks: loss of power loses records.
    Off,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            record_bytes_max: 32 << 20,
            pending_bytes_max: 16 << 20,
            sync: Sync::Fdatasync,
        }
    }
}

impl Options {
    pub(crate) fn validate(&self) -> Result<(), OpenError> {
        let problem = if !self.segment_bytes.is_multiple_of(SECTOR_BYTES) {
            format!("segment_bytes must be a multiple of {SECTOR_BYTES}")
        } else if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            format!("segment_bytes must lie between {SEGMENT_BYTES_MIN} and {SEGMENT_BYTES_MAX}")
        } else if self.record_bytes_max > self.segment_bytes - RECORD_OVERHEAD_BYTES {
            format!("record_bytes_max must be at most segment_bytes - {RECORD_OVERHEAD_BYTES}")
        } else if self.pending_bytes_max == 0 {
            "pending_bytes_max must not be 0".to_owned()
        } else {
            return Ok(());
        };
        Err(OpenError::Options { problem })
    }

    /// Bytes that stay free in the active segment while no next one is prepared: room for those who
    /// were told that the journal is ready and have not appended yet.
    pub(crate) fn reserve_bytes(&self) -> u32 {
        let wanted = self.record_bytes_max as u64 + self.pending_bytes_max as u64;
        wanted.min(self.segment_bytes as u64 / 4 * 3) as u32
    }
}
