//! The last probe periods of a stage, and what follows from them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::rule::{ScaleBy, ScaleRule};
use super::sample::Sample;

/// Over how many periods rates are averaged.
const RATE_PERIODS: usize = 5;
/// The wait in front of a stage is remembered up to so many times the latency that it may have, so that it is
/// forgotten in time when the load is gone.
const UPSTREAM_LATENCIES_MAX: f64 = 10.0;
/// How fast the service rate follows what was measured.
const SERVICE_FOLLOWS: f64 = 0.3;

/// The last periods of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Periods {
    /// Whether the probe of each worker was late, the latest last.
    workers: HashMap<u32, VecDeque<bool>>,
    /// Whether messages waited too long in front of the stage, or too many.
    entrance: VecDeque<bool>,
    /// Whether the load was so low that one worker less would do.
    low: VecDeque<bool>,
    rates: VecDeque<Rate>,
    /// What came in a second, as it looked in each period.
    arrivals: VecDeque<f64>,
    slowest: VecDeque<Duration>,
    /// How long a message waits in front of the stage, in seconds.
    upstream: f64,
    depth: Option<u64>,
    service: Option<f64>,
    peak: f64,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    seconds: f64,
    done: f64,
    arrived: f64,
    busy: f64,
    blocked: f64,
    starved: f64,
    worker_seconds: f64,
}

impl Periods {
    /// Takes in one period.
    pub fn add(&mut self, rule: &ScaleRule, sample: &Sample) {
        self.add_rates(sample);
        self.add_upstream(rule, sample);
        self.add_probes(rule, sample);
        self.add_low(rule, sample);
        self.depth = Some(sample.depth);
    }

    /// Notes the depth only: what was measured while workers came or went says nothing.
    pub fn skip(&mut self, sample: &Sample) {
        self.depth = Some(sample.depth);
    }

    /// After a change the evidence for it no longer counts.
    pub fn forget_evidence(&mut self) {
        self.workers.clear();
        self.entrance.clear();
        self.low.clear();
        self.rates.clear();
    }

    fn add_rates(&mut self, sample: &Sample) {
        let done = sample.done() as f64;
        let before = self.depth.unwrap_or(sample.depth);
        let arrived = (done + sample.depth as f64 - before as f64).max(0.0);
        let seconds = sample.took.as_secs_f64().max(1e-6);
        let busy = sample.busy().as_secs_f64();
        let rate = Rate {
            seconds,
            done,
            arrived,
            busy,
            blocked: sample.blocked().as_secs_f64(),
            starved: sample.starved.as_secs_f64().min(seconds),
            worker_seconds: seconds * f64::from(sample.count().max(1)),
        };
        push(&mut self.rates, rate, RATE_PERIODS);
        if done >= 1.0 && busy > 0.0 {
            let measured = done / busy;
            self.service = Some(match self.service {
                Some(known) => known + SERVICE_FOLLOWS * (measured - known),
                None => measured,
            });
        }
        if self.rates.len() == RATE_PERIODS {
            let per_worker = self.done_per_second() / f64::from(sample.count().max(1));
            self.peak = self.peak.max(per_worker);
        }
    }

    /// Time starved of room adds up as long as it is most of the time, and goes when it is not.
    fn add_upstream(&mut self, rule: &ScaleRule, sample: &Sample) {
        let (took, starved) = (sample.took.as_secs_f64(), sample.starved.as_secs_f64());
        if starved * 2.0 >= took && took > 0.0 {
            self.upstream += starved;
        } else {
            self.upstream = (self.upstream - (took - starved)).max(0.0);
        }
        let most = rule.latency_ms_max as f64 / 1_000.0 * UPSTREAM_LATENCIES_MAX;
        self.upstream = self.upstream.min(most);
    }

    fn add_probes(&mut self, rule: &ScaleRule, sample: &Sample) {
        let kept = rule.overload_periods as usize;
        let latency = Duration::from_millis(rule.latency_ms_max);
        push(&mut self.slowest, sample.slowest_probe(), kept);
        let by_latency = rule.by == ScaleBy::Latency;
        for (number, worker) in (0..).zip(&sample.workers) {
            let is_late = by_latency && worker.probe.delay() > latency;
            push(self.workers.entry(number).or_default(), is_late, kept);
        }
        let count = sample.count();
        self.workers.retain(|number, _| *number < count);
        let is_late = match rule.by {
            ScaleBy::Latency => self.upstream_seconds(sample) > latency.as_secs_f64(),
            ScaleBy::QueueLength => {
                sample.depth > rule.queue_messages_max * u64::from(count.max(1))
            }
        };
        push(&mut self.entrance, is_late, kept);
    }

    /// A period is low if one worker less could have done the same.
    fn add_low(&mut self, rule: &ScaleRule, sample: &Sample) {
        let others = f64::from(sample.count().saturating_sub(1));
        let rate = sample.done() as f64 / sample.took.as_secs_f64().max(1e-6);
        let is_idle = sample.done() == 0;
        let is_low = others > 0.0 && (is_idle || rate < rule.low_watermark * self.peak * others);
        push(&mut self.low, is_low, rule.underload_periods as usize);
        let arrivals = self.arrivals_per_second(1.0);
        push(
            &mut self.arrivals,
            arrivals,
            rule.underload_periods as usize,
        );
    }

    /// How long a message waits in front of the workers: for room, or in a queue that takes so long to work off.
    pub fn upstream_seconds(&self, sample: &Sample) -> f64 {
        let service = self.service_per_second();
        let together = service.map_or(0.0, |service| service * f64::from(sample.count()));
        let queued = match together > 0.0 {
            true => sample.depth as f64 / together,
            // Nothing was ever done: then the probes tell.
            false => 0.0,
        };
        self.upstream.max(queued)
    }

    fn sum(&self, part: impl Fn(&Rate) -> f64) -> f64 {
        self.rates.iter().map(part).sum()
    }

    fn seconds(&self) -> f64 {
        self.sum(|rate| rate.seconds).max(1e-6)
    }

    /// Messages finished in a second.
    pub fn done_per_second(&self) -> f64 {
        self.sum(|rate| rate.done) / self.seconds()
    }

    /// Messages that came in a second. Senders who had to wait would have sent more: as much more as they waited, but
    /// no more than `starved_factor_max` times what they could send.
    pub fn arrivals_per_second(&self, starved_factor_max: f64) -> f64 {
        let admitted = self.sum(|rate| rate.arrived) / self.seconds();
        let free = 1.0 - self.sum(|rate| rate.starved) / self.seconds();
        admitted / free.max(1.0 / starved_factor_max)
    }

    /// The most that came in a second within the time over which a low load is judged.
    pub fn arrivals_of_late(&self) -> f64 {
        self.arrivals.iter().copied().fold(0.0, f64::max)
    }

    /// Messages that one worker finishes in a second of work; none if it has never worked.
    pub fn service_per_second(&self) -> Option<f64> {
        self.service.filter(|service| *service > 0.0)
    }

    pub fn peak_per_second(&self) -> f64 {
        self.peak
    }

    /// The share of their time that workers worked.
    pub fn busy_share(&self) -> f64 {
        self.sum(|rate| rate.busy) / self.sum(|rate| rate.worker_seconds).max(1e-6)
    }

    /// The share of their time that workers waited for those behind them.
    pub fn blocked_share(&self) -> f64 {
        self.sum(|rate| rate.blocked) / self.sum(|rate| rate.worker_seconds).max(1e-6)
    }

    /// The share of late probes of the worker that had most of them, and which one.
    pub fn worst_worker(&self, rule: &ScaleRule) -> (u32, f64) {
        let shares = self
            .workers
            .iter()
            .map(|(number, late)| (*number, share(late, rule.overload_periods)));
        let worst = shares.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        worst.unwrap_or((0, 0.0))
    }

    /// The share of periods in which messages waited too long, or too many, in front of the stage.
    pub fn entrance_share(&self, rule: &ScaleRule) -> f64 {
        share(&self.entrance, rule.overload_periods)
    }

    /// Whether any probe was late, or the entrance, within the window.
    pub fn saw_late(&self) -> bool {
        let is_late = |late: &VecDeque<bool>| late.iter().any(|late| *late);
        is_late(&self.entrance) || self.workers.values().any(is_late)
    }

    /// The share of low periods.
    pub fn low_share(&self, rule: &ScaleRule) -> f64 {
        share(&self.low, rule.underload_periods)
    }

    /// The slowest probe of each period in milliseconds, the oldest first.
    pub fn probes_ms(&self) -> Vec<f64> {
        let slowest = self.slowest.iter();
        slowest.map(|delay| delay.as_secs_f64() * 1e3).collect()
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, kept: usize) {
    while list.len() >= kept.max(1) {
        list.pop_front();
    }
    list.push_back(item);
}

/// The share of a whole window; what was not measured yet counts as good.
fn share(marks: &VecDeque<bool>, periods: u32) -> f64 {
    let marked = marks.iter().filter(|mark| **mark).count();
    marked as f64 / f64::from(periods.max(1))
}
