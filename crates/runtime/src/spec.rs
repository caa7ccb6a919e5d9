//! What a stage is to be: everything that a deployment says, before anything runs.

use std::collections::BTreeMap;

use kernel::worker::{InstanceLimits, TurnLimits};
use kernel::{Address, Grant, StageAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::key::KeyRule;
use crate::router::RouterKind;
use crate::scaling::ScaleRule;
use crate::supervision::SupervisionRule;

/// How many workers a stage may have.
pub const WORKERS_MAX: u32 = 1 << 21;

/// What a stage is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its flow and name.
    pub address: StageAddress,
    /// How many workers it has.
    #[serde(default = "one")]
    pub workers: u32,
    /// How messages find their workers.
    #[serde(default)]
    pub kind: StageKind,
    /// What its messages and its state are worth.
    #[serde(default)]
    pub delivery: Delivery,
    /// Where its named outputs lead; one may lead to several places.
    #[serde(default)]
    pub outputs: BTreeMap<String, Vec<Address>>,
    /// What every worker gets at its start.
    #[serde(default)]
    pub args: String,
    /// What its workers may do beyond their flow.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// What happens when a worker fails.
    #[serde(default)]
    pub supervision: SupervisionRule,
    /// What one instance may use up.
    #[serde(default)]
    pub instance_limits: InstanceLimits,
    /// What one commit may hold.
    #[serde(default)]
    pub turn_limits: TurnLimits,
    /// How messages are taken in.
    #[serde(default)]
    pub intake: Intake,
    /// How a new version proves itself.
    #[serde(default)]
    pub hand_over: HandOverRule,
    /// How the stage finds its number of workers by itself; without a rule it has as many as it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleRule>,
}

fn one() -> u32 {
    1
}

impl StageSpec {
    /// A pool of one worker with all else as usual.
    pub fn new(address: StageAddress) -> Self {
        Self {
            address,
            workers: 1,
            kind: StageKind::default(),
            delivery: Delivery::default(),
            outputs: BTreeMap::new(),
            args: String::new(),
            grants: Vec::new(),
            supervision: SupervisionRule::default(),
            instance_limits: InstanceLimits::default(),
            turn_limits: TurnLimits::default(),
            intake: Intake::default(),
            hand_over: HandOverRule::default(),
            scale: None,
        }
    }

    /// The same stage with that many workers.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// The same stage of this kind.
    #[must_use]
    pub fn kind(mut self, kind: StageKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same stage with this delivery.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// The same stage with an output that leads there too.
    #[must_use]
    pub fn output(mut self, name: &str, to: impl Into<Address>) -> Self {
        self.outputs
            .entry(name.to_owned())
            .or_default()
            .push(to.into());
        self
    }
}

/// How messages find the workers of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    /// Workers take from one queue, and the router chooses one among those that have room.
    Pool(RouterKind),
    /// One owner takes from the queue and sends a copy to the queue of each chosen worker.
    Routed(RouterKind),
    /// A key decides on one of 128 buckets, and each bucket belongs to one worker.
    Keyed(KeyRule),
}

impl Default for StageKind {
    fn default() -> Self {
        Self::Pool(RouterKind::RoundRobin)
    }
}

/// What messages and state of a stage are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Messages and state are on disk: each message changes the state once, whatever happens.
    #[default]
    Durable,
    /// Messages and state are in memory: fast, and gone when the process ends.
    Memory,
}

/// How a stage takes messages in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Intake {
    /// How many messages one worker may have waiting or in hand.
    pub mailbox_messages_max: u32,
    /// In a cycle of stages, how many messages from within the cycle may wait for one worker. Messages from
    /// outside wait for room in its mailbox, those from within do not, or all could wait for each other.
    pub spill_messages_max: u32,
    /// How many messages one turn batch may hold.
    pub batch_messages_max: u32,
    /// How long a batch should take at most; slower workers get fewer messages at a time.
    pub batch_ms: u64,
    /// After how long without a message an instance is put aside, its state saved. Zero: never.
    pub passivate_after_ms: u64,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            mailbox_messages_max: 1_024,
            spill_messages_max: 100_000,
            batch_messages_max: 256,
            batch_ms: 10,
            passivate_after_ms: 60_000,
        }
    }
}

/// How a new version of the code proves itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HandOverRule {
    /// A worker goes back to the old version if the new one fails within that many turns.
    pub probation_turns: u32,
}

impl Default for HandOverRule {
    fn default() -> Self {
        Self {
            probation_turns: 100,
        }
    }
}
