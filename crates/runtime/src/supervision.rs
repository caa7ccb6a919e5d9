//! What happens when a worker fails, or a stage of a flow: a state machine that only decides.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use kernel::Timestamp;
use kernel::worker::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many failing workers have their own back-off; beyond that the one that failed longest ago
/// starts anew.
const FAILING_WORKERS_MAX: usize = 1_024;

/// How many restarts are remembered, whatever the rule says.
const RESTARTS_REMEMBERED_MAX: usize = 100_000;

/// What happens when a worker fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SupervisionRule {
    /// Who is affected besides the one that failed.
    pub strategy: Strategy,
    /// What happens to them.
    pub on_failure: OnFailure,
    /// How often a message may fail before it goes to the dead letters.
    pub tries_max: u32,
    /// How many restarts there may be within [`SupervisionRule::within_ms`]; one more escalates.
    pub restarts_max: u32,
    /// The time in which restarts are counted.
    pub within_ms: u64,
    /// How long to wait before the first restart. It doubles with each failure in a row.
    pub backoff_ms_min: u64,
    /// How long to wait at most.
    pub backoff_ms_max: u64,
}

impl Default for SupervisionRule {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            on_failure: OnFailure::default(),
            tries_max: 3,
            restarts_max: 20,
            within_ms: 10_000,
            backoff_ms_min: 10,
            backoff_ms_max: 5_000,
        }
    }
}

/// Who is affected by a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Only the one that failed.
    #[default]
    OneForOne,
    /// All of them.
    OneForAll,
    /// The one that failed and all with higher numbers.
    RestForOne,
}

/// What happens to those affected by a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// They start anew, with their committed state.
    #[default]
    Restart,
    /// The worker goes on as if nothing had happened, if it said itself that it failed. If its
    /// instance broke, it is restarted.
    Resume,
    /// They end.
    Stop,
    /// Whoever stands above decides.
    Escalate,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on with the same instance.
    Resume,
    /// Start these anew.
    Restart {
        /// Which.
        workers: Affected,
        /// After how long.
        after: Duration,
    },
    /// End these.
    Stop {
        /// Which.
        workers: Affected,
    },
    /// Let whoever stands above decide.
    Escalate {
        /// Why, for people.
        reason: String,
    },
}

/// The workers that a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// This one.
    One(u32),
    /// All.
    All,
    /// This one and all with higher numbers.
    From(u32),
}

impl Affected {
    /// Their numbers, if there are that many workers in all.
    pub fn among(self, workers: u32) -> Range<u32> {
        match self {
            Self::One(worker) => worker.min(workers)..worker.saturating_add(1).min(workers),
            Self::All => 0..workers,
            Self::From(worker) => worker.min(workers)..workers,
        }
    }
}

/// Decides what happens after failures, and remembers what it needs for that. It serves the workers
/// of a stage, and just as well the stages of a flow.
#[derive(Clone, Debug)]
pub struct Supervisor {
    rule: SupervisionRule,
    restarts: VecDeque<Timestamp>,
    failing: HashMap<u32, Failing>,
}

/// A worker that has failed and not succeeded since.
#[derive(Clone, Copy, Debug)]
struct Failing {
    in_a_row: u32,
    last: Timestamp,
}

impl Supervisor {
    /// Nothing has failed yet.
    pub fn new(rule: SupervisionRule) -> Self {
        Self {
            rule,
            restarts: VecDeque::new(),
            failing: HashMap::new(),
        }
    }

    /// One of so many workers has failed.
    pub fn failed(
        &mut self,
        worker: u32,
        workers: u32,
        failure: &Failure,
        now: Timestamp,
    ) -> Decision {
        // The worker is not to blame for the host, so its rule does not apply.
        if failure.kind == FailureKind::Host {
            return self.restart(worker, workers, now);
        }
        match self.rule.on_failure {
            OnFailure::Resume if failure.leaves_instance_sound() => Decision::Resume,
            OnFailure::Resume | OnFailure::Restart => match self.spend(now) {
                true => self.restart(worker, workers, now),
                false => self.give_up(worker, failure),
            },
            OnFailure::Stop => Decision::Stop {
                workers: self.affected(worker, workers),
            },
            OnFailure::Escalate => Decision::Escalate {
                reason: format!("number {worker} failed: {failure}"),
            },
        }
    }

    /// A worker has finished a turn: its next failure is the first in a row. Cheap enough to be
    /// called after every turn.
    #[inline]
    pub fn succeeded(&mut self, worker: u32) {
        if !self.failing.is_empty() {
            self.failing.remove(&worker);
        }
    }

    /// Counts a restart, if there is one left.
    fn spend(&mut self, now: Timestamp) -> bool {
        let within = Duration::from_millis(self.rule.within_ms);
        // A time that is yet to come was noted before the clock was set back.
        self.restarts
            .retain(|at| *at <= now && now.since(*at) < within);
        let restarts_max = (self.rule.restarts_max as usize).min(RESTARTS_REMEMBERED_MAX);
        let is_left = self.restarts.len() < restarts_max;
        if is_left {
            self.restarts.push_back(now);
        }
        is_left
    }

    fn restart(&mut self, worker: u32, workers: u32, now: Timestamp) -> Decision {
        Decision::Restart {
            workers: self.affected(worker, workers),
            after: self.back_off(worker, now),
        }
    }

    fn give_up(&self, worker: u32, failure: &Failure) -> Decision {
        Decision::Escalate {
            reason: format!(
                "number {worker} failed, and {} restarts within {} ms are used up: {failure}",
                self.rule.restarts_max, self.rule.within_ms
            ),
        }
    }

    /// The strategy in the smallest form that means the same.
    fn affected(&self, worker: u32, workers: u32) -> Affected {
        match self.rule.strategy {
            _ if workers <= 1 => Affected::One(worker),
            Strategy::OneForOne => Affected::One(worker),
            Strategy::OneForAll => Affected::All,
            Strategy::RestForOne if worker >= workers - 1 => Affected::One(worker),
            Strategy::RestForOne => Affected::From(worker),
        }
    }

    /// How long this worker has to wait after one more failure.
    fn back_off(&mut self, worker: u32, now: Timestamp) -> Duration {
        if self.failing.len() >= FAILING_WORKERS_MAX && !self.failing.contains_key(&worker) {
            self.forget_oldest();
        }
        let failing = self.failing.entry(worker).or_insert(Failing {
            in_a_row: 0,
            last: now,
        });
        let doublings = failing.in_a_row.min(63);
        failing.in_a_row += 1;
        failing.last = now;
        let wait_ms = self.rule.backoff_ms_min.saturating_mul(1 << doublings);
        Duration::from_millis(wait_ms.min(self.rule.backoff_ms_max))
    }

    fn forget_oldest(&mut self) {
        let oldest = self.failing.iter().min_by_key(|(_, failing)| failing.last);
        if let Some(oldest) = oldest.map(|(worker, _)| *worker) {
            self.failing.remove(&oldest);
        }
    }
}

#[cfg(test)]
#[path = "supervision_tests.rs"]
mod tests;
