//! How long messages wait for the workers of a stage, for people who look.
//!
//! Once a second a few workers that have something to do get a probe behind what waits. Where nothing waits nothing is
//! measured, so that idle workers stay asleep.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Stage;
use crate::cell::Cell;
use crate::scaling::{Probe, percentile};
use crate::views::WorkerState;

/// So many workers get a probe.
const WORKERS_PROBED: usize = 16;
/// Of so many seconds percentiles are known.
const SECONDS_KEPT: usize = 60;

/// What probes of the last seconds took.
#[derive(Default)]
pub(super) struct Latency(Mutex<VecDeque<Vec<Duration>>>);

impl Latency {
    fn add(&self, took: Vec<Duration>) {
        let mut seconds = self.0.lock();
        if took.is_empty() && seconds.is_empty() {
            return;
        }
        if seconds.len() == SECONDS_KEPT {
            seconds.pop_front();
        }
        seconds.push_back(took);
        if seconds.iter().all(Vec::is_empty) {
            seconds.clear();
        }
    }

    /// Half of the probes, and ninety-nine of a hundred, took no longer than this, in milliseconds.
    pub fn percentiles_ms(&self) -> Option<(f64, f64)> {
        let mut took: Vec<Duration> = self.0.lock().iter().flatten().copied().collect();
        took.sort_unstable();
        let ms = |share| percentile(&took, share).map(|took| took.as_secs_f64() * 1e3);
        Some((ms(0.5)?, ms(0.99)?))
    }
}

impl Stage {
    /// Looks at the probes of the last second and sends the next ones. A stage that finds its size by itself has probes of
    /// its own.
    pub fn measure_latency(&self) {
        if self.scaler().lock().is_some() {
            return;
        }
        let now = Instant::now();
        let mut took = Vec::new();
        let cells = self.cells.read();
        for cell in cells.iter().take(WORKERS_PROBED) {
            match cell.take_probe(now) {
                Probe::Answered(time) => took.push(time),
                Probe::Waits(time) => {
                    took.push(time);
                    continue;
                }
                Probe::None => {}
            }
            if has_something_to_do(cell) {
                cell.probe(now);
            }
        }
        drop(cells);
        self.latency.add(took);
    }
}

fn has_something_to_do(cell: &Cell) -> bool {
    cell.waiting() > 0 || cell.state() == WorkerState::Busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let latency = Latency::default();
        assert_eq!(latency.percentiles_ms(), None);
        let seconds = (1..=100).map(Duration::from_millis);
        seconds.for_each(|took| latency.add(vec![took]));
        let (half, most) = latency.percentiles_ms().unwrap();
        assert!((70.0..=71.0).contains(&half), "{half}");
        assert!((99.0..=100.0).contains(&most), "{most}");
        (0..SECONDS_KEPT).for_each(|_| latency.add(Vec::new()));
        assert_eq!(latency.percentiles_ms(), None);
    }
}
