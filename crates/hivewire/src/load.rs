//! How busy this process keeps the machine.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What the kernel counts processor time in.
const TICKS_PER_SECOND: f64 = 100.0;

/// What is looked at sooner than this is as it was: the kernel counts too coarsely.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Measures the share of all cores that this process uses, from one look to the next.
#[derive(Debug)]
pub(crate) struct Load {
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    ticks: u64,
    hundredths: u32,
}

impl Load {
    pub fn new() -> Self {
        Self {
            last: Mutex::new(Last {
                at: Instant::now(),
                ticks: ticks(),
                hundredths: 0,
            }),
        }
    }

    /// The share since the last look, in hundredths.
    pub fn hundredths(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut last = self.last.lock();
        let (now, used) = (Instant::now(), ticks());
        let elapsed = now.duration_since(last.at);
        if elapsed >= LOOK_EVERY {
            let busy = used.saturating_sub(last.ticks) as f64 / TICKS_PER_SECOND;
            let share = busy / elapsed.as_secs_f64() / cores as f64;
            *last = Last {
                at: now,
                ticks: used,
                hundredths: (100.0 * share).round() as u32,
            };
        }
        last.hundredths
    }
}

/// The processor time of this process so far; zero where the system does not tell.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands in brackets and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let used = after_name.split_whitespace().skip(11).take(2);
    used.filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen() {
        let before = ticks();
        let start = Instant::now();
        while ticks() == before {
            assert!(start.elapsed().as_secs() < 60, "no time was counted");
        }
        assert!(Load::new().hundredths() <= 100);
    }
}
