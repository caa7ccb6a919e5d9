//! What is measured at one worker of a stage that finds its size by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::sample::{Probe, WorkerSample};

/// What is measured at one worker. It is written once per batch, and read once per probe period.
#[derive(Default)]
pub(crate) struct Gauge {
    busy_nanos: AtomicU64,
    blocked_nanos: AtomicU64,
    probe: Mutex<Sent>,
    seen: Mutex<Seen>,
}

/// The last probe of a worker.
#[derive(Default)]
struct Sent {
    /// When the one was sent that is not answered yet.
    at: Option<Instant>,
    /// How long the last one took, until somebody looks.
    took: Option<Duration>,
}

/// What was seen the last time.
#[derive(Default)]
struct Seen {
    turns: u64,
    busy_nanos: u64,
    blocked_nanos: u64,
}

impl Gauge {
    /// The worker has worked for so long, and waited for others for so long.
    pub fn add(&self, busy: Duration, blocked: Duration) {
        let add = |counter: &AtomicU64, time: Duration| {
            counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        };
        add(&self.busy_nanos, busy);
        if !blocked.is_zero() {
            add(&self.blocked_nanos, blocked);
        }
    }

    /// A probe is sent now, unless one is still on its way.
    pub fn begin_probe(&self, now: Instant) -> bool {
        let mut probe = self.probe.lock();
        let is_free = probe.at.is_none();
        if is_free {
            probe.at = Some(now);
        }
        is_free
    }

    /// The worker has come to the probe.
    pub fn answer_probe(&self, now: Instant) {
        let mut probe = self.probe.lock();
        if let Some(at) = probe.at.take() {
            probe.took = Some(now.saturating_duration_since(at));
        }
    }

    /// What became of the last probe. That one was answered is told once.
    pub fn take_probe(&self, now: Instant) -> Probe {
        let mut probe = self.probe.lock();
        match (probe.took.take(), probe.at) {
            (Some(took), _) => Probe::Answered(took),
            (None, Some(at)) => Probe::Waits(now.saturating_duration_since(at)),
            (None, None) => Probe::None,
        }
    }

    /// What happened since the last look, given all turns of the worker.
    pub fn sample(&self, turns: u64, now: Instant) -> WorkerSample {
        let result = self.take_probe(now);
        let now = Seen {
            turns,
            busy_nanos: self.busy_nanos.load(Ordering::Relaxed),
            blocked_nanos: self.blocked_nanos.load(Ordering::Relaxed),
        };
        let mut seen = self.seen.lock();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let sample = WorkerSample {
            probe: result,
            done: since(now.turns, seen.turns),
            busy: Duration::from_nanos(since(now.busy_nanos, seen.busy_nanos)),
            blocked: Duration::from_nanos(since(now.blocked_nanos, seen.blocked_nanos)),
        };
        *seen = now;
        sample
    }
}
