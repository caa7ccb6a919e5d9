//! Buckets move from worker to worker under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::{BUCKETS, Delivery, KeyRule, StageKind, StageSpec};

use super::counter::{self, Counting};
use super::emitter::{self, Plan};
use super::log::Log;
use super::{counting, emitting};
use crate::workers::{Result, Rig, WorkerError, refused};

/// Events per second while buckets move.
pub const RATE: f64 = 100_000.0;
const WORKERS: u32 = 8;
/// How long the next move waits after one.
const PAUSE: Duration = Duration::from_millis(1);
/// As long as the moves may take.
const LASTS: Duration = Duration::from_secs(120);
const END_PATIENCE: Duration = Duration::from_secs(30);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Buckets that moved.
    pub moves: u64,
    /// Half of them paused no longer, in milliseconds.
    pub p50_ms: f64,
    /// Ninety-nine of a hundred paused no longer.
    pub p99_ms: f64,
    /// None paused longer.
    pub max_ms: f64,
    /// Events that were handled meanwhile.
    pub events: u64,
}

/// Moves so many buckets, one after another, while events flow; none may be lost, doubled or out of order within its key.
pub fn relocate(moves: u32) -> Result<Moved> {
    let rig = Rig::in_memory()?;
    let plan = Plan::new(vec![(0.0, RATE)], LASTS.as_secs_f64());
    let log = Arc::new(Log::new(LASTS));
    let (wrong, emitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let key: KeyRule = "json:/key".parse().map_err(refused("read a key"))?;
    let spec = StageSpec::new(counting())
        .delivery(Delivery::Memory)
        .kind(StageKind::Keyed(key))
        .workers(WORKERS);
    let counted = Counting {
        wait: None,
        log: log.clone(),
        wrong: wrong.clone(),
    };
    rig.deploy(spec, counter::code(counted))?;
    let emitter = StageSpec::new(emitting())
        .delivery(Delivery::Memory)
        .output("out", counting());
    rig.deploy(emitter, emitter::code(plan, log.clone(), emitted.clone()))?;
    let runtime = rig.runtime.clone();
    rig.in_task(async move {
        let moved = || {
            runtime
                .stage(&counting())
                .map_or(0, |view| view.moves.moves)
        };
        let mut number = 0;
        // One whose bucket is there already counts for nothing.
        while moved() < u64::from(moves) && number < 2 * moves {
            // Every bucket comes by, each time at the next worker.
            let (bucket, round) = (number % BUCKETS, number / BUCKETS);
            let worker = (bucket + round + 1) % WORKERS;
            let moved = runtime.move_bucket(&counting(), bucket, worker).await;
            moved.map_err(refused("move a bucket"))?;
            // Events come in between.
            tokio::time::sleep(PAUSE).await;
            number += 1;
        }
        Ok(())
    })?;
    let stop = runtime::StopTarget::Stage(emitting());
    let stopped = rig.block_on(rig.runtime.stop(&stop));
    stopped.map_err(refused("stop the emitter"))?;
    wait_for_all(&log, &emitted)?;
    let events = log.events();
    match wrong.load(Ordering::Relaxed) {
        0 => {}
        wrong => {
            return Err(WorkerError::Wrong {
                wrong: u32::try_from(wrong).unwrap_or(u32::MAX),
                messages: u32::try_from(events).unwrap_or(u32::MAX),
            });
        }
    }
    let view = rig.runtime.stage(&counting());
    let view = view.ok_or_else(|| WorkerError::TooLate {
        what: "a look at the stage".to_owned(),
    })?;
    Ok(Moved {
        moves: view.moves.moves,
        p50_ms: view.moves.ms_p50,
        p99_ms: view.moves.ms_p99,
        max_ms: view.moves.ms_max,
        events,
    })
}

fn wait_for_all(log: &Log, emitted: &AtomicU64) -> Result<()> {
    let deadline = Instant::now() + END_PATIENCE;
    while log.events() != emitted.load(Ordering::Relaxed) {
        if Instant::now() > deadline {
            return Err(WorkerError::TooLate {
                what: "the last event".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
