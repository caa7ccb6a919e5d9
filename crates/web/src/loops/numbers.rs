//! What loops do and have done, in numbers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What loops do and have done. The numbers are read one after another, so while something happens they may not quite fit together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopNumbers {
    /// How many loops there are.
    pub loops: usize,
    /// How many threads there are: those of the loops, long and spare ones, and the monitor.
    pub threads: usize,
    /// How many long threads there are now.
    pub long_now: usize,
    /// How many times a job was so long that another thread took the place of the one that ran it.
    pub long_so_far: u64,
    /// How many times that was due, but there was no thread: as many as may be were long, or the system refused one. Each job counts
    /// as often as it was looked at.
    pub long_refused: u64,
    /// How many jobs wait.
    pub queued: usize,
    /// How many jobs were taken in so far.
    pub submitted: u64,
    /// How many jobs have ended, those among them that panicked.
    pub done: u64,
    /// How many jobs a loop took from another's queue.
    pub stolen: u64,
    /// How many jobs panicked.
    pub panicked: u64,
    /// How many jobs were refused.
    pub refused: u64,
    /// How many jobs were dropped at the end, because time was up.
    pub dropped: u64,
    /// How many times a sleeping loop was woken.
    pub woken: u64,
    /// How many nanoseconds jobs have taken, those that run now among them unless they are long.
    pub busy_ns: u64,
}

/// What is counted for all loops together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    threads: AtomicUsize,
    long_now: AtomicUsize,
    long_so_far: AtomicU64,
    long_refused: AtomicU64,
    long_done: AtomicU64,
    long_busy_ns: AtomicU64,
    panicked: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl Tally {
    pub(super) fn thread_started(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn thread_ended(&self) {
        self.threads.fetch_sub(1, Ordering::Release);
    }

    /// One more long thread, if there may be so many.
    pub(super) fn long_begun(&self, long_max: usize) -> bool {
        let one_more = |long: usize| (long < long_max).then_some(long + 1);
        self.long_now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// What was to be long had already ended.
    pub(super) fn long_withdrawn(&self) {
        self.long_now.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn long_confirmed(&self) {
        self.long_so_far.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn long_refused(&self) {
        self.long_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn long_ended(&self, busy_ns: u64) {
        self.long_now.fetch_sub(1, Ordering::Relaxed);
        self.long_busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        // Whoever sees this job as done sees also what it submitted.
        self.long_done.fetch_add(1, Ordering::Release);
    }

    pub(super) fn panicked(&self) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, jobs: usize) {
        self.dropped.fetch_add(jobs as u64, Ordering::Release);
    }

    pub(super) fn long_done(&self) -> u64 {
        self.long_done.load(Ordering::Acquire)
    }

    pub(super) fn all_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Acquire)
    }

    /// What is counted here; the rest is left for the queues.
    pub(super) fn numbers(&self) -> LoopNumbers {
        LoopNumbers {
            threads: self.threads.load(Ordering::Acquire),
            long_now: self.long_now.load(Ordering::Relaxed),
            long_so_far: self.long_so_far.load(Ordering::Relaxed),
            long_refused: self.long_refused.load(Ordering::Relaxed),
            done: self.long_done(),
            panicked: self.panicked.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            dropped: self.all_dropped(),
            busy_ns: self.long_busy_ns.load(Ordering::Relaxed),
            ..LoopNumbers::default()
        }
    }
}
