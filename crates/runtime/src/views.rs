//! What can be seen of flows, stages and workers from outside.

use bytes::Bytes;
use kernel::worker::{CodeInfo, LogLevel};
use kernel::{Address, StageAddress, WorkerAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scaling::{MovePauses, ScalingView};
use crate::spec::StageSpec;

/// A flow and its stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowView {
    /// Its name.
    pub flow: String,
    /// Its stages, by name.
    pub stages: Vec<StageView>,
}

/// A stage and its workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageView {
    /// What it is to be.
    pub spec: StageSpec,
    /// The code that it runs.
    pub code: CodeInfo,
    /// The number of that version in the history of the stage.
    pub version: u32,
    /// How it is.
    pub state: StageState,
    /// Whether it takes nothing because somebody wants that.
    #[serde(default)]
    pub paused: bool,
    /// Turns since its start.
    pub turns: u64,
    /// Turns in the last second.
    pub turns_per_second: f64,
    /// Failed turns since its start.
    pub failures: u64,
    /// Restarts of workers since its start.
    pub restarts: u64,
    /// Messages that went to the dead letters.
    pub dead: u64,
    /// Messages emitted to outputs that lead nowhere.
    pub unconnected: u64,
    /// Replies that came after their time.
    pub late_replies: u64,
    /// Messages that wait in this process for a worker.
    pub waiting: u64,
    /// How many workers it has.
    pub workers_count: u32,
    /// The first of its workers; [`crate::Runtime::workers`] gives all.
    pub workers: Vec<WorkerView>,
    /// How long its buckets paused while they moved.
    #[serde(default)]
    pub moves: MovePauses,
    /// Why it stands still, if it does: what it made, or what is meant for it, has found no room for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<String>,
    /// How long messages wait for its workers, if any did of late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyView>,
    /// How it finds its number of workers by itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<ScalingView>,
}

/// How long messages wait for the workers of a stage, as probes behind them tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyView {
    /// Half of them wait no longer.
    pub p50_ms: f64,
    /// Ninety-nine of a hundred wait no longer.
    pub p99_ms: f64,
}

/// How busy a stage is, and how it is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct StageLoad {
    /// Its address.
    pub stage: StageAddress,
    /// How it is.
    pub state: StageState,
    /// Restarts of workers since its start.
    pub restarts: u64,
    /// Messages that went to the dead letters.
    pub dead: u64,
    /// Turns in the last second.
    pub turns_per_second: f64,
    /// Messages that wait in this process for a worker.
    pub waiting: u64,
    /// How many workers it has.
    pub workers_count: u32,
    /// Why it stands still, if it does.
    pub stands: Option<String>,
    /// How long messages wait for its workers, if any did of late.
    pub latency: Option<LatencyView>,
    /// How it finds its number of workers by itself, if it does.
    pub scaling: Option<ScalingView>,
}

/// How a stage is at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct StageLook {
    /// Its address.
    pub stage: StageAddress,
    /// How it is.
    pub state: StageState,
    /// Whether it takes nothing because somebody wants that.
    pub paused: bool,
    /// Why it stands still, if it does.
    pub stands: Option<String>,
    /// How long messages wait for its workers, if any did of late.
    pub latency: Option<LatencyView>,
    /// How many workers it has.
    pub workers: u32,
    /// How many of them are in a turn.
    pub workers_busy: u32,
    /// Turns since its start.
    pub turns: u64,
    /// Failed turns since its start.
    pub failures: u64,
    /// Messages that went to the dead letters.
    pub dead: u64,
    /// Restarts of workers since its start.
    pub restarts: u64,
    /// What came and what became of it; none for providers, and where the engine cannot say.
    pub input: Option<InputView>,
    /// What it sent.
    pub edges: Vec<EdgeView>,
}

/// The book of the input of a stage: what came is done, waits or was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputView {
    /// What came: all of what follows together.
    pub came: u64,
    /// What is done.
    pub done: u64,
    /// What waits or is in hand.
    pub queued: u64,
    /// What went to the dead letters, or came too late.
    pub dropped: u64,
    /// How many may wait, if there is a bound.
    pub room: Option<u64>,
}

/// How much was sent over one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeView {
    /// The output.
    pub output: String,
    /// Where it leads.
    pub to: Address,
    /// How many messages have arrived there.
    pub sent: u64,
}

/// Some of what an output emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleView {
    /// How long more is taken unless somebody looks again.
    pub armed_ms: u64,
    /// How many messages were emitted since somebody began to look.
    pub seen: u64,
    /// Some of them, the newest first.
    pub messages: Vec<SampledView>,
}

/// A message that an output emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledView {
    /// The how many-th it was since somebody began to look.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The beginning of its body.
    pub body: Bytes,
    /// How long the body is.
    pub body_bytes: usize,
    /// Its headers, in order.
    pub headers: Vec<(String, String)>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// Its address.
    pub address: WorkerAddress,
    /// How it is.
    pub state: WorkerState,
    /// The number of the version that it runs.
    pub version: u32,
    /// Turns since its start.
    pub turns: u64,
    /// How often it was restarted.
    pub restarts: u32,
    /// Messages that wait for it.
    pub waiting: u32,
    /// The names of its children.
    pub children: Vec<String>,
    /// Why it failed last.
    pub last_failure: Option<String>,
}

/// How a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StageState {
    /// It takes messages.
    Running,
    /// Its workers go over to another version.
    Handover,
    /// It ends.
    Stopping,
    /// It gave up after too many failures; its messages wait in the queue.
    Failed,
}

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It has no message in hand.
    Idle,
    /// It handles messages.
    Busy,
    /// Its state is saved and it has no instance, until a message comes.
    Passive,
    /// It waits before it is started again.
    Waiting,
    /// It has ended, or failed for good.
    Stopped,
}

/// Something that happened to a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The stage.
    pub stage: StageAddress,
    /// What.
    pub event: HistoryEvent,
    /// The number of the version that it is about.
    pub version: u32,
    /// The digest of its code.
    pub digest: String,
    /// Why, for people.
    pub detail: String,
}

/// What can happen to a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryEvent {
    /// It was deployed for the first time.
    Deployed,
    /// All its workers went over to a new version.
    Replaced,
    /// A version did not fit and was not tried.
    Refused,
    /// A version failed on probation; the old one came back.
    RolledBack,
    /// Somebody restarted it.
    Restarted,
    /// It gave up.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

/// A line that a worker, or the runtime on its behalf, wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Its number within the stage, from one, without gaps unless lines were dropped.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who wrote it.
    pub worker: WorkerAddress,
    /// How important it is.
    pub level: LogLevel,
    /// What it says.
    pub line: String,
}
