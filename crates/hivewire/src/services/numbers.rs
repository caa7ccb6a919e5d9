//! How it goes with a route.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use kernel::metrics::duration_histogram;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

/// The longest time that is told from longer ones, in microseconds.
const LATENCY_MICROS_MAX: u64 = 300_000_000;
/// Two digits of a time are kept.
const DIGITS: u8 = 2;

/// What is counted of one route.
pub(super) struct Numbers {
    requests: AtomicU64,
    failed: AtomicU64,
    under_way: AtomicU64,
    latency: Mutex<Histogram<u64>>,
    /// The same times as metrics show them.
    pub seconds: kernel::metrics::Histogram,
}

/// The numbers of a route, since it is there.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RouteNumbers")]
pub(crate) struct NumbersShown {
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that were answered with a status of 500 or more.
    pub failed: u64,
    /// Requests that are not answered yet.
    pub under_way: u64,
    /// How long answers took.
    pub latency: LatencyShown,
}

/// How long answers took, in milliseconds; 0 if there was none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RouteLatency")]
pub(crate) struct LatencyShown {
    /// On average.
    pub mean_ms: f64,
    /// Half of them took at most this.
    pub p50_ms: f64,
    /// Of a hundred, 99 took at most this.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Default for Numbers {
    fn default() -> Self {
        let latency = Histogram::new_with_max(LATENCY_MICROS_MAX, DIGITS);
        Self {
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            latency: Mutex::new(latency.expect("the limits fit together")),
            seconds: duration_histogram(),
        }
    }
}

impl Numbers {
    /// A request has come. It is under way until what this gives is dropped.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay {
            numbers: self,
            since: Instant::now(),
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    fn answered(&self, is_failure: bool, took: Duration) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.failed
            .fetch_add(u64::from(is_failure), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.lock().saturating_record(micros);
        self.seconds.observe(took.as_secs_f64());
    }

    pub fn shown(&self) -> NumbersShown {
        let latency = self.latency.lock();
        let millis = |micros: f64| (micros / 10.0).round() / 100.0;
        NumbersShown {
            requests: self.requests(),
            failed: self.failed(),
            under_way: self.under_way(),
            latency: LatencyShown {
                mean_ms: millis(latency.mean()),
                p50_ms: millis(latency.value_at_quantile(0.5) as f64),
                p99_ms: millis(latency.value_at_quantile(0.99) as f64),
                max_ms: millis(latency.max() as f64),
            },
        }
    }
}

/// A request that is not answered yet.
pub(super) struct UnderWay<'n> {
    numbers: &'n Numbers,
    since: Instant,
}

impl UnderWay<'_> {
    /// It is answered.
    pub fn answered(self, is_failure: bool) {
        self.numbers.answered(is_failure, self.since.elapsed());
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.numbers.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_answered_or_given_up() {
        let numbers = Numbers::default();
        let (one, two) = (numbers.begin(), numbers.begin());
        assert_eq!(numbers.under_way(), 2);
        one.answered(true);
        drop(two);
        let shown = numbers.shown();
        assert_eq!((shown.requests, shown.failed, shown.under_way), (1, 1, 0));
    }

    #[test]
    fn times_are_kept_to_two_digits() {
        let numbers = Numbers::default();
        for ms in 1..=100 {
            numbers.answered(false, Duration::from_millis(ms));
        }
        let latency = numbers.shown().latency;
        assert!((49.0..52.0).contains(&latency.p50_ms), "{latency:?}");
        assert!((98.0..101.0).contains(&latency.p99_ms), "{latency:?}");
        assert!((50.0..51.0).contains(&latency.mean_ms), "{latency:?}");
    }
}
