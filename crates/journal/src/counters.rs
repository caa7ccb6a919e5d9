//! Numbers for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the journal has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records appended.
    pub appended_records: u64,
    /// Bytes of their payloads.
    pub appended_bytes: u64,
    /// Batches written and, unless switched off, synced.
    pub syncs: u64,
    /// Bytes written, with headers and filling.
    pub written_bytes: u64,
    /// Time spent in syncs, altogether.
    pub sync_time: Duration,
    /// The longest sync.
    pub sync_time_max: Duration,
    /// Segments made.
    pub segments_created: u64,
    /// Segments deleted.
    pub segments_deleted: u64,
}

#[derive(Default)]
pub(crate) struct Recorder {
    syncs: AtomicU64,
    written_bytes: AtomicU64,
    sync_nanos: AtomicU64,
    sync_nanos_max: AtomicU64,
    pub segments_created: AtomicU64,
    pub segments_deleted: AtomicU64,
}

impl Recorder {
    pub fn batch(&self, bytes: usize, sync_time: Duration) {
        let nanos = sync_time.as_nanos() as u64;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.sync_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub fn counters(&self, appended_records: u64, appended_bytes: u64) -> Counters {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counters {
            appended_records,
            appended_bytes,
            syncs: get(&self.syncs),
            written_bytes: get(&self.written_bytes),
            sync_time: Duration::from_nanos(get(&self.sync_nanos)),
            sync_time_max: Duration::from_nanos(get(&self.sync_nanos_max)),
            segments_created: get(&self.segments_created),
            segments_deleted: get(&self.segments_deleted),
        }
    }
}
