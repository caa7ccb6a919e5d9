//! What became of the requests of a run.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What became of the requests of one kind.
#[derive(Debug, Clone)]
pub struct Kind {
    /// How many were due.
    pub due: u64,
    /// How many were answered rightly and in time.
    pub answered: u64,
    /// How many were refused with another status than 200.
    pub refused: u64,
    /// How many had no answer in time.
    pub late: u64,
    /// On how many the server hung up.
    pub lost: u64,
    /// Of all that were due, in microseconds from the moment when they were; what was not answered rightly counts as the
    /// time-out.
    latencies: Histogram<u64>,
}

impl Kind {
    pub(super) fn new(timeout: Duration) -> Self {
        let most = (timeout.as_micros() as u64).max(2);
        Self {
            due: 0,
            answered: 0,
            refused: 0,
            late: 0,
            lost: 0,
            latencies: Histogram::new_with_max(most, 3).expect("three digits from 1 on are right"),
        }
    }

    pub(super) fn record(&mut self, latency: Duration) {
        self.due += 1;
        self.latencies.saturating_record(latency.as_micros() as u64);
    }

    /// The latency that so many hundredths do not exceed, in milliseconds.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1_000.0
    }
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// By kind of request.
    pub kinds: Vec<Kind>,
    /// How long requests were counted.
    pub counted: Duration,
    /// By how much requests were sent too late, which is the generator's own fault, in microseconds: 99 of 100 by less.
    pub sent_late_p99_us: u64,
    /// The most connections that were open at once.
    pub connections: usize,
    /// What the generator used of a processor, as a share of the run.
    pub own_processor: f64,
}

impl Outcome {
    /// How many requests of all kinds were answered rightly and in time in a second.
    pub fn goodput(&self) -> f64 {
        let answered: u64 = self.kinds.iter().map(|kind| kind.answered).sum();
        answered as f64 / self.counted.as_secs_f64()
    }

    /// What became of all that was not answered rightly and in time, in words; nothing if there was none.
    pub fn failures(&self) -> String {
        let of = |count: fn(&Kind) -> u64| self.kinds.iter().map(count).sum::<u64>();
        let counts = [
            (of(|kind| kind.late), "late"),
            (of(|kind| kind.refused), "refused"),
            (of(|kind| kind.lost), "hung up on"),
        ];
        let told = counts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = told
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        words.join(", ")
    }
}
