//! Measures a stage in every probe period, asks the controller, and does what it says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kernel::descriptor::PluginKind;
use parking_lot::Mutex;

use super::controller::{Advice, Controller};
use super::pauses::percentile;
use super::record::{ScaleDecision, ScaleNumbers};
use super::rule::ScaleRule;
use super::sample::{Probe, Sample};
use super::view::ScalingView;
use crate::stage::Stage;

/// Of how many probes percentiles are known.
const PROBES_MAX: usize = 1_000;
/// How many decisions a view shows.
const DECISIONS_SHOWN: usize = 5;
/// Mailboxes of a stage that scales by itself hold at least so many messages.
const MAILBOX_MESSAGES_MIN: u32 = 4;

/// Finds the number of workers of one stage.
pub(crate) struct Scaler {
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

struct State {
    rule: ScaleRule,
    controller: Controller,
    numbers: ScaleNumbers,
    probes: VecDeque<Duration>,
}

impl Scaler {
    fn new(rule: ScaleRule) -> Self {
        Self {
            state: Mutex::new(State {
                controller: Controller::new(rule.clone()),
                rule,
                numbers: ScaleNumbers::default(),
                probes: VecDeque::new(),
            }),
            is_stopped: AtomicBool::new(false),
        }
    }

    fn period(&self) -> Duration {
        Duration::from_millis(self.state.lock().rule.probe_period_ms)
    }

    fn set_rule(&self, rule: ScaleRule) {
        let mut state = self.state.lock();
        state.controller.set_rule(rule.clone());
        state.rule = rule;
    }

    /// What was decided, the oldest first.
    pub fn decisions(&self) -> Vec<ScaleDecision> {
        self.state.lock().controller.decisions()
    }

    pub fn view(&self) -> ScalingView {
        let state = self.state.lock();
        let mut probes: Vec<Duration> = state.probes.iter().copied().collect();
        probes.sort_unstable();
        let ms = |share| percentile(&probes, share).map_or(0.0, |p| p.as_secs_f64() * 1e3);
        let mut decisions = state.controller.decisions();
        let last = decisions.len().saturating_sub(DECISIONS_SHOWN);
        ScalingView {
            workers_min: state.rule.min,
            workers_max: state.rule.max,
            arrivals_per_second: state.numbers.arrivals_per_second,
            done_per_second: state.numbers.done_per_second,
            service_per_second: state.numbers.service_per_second,
            busy_share: state.numbers.busy_share,
            depth: state.numbers.depth,
            upstream_ms: state.numbers.upstream_ms,
            probe_ms_p50: ms(0.5),
            probe_ms_p99: ms(0.99),
            decisions: decisions.split_off(last),
        }
    }

    fn add(&self, sample: &Sample, stage: &Stage) -> Advice {
        let mut state = self.state.lock();
        for worker in &sample.workers {
            if let Probe::Answered(took) = worker.probe {
                if state.probes.len() == PROBES_MAX {
                    state.probes.pop_front();
                }
                state.probes.push_back(took);
            }
        }
        let advice = state.controller.step(sample, stage.runtime.clock.now());
        state.numbers = state.controller.numbers(sample);
        if let Some(service) = state.controller.service_per_second() {
            let latency = state.rule.latency_ms_max as f64 / 1_000.0;
            // The pause of a bucket that moves, and the latency, are about what waits: half of it here at most.
            let messages = (service * latency / 2.0).min(f64::from(u32::MAX)) as u32;
            stage.limit_mailboxes(messages.max(MAILBOX_MESSAGES_MIN));
        }
        advice
    }
}

impl Stage {
    /// Begins, or ceases, to find its number of workers by itself, as its present version says.
    pub fn scale_by_itself(self: &Arc<Self>) {
        let version = self.version();
        let is_provider = version.code.info().kind == PluginKind::Provider;
        let is_for_others = self.is_shared() && !self.is_keyed();
        let rule = version.spec.scale.clone();
        if rule.is_some() && (is_provider || is_for_others) {
            tracing::warn!(stage = %self.address, "the stage does not find its number of workers by itself: it is a provider, or several nodes share its workers");
        }
        let rule = rule.filter(|_| !is_provider && !is_for_others);
        let mut scaler = self.scaler().lock();
        let Some(rule) = rule else {
            if let Some(scaler) = scaler.take() {
                scaler.is_stopped.store(true, Ordering::Relaxed);
            }
            return;
        };
        if let Some(scaler) = &*scaler {
            scaler.set_rule(rule);
            return;
        }
        let new = Arc::new(Scaler::new(rule));
        *scaler = Some(new.clone());
        drop(scaler);
        self.begin_measuring();
        let drive = drive(Arc::downgrade(self), new);
        self.runtime.tokio.spawn(drive);
    }

    async fn follow(self: &Arc<Self>, advice: Advice) -> bool {
        let outcome = match advice {
            Advice::Stay => return false,
            Advice::Resize(workers) => self.scale(workers).await,
            Advice::Rebalance(moves) => {
                let mut outcome = Ok(());
                for moved in moves {
                    let is_done = self.move_bucket(moved.bucket, moved.to).await;
                    outcome = outcome.and(is_done);
                }
                outcome
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(stage = %self.address, %error, "the stage could not change its size");
        }
        true
    }
}

/// Looks at the stage in every period, until it ends or gets another rule.
async fn drive(stage: Weak<Stage>, scaler: Arc<Scaler>) {
    let mut last = Instant::now();
    let mut is_moving = false;
    loop {
        tokio::time::sleep(scaler.period()).await;
        let Some(stage) = stage.upgrade() else {
            return;
        };
        if stage.is_stopping() || scaler.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        if stage.is_paused() {
            // What waits says nothing about how fast it is.
            last = now;
            continue;
        }
        let sample = stage.sample(now - last, now, is_moving);
        last = now;
        stage.send_probes(now);
        let advice = scaler.add(&sample, &stage);
        is_moving = stage.follow(advice).await;
    }
}
