//! How often and how long a state was waited for and held.
//!
//! All of this is counted loosely (`Relaxed`): it orders nothing, and nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::word::COUNT_WRAPS;

/// How many buckets a [`Histogram`] has.
pub const BUCKETS: usize = 40;

/// Of what is taken without waiting, one in so many is measured, and counts as so many.
pub(crate) const SAMPLED: u32 = 64;

/// What is known of one lock, as of now.
#[derive(Clone, Debug)]
pub struct LockNumbers {
    /// How often it was taken without waiting for it.
    pub taken_at_once: u64,
    /// How often somebody had to wait for it, or for one of its keys.
    pub parked: u64,
    /// How often somebody who wanted it was refused because too many were parked.
    pub refused: u64,
    /// How often somebody went away who waited for it.
    pub cancelled: u64,
    /// How many wait for it or for one of its keys.
    pub waiting_now: u64,
    /// Whether somebody holds it or one of its keys.
    pub held_now: bool,
    /// How long those who parked had to wait for it.
    pub waiting: Histogram,
    /// How long it was held, from when the request had all its locks. Of requests that did not wait one in 64 is measured
    /// (picked by chance) and counts as 64, so the shape and the total are estimates.
    pub holding: Histogram,
}

/// Times by powers of two: bucket `n` holds what took from 2ⁿ up to 2ⁿ⁺¹ nanoseconds, the last one all that took longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many there were, by bucket.
    pub buckets: [u64; BUCKETS],
    /// All times together.
    pub sum_ns: u64,
}

impl Histogram {
    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// What a time in this bucket is shorter than; the last bucket has no such bound.
    pub fn bound_ns(bucket: usize) -> Option<u64> {
        (bucket + 1 < BUCKETS).then(|| 1 << (bucket + 1))
    }

    /// A time that this share of all (from 0 to 1) does not exceed, at most twice as long as the exact one. None if there are none.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64)
            .ceil()
            .max(1.0) as u64;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(Self::bound_ns(bucket).unwrap_or(u64::MAX))
    }
}

/// A histogram that threads add to.
pub(crate) struct Times {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Times {
    /// Counts one that stands for so many.
    pub fn add(&self, ns: u64, weight: u32) {
        let bucket = (ns | 1).ilog2() as usize;
        let weight = u64::from(weight);
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(weight, Relaxed);
        self.sum_ns.fetch_add(ns.saturating_mul(weight), Relaxed);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
            sum_ns: self.sum_ns.load(Relaxed),
        }
    }
}

/// What is counted for one state beside its word.
#[derive(Default)]
pub(super) struct Counts {
    /// How often the count within the word began anew.
    pub wraps: AtomicU64,
    /// How often it was taken in vain, because something else was not free.
    pub given_back: AtomicU64,
    /// The most that was ever said to be taken: between a count that begins anew and its note of it, less is seen.
    taken_said: AtomicU64,
    pub parked: AtomicU64,
    pub refused: AtomicU64,
    pub cancelled: AtomicU64,
    pub waiting_now: AtomicU64,
    pub waiting: Times,
    pub holding: Times,
}

impl Counts {
    /// Somebody joined a line.
    pub fn joined(&self) {
        self.parked.fetch_add(1, Relaxed);
        self.waiting_now.fetch_add(1, Relaxed);
    }

    /// Somebody had its turn, after so long.
    pub fn had_turn(&self, waited_ns: u64) {
        self.waiting_now.fetch_sub(1, Relaxed);
        self.waiting.add(waited_ns, 1);
    }

    /// Somebody left a line.
    pub fn left(&self) {
        self.cancelled.fetch_add(1, Relaxed);
        self.waiting_now.fetch_sub(1, Relaxed);
    }

    /// All of it, given the count within the word.
    pub fn numbers(&self, count_in_word: u64, held_now: bool) -> LockNumbers {
        let taken = self.wraps.load(Relaxed).wrapping_mul(COUNT_WRAPS);
        let taken = taken.wrapping_add(count_in_word);
        let taken = taken.saturating_sub(self.given_back.load(Relaxed));
        let said = self.taken_said.fetch_max(taken, Relaxed);
        LockNumbers {
            taken_at_once: taken.max(said),
            parked: self.parked.load(Relaxed),
            refused: self.refused.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            waiting_now: self.waiting_now.load(Relaxed),
            held_now,
            waiting: self.waiting.snapshot(),
            holding: self.holding.snapshot(),
        }
    }
}

/// Since when something is measured, if it is; and in the lowest bit, whether it is a sample and stands for many.
#[derive(Clone, Copy)]
pub(super) struct Since(u64);

impl Since {
    pub const UNMEASURED: Since = Since(0);

    /// From now on, for itself alone.
    pub fn measured(clock: &Clock) -> Self {
        Self(clock.now_ns() << 1)
    }

    #[cold]
    fn sampled(clock: &Clock) -> Self {
        Self(clock.now_ns() << 1 | 1)
    }

    #[inline]
    pub fn is_measured(self) -> bool {
        self.0 != 0
    }

    /// How long it took, and for how many it stands.
    pub fn elapsed(self, clock: &Clock) -> (u64, u32) {
        let weight = if self.0 & 1 == 1 { SAMPLED } else { 1 };
        (clock.now_ns().saturating_sub(self.0 >> 1), weight)
    }
}

/// Nanoseconds since the locks were made, from 1 on.
pub(super) struct Clock {
    started: Instant,
}

impl Clock {
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64 + 1
    }

    /// Reads the clock for one in so many, chosen by how often a lock was taken. Reading it costs more than taking a lock.
    #[inline]
    pub fn sample(&self, count: u64) -> Since {
        if is_sampled(count, SAMPLED) {
            Since::sampled(self)
        } else {
            Since::UNMEASURED
        }
    }
}

/// Picks one in so many, which is a power of two.
///
/// The counts are scattered, since requests that come in turn would otherwise always be seen at the same one.
#[inline]
pub(crate) fn is_sampled(count: u64, one_in: u32) -> bool {
    let scattered = (count as u32).wrapping_mul(0x9E37_79B1);
    scattered >> (u32::BITS - one_in.ilog2()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(times: &[u64]) -> Histogram {
        let added = Times::default();
        for &ns in times {
            added.add(ns, 1);
        }
        added.snapshot()
    }

    #[test]
    fn times_fall_into_powers_of_two() {
        let seen = histogram(&[0, 1, 2, 3, 4, 1023, 1024, u64::MAX]);
        assert_eq!(seen.buckets[..3], [2, 2, 1]);
        assert_eq!((seen.buckets[9], seen.buckets[10]), (1, 1));
        assert_eq!(seen.buckets[BUCKETS - 1], 1);
        assert_eq!(seen.count(), 8);
    }

    #[test]
    fn a_quantile_is_at_most_twice_too_long() {
        let seen = histogram(&(1..=1000).collect::<Vec<_>>());
        assert_eq!(seen.quantile_ns(0.5), Some(512));
        assert_eq!(seen.quantile_ns(1.0), Some(1024));
        assert_eq!(seen.quantile_ns(0.0), Some(2));
        assert_eq!(histogram(&[]).quantile_ns(0.5), None);
    }

    #[test]
    fn one_in_so_many_is_sampled_whoever_comes_in_turn() {
        let sampled = |step: u64, offset: u64| {
            let counts = (0..1 << 16).map(|turn| turn * step + offset);
            counts.filter(|&count| is_sampled(count, SAMPLED)).count()
        };
        let expected = (1 << 16) / SAMPLED as usize;
        for step in [1, 2, 3, 4, 5, 8, 60, 64] {
            for offset in 0..step {
                let seen = sampled(step, offset);
                let off = seen.abs_diff(expected);
                assert!(off < expected / 10, "{seen} of every {step}, from {offset}");
            }
        }
    }

    #[test]
    fn what_was_said_to_be_taken_never_becomes_less() {
        let counts = Counts::default();
        assert_eq!(
            counts.numbers(COUNT_WRAPS - 1, false).taken_at_once,
            COUNT_WRAPS - 1
        );
        assert_eq!(counts.numbers(0, false).taken_at_once, COUNT_WRAPS - 1);
        counts.wraps.fetch_add(1, Relaxed);
        assert_eq!(counts.numbers(0, false).taken_at_once, COUNT_WRAPS);
    }
}
