//! The staircase: a load that rises and falls step by step, over a stage that scales itself, or does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::{Delivery, KeyRule, ScaleRule, StageKind, StageSpec};

use super::counter::{self, Counting};
use super::emitter::{self, Plan};
use super::log::{Log, Seen};
use super::{counting, emitting};
use crate::workers::{Result, Rig, WorkerError, refused};

/// The load: seconds and events per second.
const TRACE: &str = include_str!("../../../crates/runtime/tests/traces/staircase.csv");
/// A worker waits so long once in a hundred events, so that it does about 20,000 events/s, however few cores there are.
const WAIT: Duration = Duration::from_millis(4);
/// How many workers there may be.
const WORKERS_MAX: u32 = 24;
/// How often the number of workers is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the last events may take.
const END_PATIENCE: Duration = Duration::from_secs(50);

/// What was seen in a run.
#[derive(Clone, Debug)]
pub struct Staircase {
    /// Second by second.
    pub seconds: Vec<Seen>,
    /// What was due in each second.
    pub due: Vec<f64>,
    /// The average of the worst second, in milliseconds.
    pub average_ms_max: f64,
    /// Which second that was.
    pub worst_second: usize,
    /// Ninety-nine of a hundred events were not later, in milliseconds.
    pub p99_ms: f64,
    /// All events.
    pub events: u64,
    /// The most workers.
    pub workers_max: u32,
    /// Decisions that were made.
    pub decisions: usize,
}

/// Runs the whole staircase, or a shorter one with this share of its time.
pub fn climb(share: f64, scales: bool) -> Result<Staircase> {
    let plan = plan(share)?;
    let rig = Rig::in_memory()?;
    let log = Arc::new(Log::new(plan.lasts()));
    let (wrong, emitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = Counting {
        wait: Some(WAIT),
        log: log.clone(),
        wrong: wrong.clone(),
    };
    rig.deploy(stage(scales)?, counter::code(counted))?;
    let emitter = StageSpec::new(emitting())
        .delivery(Delivery::Memory)
        .output("out", counting());
    let code = emitter::code(plan.clone(), log.clone(), emitted.clone());
    rig.deploy(emitter, code)?;
    watch(&rig, &log, &plan, &emitted)?;
    let events = log.events();
    let wrong = wrong.load(Ordering::Relaxed) + emitted.load(Ordering::Relaxed).abs_diff(events);
    if wrong > 0 {
        return Err(WorkerError::Wrong {
            wrong: u32::try_from(wrong).unwrap_or(u32::MAX),
            messages: u32::try_from(events).unwrap_or(u32::MAX),
        });
    }
    let seconds = log.seconds(plan.lasts());
    let numbered = seconds.iter().enumerate();
    let worst = numbered.max_by(|(_, a), (_, b)| a.late_ms.total_cmp(&b.late_ms));
    let (worst_second, average_ms_max) = worst.map_or((0, 0.0), |(at, s)| (at, s.late_ms));
    let decisions = rig.runtime.decisions(&counting());
    Ok(Staircase {
        due: (0..seconds.len()).map(|s| plan.rate(s as f64)).collect(),
        average_ms_max,
        worst_second,
        p99_ms: log.percentile_ms(0.99),
        events,
        workers_max: seconds.iter().map(|s| s.workers).max().unwrap_or_default(),
        decisions: decisions.map_or(0, |decisions| decisions.len()),
        seconds,
    })
}

fn stage(scales: bool) -> Result<StageSpec> {
    let key: KeyRule = "json:/key".parse().map_err(refused("read a key"))?;
    let mut spec = StageSpec::new(counting())
        .delivery(Delivery::Memory)
        .kind(StageKind::Keyed(key))
        .workers(4);
    if scales {
        // The latency that is promised is that of all events; what the stage goes by has to be shorter.
        spec.scale = Some(ScaleRule {
            max: WORKERS_MAX,
            latency_ms_max: 40,
            probe_period_ms: 25,
            ..ScaleRule::default()
        });
    }
    Ok(spec)
}

fn plan(share: f64) -> Result<Plan> {
    let lines = TRACE.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut steps = Vec::new();
    for line in lines {
        let (second, rate) = line.split_once(',').unwrap_or((line, "end"));
        let second: f64 = second.parse().map_err(refused("read the load"))?;
        if rate == "end" {
            return Ok(Plan::new(steps, (second * share).ceil()));
        }
        let rate: f64 = rate.parse().map_err(refused("read the load"))?;
        steps.push((second * share, rate));
    }
    Err(WorkerError::Refused {
        action: "read the load".to_owned(),
        reason: "it does not say when it ends".to_owned(),
    })
}

/// Looks at the stage until the last event was handled.
fn watch(rig: &Rig, log: &Log, plan: &Plan, emitted: &AtomicU64) -> Result<()> {
    let deadline = Instant::now() + plan.lasts() + END_PATIENCE;
    let ends = plan.lasts().as_micros() as u64;
    loop {
        let view = rig.runtime.stage(&counting());
        log.note_workers(view.map_or(0, |view| view.workers_count));
        let is_over = log.now_micros() > ends && log.events() == emitted.load(Ordering::Relaxed);
        if is_over {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(WorkerError::TooLate {
                what: "the last event".to_owned(),
            });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
