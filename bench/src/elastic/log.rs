//! How late events were, second by second.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Later than this counts as this.
const LATEST_MS: usize = 60_000;

/// How late events were after they were due.
pub struct Log {
    began: Instant,
    seconds: Vec<Second>,
    /// How many events were so many milliseconds late.
    late_ms: Vec<AtomicU32>,
}

#[derive(Default)]
struct Second {
    events: AtomicU64,
    late_micros: AtomicU64,
    workers: AtomicU32,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Events that were handled.
    pub events: u64,
    /// How late they were on average, in milliseconds.
    pub late_ms: f64,
    /// How many workers there were at most.
    pub workers: u32,
}

impl Log {
    /// A log for so long, from now on.
    pub fn new(lasts: Duration) -> Self {
        let seconds = lasts.as_secs() as usize + 1 + LATEST_MS / 1_000;
        Self {
            began: Instant::now(),
            seconds: (0..seconds).map(|_| Second::default()).collect(),
            late_ms: (0..=LATEST_MS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Microseconds since the beginning.
    pub fn now_micros(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// An event that was due then is handled now.
    pub fn add(&self, due_micros: u64, now_micros: u64) {
        let late = now_micros.saturating_sub(due_micros);
        let ms = (late / 1_000) as usize;
        self.late_ms[ms.min(LATEST_MS)].fetch_add(1, Ordering::Relaxed);
        let second = (now_micros / 1_000_000) as usize;
        if let Some(second) = self.seconds.get(second) {
            second.events.fetch_add(1, Ordering::Relaxed);
            second.late_micros.fetch_add(late, Ordering::Relaxed);
        }
    }

    /// There are so many workers now.
    pub fn note_workers(&self, workers: u32) {
        let second = (self.now_micros() / 1_000_000) as usize;
        if let Some(second) = self.seconds.get(second) {
            second.workers.fetch_max(workers, Ordering::Relaxed);
        }
    }

    /// All events that were handled.
    pub fn events(&self) -> u64 {
        let count = |second: &Second| second.events.load(Ordering::Relaxed);
        self.seconds.iter().map(count).sum()
    }

    /// The seconds of the run.
    pub fn seconds(&self, lasts: Duration) -> Vec<Seen> {
        let seen = |second: &Second| {
            let events = second.events.load(Ordering::Relaxed);
            let late = second.late_micros.load(Ordering::Relaxed) as f64 / 1e3;
            Seen {
                events,
                late_ms: late / events.max(1) as f64,
                workers: second.workers.load(Ordering::Relaxed),
            }
        };
        let run = self.seconds.iter().take(lasts.as_secs() as usize);
        run.map(seen).collect()
    }

    /// This share of all events was not later, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let counts: Vec<u64> = self
            .late_ms
            .iter()
            .map(|count| u64::from(count.load(Ordering::Relaxed)))
            .collect();
        let wanted = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (ms, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (ms + 1) as f64;
            }
        }
        LATEST_MS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_percentiles_are_those_of_what_was_added() {
        let log = Log::new(Duration::from_secs(2));
        for late_ms in 0..100 {
            log.add(500_000 - late_ms * 1_000, 500_000);
        }
        log.add(0, 1_500_000);
        let seconds = log.seconds(Duration::from_secs(2));
        assert_eq!((seconds[0].events, seconds[1].events), (100, 1));
        assert!((seconds[0].late_ms - 49.5).abs() < 0.01);
        assert!((seconds[1].late_ms - 1_500.0).abs() < 0.01);
        assert_eq!(log.percentile_ms(0.5), 51.0);
        assert_eq!(log.percentile_ms(1.0), 1_501.0);
        assert_eq!(log.events(), 101);
    }
}
