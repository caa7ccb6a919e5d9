//! What a stage that finds its size by itself is measured by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Stage;
use crate::key::BUCKETS;
use crate::scaling::{BucketSample, Sample, ScaleDecision, Scaler};

/// How many messages of each bucket were handled since the last look.
pub(super) struct BucketCounts(Box<[AtomicU64; BUCKETS as usize]>);

impl Default for BucketCounts {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; BUCKETS as usize]))
    }
}

impl Stage {
    pub fn scaler(&self) -> &Mutex<Option<Arc<Scaler>>> {
        &self.scaler
    }

    /// What was decided about its size, the oldest first.
    pub fn decisions(&self) -> Vec<ScaleDecision> {
        let scaler = self.scaler.lock().clone();
        scaler.map_or_else(Vec::new, |scaler| scaler.decisions())
    }

    /// From now on what its buckets do is counted.
    pub fn begin_measuring(&self) {
        if self.is_keyed() {
            self.bucket_counts.get_or_init(BucketCounts::default);
        }
    }

    /// So many messages of a bucket were taken up.
    pub fn count_bucket(&self, bucket: u32, messages: usize) {
        if let Some(counts) = self.bucket_counts.get() {
            counts.0[bucket as usize].fetch_add(messages as u64, Ordering::Relaxed);
        }
    }

    /// What happened since the last look.
    pub fn sample(&self, took: Duration, now: Instant, is_moving: bool) -> Sample {
        let cells = self.cells();
        let workers = cells.iter().map(|cell| cell.sample(now)).collect();
        Sample {
            took,
            workers,
            depth: self.depth(),
            starved: self.take_starved(now),
            buckets: self.bucket_samples(),
            is_moving,
        }
    }

    fn bucket_samples(&self) -> Vec<BucketSample> {
        let Some(counts) = self.bucket_counts.get() else {
            return Vec::new();
        };
        let moves = self.moves.read();
        let numbered = (0..).zip(counts.0.iter());
        numbered
            .map(|(bucket, done)| BucketSample {
                bucket,
                worker: moves.table().owner(bucket),
                done: done.swap(0, Ordering::Relaxed),
            })
            .collect()
    }

    /// How many messages wait, with those on the bus if it can tell.
    fn depth(&self) -> u64 {
        let waiting: u64 = {
            let cells = self.cells.read();
            cells.iter().map(|cell| u64::from(cell.waiting())).sum()
        };
        let here = waiting + self.moves.read().held_messages() as u64;
        if self.is_memory() {
            return here;
        }
        let bus = &self.runtime.bus;
        let own = bus.depth(&self.address.queue());
        let buckets = (0..if self.is_keyed() { BUCKETS } else { 0 })
            .filter_map(|bucket| bus.depth(&self.address.bucket(bucket)));
        match own {
            // What workers have is not acknowledged, so the bus counts it too.
            Some(own) => own + buckets.sum::<u64>(),
            None => here,
        }
    }

    /// Sends a probe to each worker, behind what waits.
    pub fn send_probes(&self, now: Instant) {
        for cell in self.cells() {
            cell.probe(now);
        }
    }

    /// No more messages than this wait for one worker from now on, and never more than the stage allows anyway.
    pub fn limit_mailboxes(&self, messages_max: u32) {
        self.current.limit_messages(messages_max);
    }
}
