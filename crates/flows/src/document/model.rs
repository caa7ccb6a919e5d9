//! The model of a flow document: the same for TOML on disk and JSON in the API.

use std::collections::BTreeMap;

use kernel::Grant;
use runtime::{Delivery, HandOverRule, KeyRule, SupervisionRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http::HttpRoute;
use super::period::Period;
use super::place::{OneOrMany, Place, Sender};
use super::plugin_reference::PluginReference;
use super::router::RouterChoice;
pub use super::scale::Scale;

/// The output that is meant where none is named.
pub const USUAL_OUTPUT: &str = "out";

/// A flow: a graph of stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FlowDocument")]
pub struct Document {
    /// The name of the flow.
    pub flow: String,
    /// What it does, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What is promised about its events, unless a stage says otherwise.
    #[serde(default)]
    pub delivery: Promise,
    /// Its stages by their names.
    #[serde(default)]
    pub stages: BTreeMap<String, Stage>,
    /// Requests over HTTP that its stages answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpRoute>,
}

/// What is promised about events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Events and state are in memory: fast, and gone when the process ends.
    AtMostOnce,
    /// Events are on disk; one may be handled again after a failure.
    AtLeastOnce,
    /// Events are on disk, and each changes the state once, whatever happens.
    #[default]
    StateOnce,
}

impl Promise {
    /// What the runtime is told.
    pub fn delivery(self) -> Delivery {
        match self {
            Self::AtMostOnce => Delivery::Memory,
            Self::AtLeastOnce | Self::StateOnce => Delivery::Durable,
        }
    }

    /// As it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at-most-once",
            Self::AtLeastOnce => "at-least-once",
            Self::StateOnce => "state-once",
        }
    }
}

/// One stage of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DocumentStage")]
pub struct Stage {
    /// Its plug-in: the id of one that is built in, `ID` or `ID@VERSION` of one in a repository, a path, or a URI.
    pub plugin: PluginReference,
    /// What it does here, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the plug-in is told, as its own JSON Schema says.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// Short for `outputs = { out = ... }`. A document that was read has it in `outputs`.
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub to: OneOrMany<Place>,
    /// Where outputs lead: stages of this flow, `queue:NAME`, `topic:NAME`, or `flow/stage` of another flow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, OneOrMany<Place>>,
    /// Edges named at their receiving end: `stage` or `stage.output`. A document that was read has them in the `outputs`
    /// of those stages.
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub from: OneOrMany<Sender>,
    /// Where the key of an event is: `json:/POINTER`, `header:NAME` or `body`. It makes the stage a keyed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyRule>,
    /// How events find their workers: a kind of router, or the path or URI of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterChoice>,
    /// How many workers it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// How it finds its number of workers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// What is promised about its events, if that is other than for the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Promise>,
    /// What its workers may do beyond their flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// What happens when a worker fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervision: Option<SupervisionRule>,
    /// What it may use up.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// How a new version proves itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandOverRule>,
    /// The nodes that it runs on; one that is there twice gets twice as much. All of them if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Where it is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

impl Stage {
    /// A stage of this plug-in and nothing else said.
    pub fn new(plugin: PluginReference) -> Self {
        Self {
            plugin,
            description: String::new(),
            parameters: Value::Null,
            to: OneOrMany::default(),
            outputs: BTreeMap::new(),
            from: OneOrMany::default(),
            key: None,
            router: None,
            workers: None,
            scale: None,
            delivery: None,
            grants: Vec::new(),
            supervision: None,
            limits: Limits::default(),
            hand_over: None,
            on: Vec::new(),
            position: None,
        }
    }
}

/// What a stage may use up. What is not said is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "StageLimits")]
pub struct Limits {
    /// How many messages one worker may have waiting or in hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox_messages_max: Option<u32>,
    /// How many messages one turn batch may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_messages_max: Option<u32>,
    /// How long a batch should take at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_ms: Option<u64>,
    /// In a cycle of stages, how many messages from within the cycle may wait for one worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_messages_max: Option<u32>,
    /// After how long without a message an instance is put aside. Zero: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passivate_after_ms: Option<u64>,
    /// Memory of a component instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<usize>,
    /// How long one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ms_max: Option<u64>,
    /// How often one call may call back into the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls_max: Option<u32>,
    /// Messages that one commit may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends_max: Option<usize>,
    /// Their bytes together with those of state written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
}

impl Limits {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a stage is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "StagePosition")]
pub struct Position {
    /// From left to right.
    pub x: f64,
    /// From top to bottom.
    pub y: f64,
}

impl Document {
    /// A flow without stages.
    pub fn new(flow: &str) -> Self {
        Self {
            flow: flow.to_owned(),
            description: String::new(),
            delivery: Promise::default(),
            stages: BTreeMap::new(),
            http: Vec::new(),
        }
    }

    /// What is promised about the events of a stage.
    pub fn promise(&self, stage: &Stage) -> Promise {
        stage.delivery.unwrap_or(self.delivery)
    }
}

/// A time that is not said is that of the rule.
pub(super) fn millis_or(period: Option<Period>, usual: u64) -> u64 {
    period.map_or(usual, Period::as_millis)
}
