//! The clock that ends calls: one thread counts deadline ticks for all instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wasmtime::Engine;

/// The time from one tick to the next.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Counts ticks as long as it lives. Everything that can run code holds it, so that no code runs
/// without a deadline.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    now: AtomicU64,
    ends: AtomicBool,
}

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(engines: Vec<Engine>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("wasm-ticks".to_owned())
            .stack_size(64 << 10)
            .spawn({
                let shared = shared.clone();
                move || tick(&shared, &engines)
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The number of the present tick.
    pub(crate) fn now(&self) -> u64 {
        self.shared.now.load(Ordering::Relaxed)
    }

    /// How many ticks must pass until this time is surely over.
    pub(crate) fn until(duration_ms: u64) -> u64 {
        duration_ms.div_ceil(TICK.as_millis() as u64) + 1
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of that thread has been reported by itself.
            let _ = thread.join();
        }
    }
}

fn tick(shared: &Shared, engines: &[Engine]) {
    let start = Instant::now();
    let mut counted = 0;
    while !shared.ends.load(Ordering::Relaxed) {
        // Late wake-ups are made up for, so that deadlines do not drift under load.
        let due = (start.elapsed().as_micros() / TICK.as_micros()) as u64;
        while counted < due {
            counted += 1;
            shared.now.store(counted, Ordering::Relaxed);
            for engine in engines {
                engine.increment_epoch();
            }
        }
        let next = Duration::from_micros(TICK.as_micros() as u64 * (counted + 1));
        std::thread::park_timeout(next.saturating_sub(start.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_time_and_end() {
        let ticker = Ticker::start(vec![Engine::default()]).unwrap();
        let start = Instant::now();
        while ticker.now() < 10 {
            assert!(start.elapsed() < Duration::from_secs(5));
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= TICK * 9);
        drop(ticker);
        assert_eq!(Ticker::until(1), 2);
        assert_eq!(Ticker::until(1_000), 201);
    }
}
