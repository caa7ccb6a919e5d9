//! How long the calls of a route take, and whether they may run on an I/O thread.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::locks::{Histogram, SAMPLED, Times, is_sampled};

/// A call that takes no longer is a short one.
const SHORT_NS: u64 = 50_000;
/// After so many short calls in a row, calls run on I/O threads.
const SHORT_CALLS: u32 = 256;
/// Of calls without state that run on I/O threads, one in so many is measured.
const MEASURED_EVERY: u64 = 8;

/// What calls do, which says how they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// They hold no locks: once they are short, not all are measured.
    Free,
    /// They hold locks: one that is long is noticed at once.
    HoldLocks,
    /// They are those of an `async` function: calling it takes no time, what it does later does.
    Wait,
}

/// What is known about the time that calls take.
pub(crate) struct Pace {
    calls: AtomicU64,
    mean_ns: AtomicU64,
    short_in_a_row: AtomicU32,
    is_short: AtomicBool,
    kind: Calls,
    /// It stands elsewhere, so that what each call touches stays close together.
    times: Box<Times>,
}

impl Pace {
    /// Nothing is known yet.
    pub fn new(kind: Calls) -> Self {
        Self {
            calls: AtomicU64::new(0),
            mean_ns: AtomicU64::new(0),
            short_in_a_row: AtomicU32::new(0),
            is_short: AtomicBool::new(false),
            kind,
            times: Box::default(),
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

    /// How long calls took.
    pub fn times(&self) -> Histogram {
        self.times.snapshot()
    }

    /// A call, measured if need be.
    #[inline]
    pub fn measured<T>(&self, call: impl FnOnce() -> T) -> T {
        let number = self.calls.fetch_add(1, Relaxed);
        let is_measured = match self.kind {
            Calls::Free => !self.is_short() || number.is_multiple_of(MEASURED_EVERY),
            Calls::HoldLocks => true,
            Calls::Wait => false,
        };
        if !is_measured {
            return call();
        }
        let begun = Instant::now();
        let result = call();
        self.took(number, self.is_short(), begun.elapsed());
        result
    }

    /// Awaits what an `async` function gave back, measured if need be.
    pub async fn awaited<T>(&self, waiting: impl Future<Output = T>) -> T {
        let number = self.calls();
        let is_often = number > u64::from(SHORT_CALLS);
        if is_often && !is_sample(number) {
            return waiting.await;
        }
        let begun = Instant::now();
        let result = waiting.await;
        self.took(number, is_often, begun.elapsed());
        result
    }

    /// A call took this long. If not all are counted, it stands for many, or for none.
    #[inline(never)]
    fn took(&self, number: u64, is_one_of_many: bool, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match is_one_of_many {
            false => self.times.add(ns, 1),
            true if is_sample(number) => self.times.add(ns, SAMPLED),
            true => {}
        }
        self.learn(ns);
    }

    /// Calls that end at the same time may overwrite what the other learned, which does no harm.
    fn learn(&self, ns: u64) {
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

/// Picks one in [`SAMPLED`] of all calls, from those that are measured anyway.
fn is_sample(number: u64) -> bool {
    const OF_MEASURED: u32 = SAMPLED / MEASURED_EVERY as u32;
    number.is_multiple_of(MEASURED_EVERY) && is_sampled(number / MEASURED_EVERY, OF_MEASURED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_short_all_the_time_runs_on_io_threads() {
        let pace = Pace::new(Calls::HoldLocks);
        for _ in 1..SHORT_CALLS {
            pace.learn(SHORT_NS);
            assert!(!pace.is_short());
        }
        pace.learn(SHORT_NS);
        assert!(pace.is_short());
        pace.learn(SHORT_NS + 1);
        assert!(!pace.is_short(), "one long call ends it");
        for _ in 1..SHORT_CALLS {
            pace.learn(1);
        }
        assert!(!pace.is_short());
        pace.learn(1);
        assert!(pace.is_short());
    }

    #[test]
    fn the_mean_follows_what_calls_take() {
        let pace = Pace::new(Calls::Free);
        pace.learn(1000);
        assert_eq!(pace.expected_ns(), 1000);
        (0..100).for_each(|_| pace.learn(80_000));
        assert!((70_000..=80_000).contains(&pace.expected_ns()));
    }
    #[test]
    fn all_calls_count_whether_they_are_measured_or_not() {
        for kind in [Calls::Free, Calls::HoldLocks] {
            let pace = Pace::new(kind);
            for _ in 0..SHORT_CALLS {
                pace.measured(|| ());
            }
            assert_eq!(pace.times().count(), u64::from(SHORT_CALLS), "{kind:?}");
            (0..1 << 20).for_each(|_| pace.measured(|| ()));
            let (calls, counted) = (pace.calls(), pace.times().count());
            assert!(
                counted.abs_diff(calls) < calls / 10,
                "{kind:?}: {counted} of {calls}"
            );
        }
    }

    #[test]
    fn what_is_awaited_counts_with_the_waiting() {
        let pace = Pace::new(Calls::Wait);
        pace.measured(|| ());
        assert_eq!(pace.times().count(), 0);
        let time = Duration::from_millis(2);
        futures_lite::future::block_on(pace.awaited(async { std::thread::sleep(time) }));
        assert_eq!(pace.times().count(), 1);
        assert!(pace.times().sum_ns >= 2_000_000);
    }
}
