//! How long the calls of a route take, and whether they may run on an I/O thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A call that takes no longer is a short one.
const SHORT_NS: u64 = 50_000;
/// After so many short calls in a row, calls run on I/O threads.
const SHORT_CALLS: u32 = 256;
/// Of calls without state that run on I/O threads, one in so many is measured.
const MEASURED_EVERY: u64 = 8;

/// What is known about the time that calls take.
pub(crate) struct Pace {
    calls: AtomicU64,
    mean_ns: AtomicU64,
    short_in_a_row: AtomicU32,
    is_short: AtomicBool,
    measures_all: bool,
}

impl Pace {
    /// Nothing is known yet. Calls that hold locks are all measured.
    pub fn new(holds_locks: bool) -> Self {
        Self {
            calls: AtomicU64::new(0),
            mean_ns: AtomicU64::new(0),
            short_in_a_row: AtomicU32::new(0),
            is_short: AtomicBool::new(false),
            measures_all: holds_locks,
        }
    }

    /// Whether calls have proven to be short.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// How long a call is expected to take.
    pub fn expected_ns(&self) -> u64 {
        self.mean_ns.load(Relaxed)
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// A call, measured if need be.
    #[inline]
    pub fn measured<T>(&self, call: impl FnOnce() -> T) -> T {
        let number = self.calls.fetch_add(1, Relaxed);
        if !self.measures_all && self.is_short() && !number.is_multiple_of(MEASURED_EVERY) {
            return call();
        }
        let begun = Instant::now();
        let result = call();
        self.took(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        result
    }

    /// A call took this long. Calls that end at the same time may overwrite what the other learned, which does no harm.
    fn took(&self, ns: u64) {
        let mean = self.mean_ns.load(Relaxed);
        let next = match mean {
            0 => ns,
            _ => mean - mean / 8 + ns / 8,
        };
        self.mean_ns.store(next, Relaxed);
        if ns > SHORT_NS {
            self.short_in_a_row.store(0, Relaxed);
            self.is_short.store(false, Relaxed);
        } else if !self.is_short() {
            let in_a_row = self.short_in_a_row.fetch_add(1, Relaxed) + 1;
            self.is_short.store(in_a_row >= SHORT_CALLS, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_short_all_the_time_runs_on_io_threads() {
        let pace = Pace::new(true);
        for _ in 1..SHORT_CALLS {
            pace.took(SHORT_NS);
            assert!(!pace.is_short());
        }
        pace.took(SHORT_NS);
        assert!(pace.is_short());
        pace.took(SHORT_NS + 1);
        assert!(!pace.is_short(), "one long call ends it");
        for _ in 1..SHORT_CALLS {
            pace.took(1);
        }
        assert!(!pace.is_short());
        pace.took(1);
        assert!(pace.is_short());
    }

    #[test]
    fn the_mean_follows_what_calls_take() {
        let pace = Pace::new(false);
        pace.took(1000);
        assert_eq!(pace.expected_ns(), 1000);
        (0..100).for_each(|_| pace.took(80_000));
        assert!((70_000..=80_000).contains(&pace.expected_ns()));
    }
}
