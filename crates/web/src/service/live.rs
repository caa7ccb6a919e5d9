//! What happened so far, in numbers for programs and in words for people.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::locks::{BUCKETS, Histogram, LockNumbers};
use crate::loops::LoopNumbers;

/// How long something took, as far as it was counted. Shares are at most twice as long as the exact ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimesExplained {
    /// How often it was counted. Where not all is measured, one that is stands for many, so this is an estimate.
    pub count: u64,
    /// The mean, in nanoseconds. 0 if nothing was counted, as all of these.
    pub mean_ns: u64,
    /// What half of them do not exceed.
    pub p50_ns: u64,
    /// What nine of ten do not exceed.
    pub p90_ns: u64,
    /// What 99 of 100 do not exceed.
    pub p99_ns: u64,
}

impl TimesExplained {
    pub(super) fn of(times: &Histogram) -> Self {
        // All that is longer than the last bound is in one bucket, of which no end is known.
        let share = |share| {
            times
                .quantile_ns(share)
                .map_or(0, |ns| ns.min(1 << BUCKETS))
        };
        let count = times.count();
        Self {
            count,
            mean_ns: times.sum_ns.checked_div(count).unwrap_or_default(),
            p50_ns: share(0.5),
            p90_ns: share(0.9),
            p99_ns: share(0.99),
        }
    }
}

impl fmt::Display for TimesExplained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (in_words(self.p50_ns), in_words(self.p99_ns));
        write!(formatter, "p50 {p50}, p99 {p99}")
    }
}

/// A time as people read it.
pub(super) fn in_words(ns: u64) -> String {
    let time = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", time / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time / 1e6),
        _ => format!("{:.1} s", time / 1e9),
    }
}

/// What happened to a state so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StateLive {
    /// How often it was taken without waiting for it.
    pub taken_at_once: u64,
    /// How often somebody had to wait for it, or for one of its keys.
    pub parked: u64,
    /// How often somebody who wanted it was refused, because too many waited.
    pub refused: u64,
    /// How often somebody went away who waited for it.
    pub cancelled: u64,
    /// How many wait for it now.
    pub waiting_now: u64,
    /// Whether somebody has it now, or one of its keys.
    pub held_now: bool,
    /// How long those who had to wait waited.
    pub waiting: TimesExplained,
    /// How long it was held. Of those who did not wait for it one in 64 is measured.
    pub holding: TimesExplained,
}

impl StateLive {
    pub(super) fn of(numbers: &LockNumbers) -> Self {
        Self {
            taken_at_once: numbers.taken_at_once,
            parked: numbers.parked,
            refused: numbers.refused,
            cancelled: numbers.cancelled,
            waiting_now: numbers.waiting_now,
            held_now: numbers.held_now,
            waiting: TimesExplained::of(&numbers.waiting),
            holding: TimesExplained::of(&numbers.holding),
        }
    }
}

impl fmt::Display for StateLive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "taken at once {}, after waiting {}",
            self.taken_at_once, self.parked
        )?;
        if self.waiting.count > 0 {
            write!(formatter, " ({})", self.waiting)?;
        }
        if self.holding.count > 0 {
            write!(formatter, ", held {}", self.holding)?;
        }
        for (count, what) in [
            (self.refused, "refused"),
            (self.cancelled, "gave up"),
            (self.waiting_now, "wait now"),
        ] {
            if count > 0 {
                write!(formatter, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// What the event loops do and have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoopsLive {
    /// How many loops there are.
    pub loops: usize,
    /// How many threads there are, with those of long calls and those that watch.
    pub threads: usize,
    /// How many calls wait for a loop.
    pub queued: usize,
    /// How many calls have ended.
    pub done: u64,
    /// How many calls a loop took from another's queue.
    pub stolen: u64,
    /// How many long calls have a thread of their own now.
    pub long_now: usize,
    /// How often a call got a thread of its own because it was long.
    pub long_so_far: u64,
    /// How often a long call got none, because there were as many as may be.
    pub long_refused: u64,
    /// How many calls were refused, because too many waited.
    pub refused: u64,
    /// How many nanoseconds calls have taken together.
    pub busy_ns: u64,
}

impl LoopsLive {
    pub(super) fn of(numbers: &LoopNumbers) -> Self {
        Self {
            loops: numbers.loops,
            threads: numbers.threads,
            queued: numbers.queued,
            done: numbers.done,
            stolen: numbers.stolen,
            long_now: numbers.long_now,
            long_so_far: numbers.long_so_far,
            long_refused: numbers.long_refused,
            refused: numbers.refused,
            busy_ns: numbers.busy_ns,
        }
    }
}

impl fmt::Display for LoopsLive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} with {} threads, {} calls wait, {} run long, {} done in {}, {} of them stolen",
            self.loops,
            self.threads,
            self.queued,
            self.long_now,
            self.done,
            in_words(self.busy_ns),
            self.stolen
        )?;
        match self.refused {
            0 => Ok(()),
            refused => write!(formatter, ", {refused} refused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(buckets: &[(usize, u64)], sum_ns: u64) -> Histogram {
        let mut times = Histogram {
            buckets: [0; BUCKETS],
            sum_ns,
        };
        buckets
            .iter()
            .for_each(|(place, count)| times.buckets[*place] = *count);
        times
    }

    #[test]
    fn shares_are_those_of_the_histogram() {
        let explained = TimesExplained::of(&times(&[(9, 98), (19, 2)], 1_000_000));
        let TimesExplained {
            count,
            mean_ns,
            p50_ns,
            p90_ns,
            p99_ns,
        } = explained;
        assert_eq!((count, mean_ns), (100, 10_000));
        assert_eq!((p50_ns, p90_ns, p99_ns), (1 << 10, 1 << 10, 1 << 20));
        assert_eq!(explained.to_string(), "p50 1.0 µs, p99 1.0 ms");
    }

    #[test]
    fn nothing_and_what_has_no_end_are_numbers_too() {
        assert_eq!(
            TimesExplained::of(&times(&[], 0)),
            TimesExplained::default()
        );
        assert_eq!(
            TimesExplained::of(&times(&[(BUCKETS - 1, 1)], 0)).p50_ns,
            1 << BUCKETS
        );
    }

    #[test]
    fn times_are_in_words() {
        let words = [999, 1_500, 2_500_000, 3_000_000_000].map(in_words);
        assert_eq!(words, ["999 ns", "1.5 µs", "2.5 ms", "3.0 s"]);
    }
}
