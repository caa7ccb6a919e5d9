//! Decides how many workers a stage has: out of what was measured and the time, without looking at either itself.
//!
//! Late probes tell that a stage is too slow and low speed that it is too idle, as its rule says; how many workers it
//! gets follows from rates. What keeps it calm: it grows at once to what the rates ask for, and shrinks one by one; after each
//! change it waits, and forgets what it saw before; it never shrinks to a size from which the rates would make it grow; a shrink
//! that had to be taken back doubles the wait before the next; and growth that did not help is not repeated.

use std::time::Duration;

use kernel::Timestamp;

use super::periods::Periods;
use super::record::{
    BucketMove, Decisions, ScaleAchieved, ScaleChange, ScaleDecision, ScaleNumbers, ScaleReason,
};
use super::rule::{ScaleBy, ScaleRule};
use super::sample::{Recent, Sample};
use super::shares::{largest_share, moves_away_from};

/// Workers should be busy for this share of their time.
const BUSY_WANTED: f64 = 0.7;
/// A worker that has less to do than this is not overloaded, whatever its probes say.
const BUSY_FULL: f64 = 0.9;
/// Workers that wait for those behind them for a larger share of their time are not the ones who are slow.
const BLOCKED_MAX: f64 = 0.5;
/// Growth that gained less than this share of what was predicted did not help.
const GAIN_MIN: f64 = 0.1;
/// The situation has changed when rates differ by this share.
const CHANGED: f64 = 0.25;

/// What senders who always wait would send is taken for no more than two to this power times what they can.
const STARVED_DOUBLINGS_MAX: u32 = 2;

/// So often in a row buckets move although it did not help.
const USELESS_MOVES_MAX: u32 = 4;

/// How long a stage waits between changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calm {
    /// After a change it does not grow again before this.
    pub grow_after: Duration,
    /// After a change it does not shrink before this; doubled after each flap.
    pub shrink_after: Duration,
    /// The wait before shrinking never becomes longer.
    pub shrink_after_max: Duration,
    /// After a change so many periods are not looked at.
    pub ignored_periods: u32,
    /// A growth so soon after a shrink means that the shrink was a mistake.
    pub flap_within: Duration,
}

impl Default for Calm {
    fn default() -> Self {
        Self {
            grow_after: Duration::from_secs(2),
            shrink_after: Duration::from_secs(10),
            shrink_after_max: Duration::from_secs(640),
            ignored_periods: 2,
            flap_within: Duration::from_secs(30),
        }
    }
}

/// What a stage should do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Nothing.
    Stay,
    /// Have so many workers.
    Resize(u32),
    /// Let buckets have other workers.
    Rebalance(Vec<BucketMove>),
}

/// Decides how many workers a stage has.
pub(crate) struct Controller {
    rule: ScaleRule,
    calm: Calm,
    periods: Periods,
    /// What the last periods were like for buckets, if there are any.
    recent: Recent,
    decisions: Decisions,
    /// So many periods are not looked at.
    ignored: u32,
    last_change: Option<Timestamp>,
    last_shrink: Option<Timestamp>,
    shrink_after: Duration,
    /// A growth or a move of buckets that is not judged yet.
    trial: Option<Trial>,
    /// A growth, or a move of buckets, that did not help.
    no_help: Option<NoHelp>,
    /// Why it did not grow although it is too slow.
    stays: Option<ScaleReason>,
    /// So often it grew since it was last quick enough.
    growths: u32,
    /// So often in a row a move of buckets did not help.
    useless_moves: u32,
}

/// A change that has to show what it was worth.
#[derive(Clone, Debug)]
struct Trial {
    number: u64,
    at: Timestamp,
    change: ScaleChange,
    before_per_second: f64,
    predicted_per_second: f64,
    late_before: f64,
    arrivals: f64,
}

/// The situation in which a change did not help.
#[derive(Clone, Debug)]
struct NoHelp {
    change: ScaleChange,
    arrivals: f64,
    workers: u32,
}

impl Controller {
    pub fn new(rule: ScaleRule) -> Self {
        Self::with(rule, Calm::default())
    }

    pub fn with(rule: ScaleRule, calm: Calm) -> Self {
        Self {
            shrink_after: calm.shrink_after,
            rule,
            calm,
            periods: Periods::default(),
            recent: Recent::default(),
            decisions: Decisions::default(),
            ignored: 0,
            last_change: None,
            last_shrink: None,
            trial: None,
            no_help: None,
            stays: None,
            growths: 0,
            useless_moves: 0,
        }
    }

    /// Another rule holds from now on; what was decided before is still known.
    pub fn set_rule(&mut self, rule: ScaleRule) {
        if self.rule != rule {
            self.rule = rule;
            self.periods = Periods::default();
            self.no_help = None;
            self.stays = None;
        }
    }

    /// What was decided, the oldest first.
    pub fn decisions(&self) -> Vec<ScaleDecision> {
        self.decisions.list()
    }

    /// The numbers as they are now.
    pub fn numbers(&self, sample: &Sample) -> ScaleNumbers {
        let (_, worst) = self.periods.worst_worker(&self.rule);
        ScaleNumbers {
            arrivals_per_second: self.arrivals(),
            done_per_second: self.periods.done_per_second(),
            service_per_second: self.periods.service_per_second().unwrap_or_default(),
            peak_per_second: self.periods.peak_per_second(),
            busy_share: self.periods.busy_share(),
            depth: sample.depth,
            probes_ms: self.periods.probes_ms(),
            late_share: worst.max(self.periods.entrance_share(&self.rule)),
            upstream_ms: self.periods.upstream_seconds(sample) * 1e3,
        }
    }

    /// Messages that one worker finishes in a second of work; none if it has never worked.
    pub fn service_per_second(&self) -> Option<f64> {
        self.periods.service_per_second()
    }

    /// Takes in one period and says what to do.
    pub fn step(&mut self, sample: &Sample, now: Timestamp) -> Advice {
        if sample.is_moving {
            self.ignored = self.calm.ignored_periods;
            self.periods.skip(sample);
            return Advice::Stay;
        }
        if self.ignored > 0 {
            self.ignored -= 1;
            self.periods.skip(sample);
            return Advice::Stay;
        }
        self.periods.add(&self.rule, sample);
        if !sample.buckets.is_empty() {
            self.recent.add(sample, self.rule.overload_periods as usize);
        }
        self.judge(sample, now);
        let advice = self.decide(sample, now);
        if advice == Advice::Stay {
            self.relax(now);
        }
        advice
    }

    fn decide(&mut self, sample: &Sample, now: Timestamp) -> Advice {
        let count = sample.count();
        if count < self.rule.min {
            return self.grow(self.rule.min, ScaleReason::LateProbes, sample, now);
        }
        if count > self.rule.max {
            return self.shrink(self.rule.max, sample, now);
        }
        match self.overload() {
            Some(overload) => self.relieve(&overload, sample, now),
            None => {
                self.stays = None;
                if self.trial.is_none() && !self.periods.saw_late() {
                    self.growths = 0;
                }
                self.shrink_if_low(sample, now)
            }
        }
    }

    /// Whether the stage is too slow, why, and which worker shows it.
    fn overload(&self) -> Option<Overload> {
        let (worker, late) = self.periods.worst_worker(&self.rule);
        if late > self.rule.overload_share {
            return Some(Overload {
                reason: ScaleReason::LateProbes,
                worker: Some(worker),
            });
        }
        let entrance = self.periods.entrance_share(&self.rule);
        (entrance > self.rule.overload_share).then_some(Overload {
            reason: match self.rule.by {
                ScaleBy::Latency => ScaleReason::WaitingUpstream,
                ScaleBy::QueueLength => ScaleReason::LongQueue,
            },
            worker: None,
        })
    }

    /// The stage is too slow: buckets move if one worker has too much while others have time, otherwise it grows.
    fn relieve(&mut self, overload: &Overload, sample: &Sample, now: Timestamp) -> Advice {
        if self.is_within(now, self.last_change, self.calm.grow_after) || self.trial.is_some() {
            return Advice::Stay;
        }
        let count = sample.count();
        let wanted = self.wanted();
        let is_enough = wanted.is_some_and(|wanted| wanted <= count);
        if !sample.buckets.is_empty() && count > 1 {
            let together = self.recent.together();
            let worker = overload.worker.unwrap_or_else(|| busiest(&together));
            if is_uneven(worker, &together) {
                let moves = moves_away_from(worker, &together);
                if !moves.is_empty() && !self.is_no_help(ScaleChange::Rebalance, sample) {
                    return self.rebalance(moves, sample, now);
                }
                if is_enough || largest_share(worker, &together) > BUSY_WANTED {
                    return self.stay(ScaleReason::HotBucket, sample, now);
                }
            }
        }
        if is_enough && self.periods.blocked_share() > BLOCKED_MAX {
            return self.stay(ScaleReason::BlockedDownstream, sample, now);
        }
        if count >= self.rule.max {
            return self.stay(ScaleReason::AtMaximum, sample, now);
        }
        if self.is_no_help(ScaleChange::Grow, sample) {
            return self.stay(ScaleReason::GrowthDoesNotHelp, sample, now);
        }
        let to = wanted.unwrap_or_default().max(count + 1);
        self.grow(to.min(self.rule.max), overload.reason, sample, now)
    }

    /// How many workers the rates ask for.
    fn wanted(&self) -> Option<u32> {
        self.wanted_for(self.arrivals())
    }

    fn wanted_for(&self, arrivals: f64) -> Option<u32> {
        let service = self.periods.service_per_second()?;
        let wanted = arrivals / (BUSY_WANTED * service);
        // A hundredth of a worker is no reason for a whole one.
        Some((wanted - 0.01).ceil().clamp(1.0, f64::from(self.rule.max)) as u32)
    }

    /// What comes in a second. How much more than they can those would send who always wait is not known: at
    /// first it is taken for no more, and for twice as much with each growth that was not enough.
    fn arrivals(&self) -> f64 {
        let factor = f64::from(1_u32 << self.growths.min(STARVED_DOUBLINGS_MAX));
        self.periods.arrivals_per_second(factor)
    }

    fn grow(&mut self, to: u32, reason: ScaleReason, sample: &Sample, now: Timestamp) -> Advice {
        if self.is_within(now, self.last_shrink, self.calm.flap_within) {
            let doubled = self.shrink_after * 2;
            self.shrink_after = doubled.min(self.calm.shrink_after_max);
            self.last_shrink = None;
        }
        let service = self.periods.service_per_second();
        let most = f64::from(1_u32 << STARVED_DOUBLINGS_MAX);
        let arrivals = self.periods.arrivals_per_second(most);
        let predicted = service.map_or(arrivals, |service| arrivals.min(service * f64::from(to)));
        let change = Change {
            change: ScaleChange::Grow,
            reason,
            to,
            moves: Vec::new(),
            predicted,
        };
        self.changed(change, sample, now);
        self.growths += 1;
        Advice::Resize(to)
    }

    fn rebalance(&mut self, moves: Vec<BucketMove>, sample: &Sample, now: Timestamp) -> Advice {
        let change = Change {
            change: ScaleChange::Rebalance,
            reason: ScaleReason::UnevenShares,
            to: sample.count(),
            moves: moves.clone(),
            predicted: self.arrivals(),
        };
        self.changed(change, sample, now);
        Advice::Rebalance(moves)
    }

    fn shrink_if_low(&mut self, sample: &Sample, now: Timestamp) -> Advice {
        let count = sample.count();
        if count <= self.rule.min
            || self.periods.low_share(&self.rule) <= self.rule.underload_share
            || self.periods.saw_late()
            || self.drains(sample)
            || self.is_within(now, self.last_change, self.shrink_after)
        {
            return Advice::Stay;
        }
        // From one worker less the rates must not ask for this one again, not even the highest of late.
        let most = self.periods.arrivals_of_late();
        if self.wanted_for(most).is_some_and(|wanted| wanted >= count) {
            return Advice::Stay;
        }
        self.shrink(count - 1, sample, now)
    }

    fn shrink(&mut self, to: u32, sample: &Sample, now: Timestamp) -> Advice {
        let change = Change {
            change: ScaleChange::Shrink,
            reason: ScaleReason::LowLoad,
            to,
            moves: Vec::new(),
            predicted: self.arrivals(),
        };
        self.changed(change, sample, now);
        self.last_shrink = Some(now);
        Advice::Resize(to)
    }

    /// Whether more waits than is worked off within the latency that the stage may have.
    fn drains(&self, sample: &Sample) -> bool {
        let most = self.rule.latency_ms_max as f64 / 1_000.0;
        self.periods.upstream_seconds(sample) > most
    }

    /// It is too slow and stays as it is; that is worth an entry when it begins.
    fn stay(&mut self, reason: ScaleReason, sample: &Sample, now: Timestamp) -> Advice {
        if self.stays != Some(reason) {
            self.stays = Some(reason);
            let change = Change {
                change: ScaleChange::Stay,
                reason,
                to: sample.count(),
                moves: Vec::new(),
                predicted: self.periods.done_per_second(),
            };
            self.record(change, sample, now);
        }
        Advice::Stay
    }

    fn record(&mut self, change: Change, sample: &Sample, now: Timestamp) -> u64 {
        let measured = self.numbers(sample);
        self.decisions.push(ScaleDecision {
            number: 0,
            at_ms: now.as_millis(),
            change: change.change,
            reason: change.reason,
            workers_before: sample.count(),
            workers_after: change.to,
            buckets: change.moves,
            measured,
            predicted_per_second: change.predicted,
            achieved: None,
            text: String::new(),
        })
    }

    /// Remembers a change, and that it has to show what it was worth.
    fn changed(&mut self, change: Change, sample: &Sample, now: Timestamp) {
        let trial = Trial {
            number: 0,
            at: now,
            change: change.change,
            before_per_second: self.periods.done_per_second(),
            predicted_per_second: change.predicted,
            late_before: self.numbers(sample).late_share,
            arrivals: self.arrivals(),
        };
        let number = self.record(change, sample, now);
        self.trial = Some(Trial { number, ..trial });
        self.last_change = Some(now);
        self.stays = None;
        self.ignored = self.calm.ignored_periods;
        self.periods.forget_evidence();
        self.recent = Recent::default();
    }

    /// Looks at what the last change was worth, once enough was measured.
    fn judge(&mut self, sample: &Sample, now: Timestamp) {
        let window = u64::from(self.rule.overload_periods) * self.rule.probe_period_ms;
        let enough = self.calm.grow_after.max(Duration::from_millis(window));
        let Some(trial) = self.trial.take_if(|trial| now.since(trial.at) >= enough) else {
            return;
        };
        let (done, late) = (
            self.periods.done_per_second(),
            self.numbers(sample).late_share,
        );
        let predicted = trial.predicted_per_second - trial.before_per_second;
        let gained = done - trial.before_per_second;
        // Where no more was to be done, the latency tells.
        let by_rate = predicted > trial.before_per_second * 0.05;
        let helped = late <= self.rule.overload_share
            || match by_rate {
                true => gained >= GAIN_MIN * predicted,
                false => trial.late_before - late >= GAIN_MIN * trial.late_before,
            };
        let achieved = ScaleAchieved {
            after_ms: now.since(trial.at).as_millis() as u64,
            done_per_second: done,
            late_share: late,
            helped,
        };
        self.decisions.note_achieved(trial.number, achieved);
        self.useless_moves = match trial.change {
            ScaleChange::Rebalance if !helped => self.useless_moves + 1,
            _ => 0,
        };
        // What waited behind a hot bucket is still there right after it moved.
        let may_try_again = (1..USELESS_MOVES_MAX).contains(&self.useless_moves);
        if trial.change != ScaleChange::Shrink {
            self.no_help = (!helped && !may_try_again).then(|| NoHelp {
                change: trial.change,
                arrivals: trial.arrivals.max(self.arrivals()),
                workers: sample.count(),
            });
        }
    }

    /// Whether this did not help, and nothing has changed since.
    fn is_no_help(&mut self, change: ScaleChange, sample: &Sample) -> bool {
        let arrivals = self.arrivals();
        let holds = |no_help: &NoHelp| {
            let differs = (arrivals - no_help.arrivals).abs() > CHANGED * no_help.arrivals;
            no_help.workers == sample.count() && !differs
        };
        if !self.no_help.as_ref().is_some_and(holds) {
            self.no_help = None;
        }
        self.no_help.as_ref().is_some_and(|n| n.change == change)
    }

    /// After long without a change the wait before shrinking becomes what it was.
    fn relax(&mut self, now: Timestamp) {
        let calm_for = self.shrink_after * 10;
        if self.shrink_after > self.calm.shrink_after
            && !self.is_within(now, self.last_change, calm_for)
        {
            self.shrink_after = self.calm.shrink_after;
        }
    }

    fn is_within(&self, now: Timestamp, since: Option<Timestamp>, wait: Duration) -> bool {
        since.is_some_and(|since| now.since(since) < wait)
    }
}

struct Overload {
    reason: ScaleReason,
    worker: Option<u32>,
}

struct Change {
    change: ScaleChange,
    reason: ScaleReason,
    to: u32,
    moves: Vec<BucketMove>,
    predicted: f64,
}

fn busiest(sample: &Sample) -> u32 {
    let busy = (0..).zip(&sample.workers).map(|(n, w)| (n, w.busy));
    let busiest = busy.max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
    busiest.map_or(0, |(number, _)| number)
}

/// Whether this worker works all the time while the others together have as much time left as they should.
fn is_uneven(worker: u32, sample: &Sample) -> bool {
    let took = sample.took.as_secs_f64().max(1e-6);
    let busy = |busy: Duration| busy.as_secs_f64() / took;
    let own = sample.workers.get(worker as usize);
    let own = own.map_or(0.0, |own| busy(own.busy));
    let average = busy(sample.busy()) / f64::from(sample.count().max(1));
    own > BUSY_FULL && average < BUSY_WANTED
}
