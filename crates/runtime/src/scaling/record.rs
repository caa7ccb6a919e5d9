//! What a stage decided about its size, with the numbers that caused it, so that it can be explained.

use std::collections::VecDeque;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many decisions a stage remembers.
pub(crate) const DECISIONS_MAX: usize = 200;

/// A decision of a stage about its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleDecision {
    /// Its number, from one.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What was decided.
    pub change: ScaleChange,
    /// Why.
    pub reason: ScaleReason,
    /// How many workers there were.
    pub workers_before: u32,
    /// How many there were to be.
    pub workers_after: u32,
    /// Which buckets were to move, if any.
    pub buckets: Vec<BucketMove>,
    /// What was measured.
    pub measured: ScaleNumbers,
    /// How many messages a second the stage was to do afterwards.
    pub predicted_per_second: f64,
    /// What came of it, once that is known.
    pub achieved: Option<ScaleAchieved>,
    /// All of it in plain words.
    pub text: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleChange {
    /// More workers.
    Grow,
    /// One worker less.
    Shrink,
    /// As many workers; buckets move from one that has too much.
    Rebalance,
    /// It would have grown, but did not.
    Stay,
}

/// Why something was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleReason {
    /// Probes waited too long in mailboxes.
    LateProbes,
    /// Senders, or the queue on the bus, waited too long in front of the stage.
    WaitingUpstream,
    /// Too many messages waited.
    LongQueue,
    /// One worker had too much while others had room.
    UnevenShares,
    /// Fewer workers can do the same.
    LowLoad,
    /// It has as many workers as it may have.
    AtMaximum,
    /// The last growth gained less than a tenth of what was predicted.
    GrowthDoesNotHelp,
    /// One bucket alone is too much for a worker.
    HotBucket,
    /// The workers wait for those that they send to.
    BlockedDownstream,
}

/// A bucket that is to have another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BucketMove {
    /// The bucket.
    pub bucket: u32,
    /// The worker that has it.
    pub from: u32,
    /// The worker that gets it.
    pub to: u32,
}

/// What was measured when something was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleNumbers {
    /// Messages that came in a second, with those that senders could not get rid of.
    pub arrivals_per_second: f64,
    /// Messages that were finished in a second.
    pub done_per_second: f64,
    /// Messages that one worker finishes in a second of work.
    pub service_per_second: f64,
    /// The best rate seen for each worker.
    pub peak_per_second: f64,
    /// The share of their time that workers worked.
    pub busy_share: f64,
    /// Messages that waited.
    pub depth: u64,
    /// The slowest probe of each period, the oldest first.
    pub probes_ms: Vec<f64>,
    /// The largest share of late probes that a worker, or the entrance, had within these periods.
    pub late_share: f64,
    /// How long a message waited in front of the stage.
    pub upstream_ms: f64,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleAchieved {
    /// After how long it was looked at.
    pub after_ms: u64,
    /// Messages that were finished in a second.
    pub done_per_second: f64,
    /// The share of late probes.
    pub late_share: f64,
    /// Whether that was at least a tenth of what was predicted.
    pub helped: bool,
}

impl ScaleDecision {
    /// The decision in plain words.
    pub fn explain(&self) -> String {
        let mut text = self.what();
        let numbers = &self.measured;
        let _ = write!(text, " because {}. ", self.why());
        let _ = write!(
            text,
            "About {:.0} messages/s came and {:.0}/s were done; one worker does {:.0}/s while it works, and workers worked {:.0} % of the time. {} messages waited; the slowest probe of the last period took {:.0} ms, {:.0} % were late, and messages waited {:.0} ms in front of the stage.",
            numbers.arrivals_per_second,
            numbers.done_per_second,
            numbers.service_per_second,
            numbers.busy_share * 100.0,
            numbers.depth,
            numbers.probes_ms.last().copied().unwrap_or_default(),
            numbers.late_share * 100.0,
            numbers.upstream_ms,
        );
        if self.change != ScaleChange::Stay {
            let _ = write!(
                text,
                " Predicted: {:.0} messages/s.",
                self.predicted_per_second
            );
        }
        if let Some(achieved) = &self.achieved {
            let _ = write!(
                text,
                " After {:.1} s: {:.0} messages/s, {:.0} % of the probes late{}.",
                achieved.after_ms as f64 / 1_000.0,
                achieved.done_per_second,
                achieved.late_share * 100.0,
                if achieved.helped {
                    ""
                } else {
                    "; it did not help"
                },
            );
        }
        text
    }

    fn what(&self) -> String {
        let (before, after) = (self.workers_before, self.workers_after);
        match self.change {
            ScaleChange::Grow => format!("It grew from {before} to {after} workers"),
            ScaleChange::Shrink => format!("It shrank from {before} to {after} workers"),
            ScaleChange::Stay => format!("It stayed at {before} workers"),
            ScaleChange::Rebalance => {
                let moves = self.buckets.iter().map(|moved| {
                    format!(
                        "bucket {} from worker {} to worker {}",
                        moved.bucket, moved.from, moved.to
                    )
                });
                format!("It moved {}", moves.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn why(&self) -> &'static str {
        match self.reason {
            ScaleReason::LateProbes => "probes waited too long behind the messages",
            ScaleReason::WaitingUpstream => "messages waited too long for room in front of it",
            ScaleReason::LongQueue => "more messages waited for each worker than the rule allows",
            ScaleReason::UnevenShares => "one worker had too much while others had time",
            ScaleReason::LowLoad => "one worker less can do the same",
            ScaleReason::AtMaximum => "it is too slow, but has as many workers as its rule allows",
            ScaleReason::GrowthDoesNotHelp => {
                "it is too slow, but the last growth gained less than a tenth of what was predicted, so more workers would not help"
            }
            ScaleReason::HotBucket => {
                "one bucket alone is too much for a worker, and a bucket cannot be divided"
            }
            ScaleReason::BlockedDownstream => {
                "it is slow only because its workers wait for the stages that they send to"
            }
        }
    }
}

/// The latest decisions of a stage; older ones are forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions {
    entries: VecDeque<ScaleDecision>,
    next: u64,
}

impl Decisions {
    /// Remembers one more and numbers it.
    pub fn push(&mut self, mut decision: ScaleDecision) -> u64 {
        self.next += 1;
        decision.number = self.next;
        if self.entries.len() == DECISIONS_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(decision);
        self.next
    }

    /// Says what came of one that is still remembered.
    pub fn note_achieved(&mut self, number: u64, achieved: ScaleAchieved) {
        let found = self.entries.iter_mut().rev().find(|d| d.number == number);
        if let Some(decision) = found {
            decision.achieved = Some(achieved);
        }
    }

    /// All, the oldest first.
    pub fn list(&self) -> Vec<ScaleDecision> {
        let told = |decision: &ScaleDecision| ScaleDecision {
            text: decision.explain(),
            ..decision.clone()
        };
        self.entries.iter().map(told).collect()
    }
}
