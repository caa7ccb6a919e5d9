//! `/api/v1/flows` and `/api/v1/history`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kernel::{Name, StageAddress, WorkerAddress};
use runtime::{
    HistoryEntry, HistoryEvent, SampledView, ScaleDecision, StageState, WorkerState, WorkerView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::{Node, Running};
use super::etag::{Tagged, expected};
use super::paging::{LIMIT_MAX, checked, limit_of, next_of};
use super::problem::Problem;
use super::views::{bad_query, name_of};
use crate::deploy::{
    ControlError, DefinitionShown, FlowShown, StageQuery, StageShown, UnknownStage, VersionShown,
};

const WORKERS_DEFAULT: usize = 100;
const WORKERS_MAX: usize = 10_000;
const HISTORY_MAX: usize = 10_000;
/// A stage keeps no more.
const DECISIONS_MAX: usize = 200;
const SAMPLE_DEFAULT: usize = 20;
const SAMPLE_MAX: usize = 50;
/// What an output is called that is the only one.
const USUAL_OUTPUT: &str = "out";

pub(super) type StagePath = Result<Path<(String, String)>, PathRejection>;

/// The stage in a path.
pub(super) fn stage_of(path: StagePath) -> Result<StageAddress, Problem> {
    let Path((flow, stage)) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let stage = StageAddress::new(&flow, &stage);
    stage.map_err(|error| Problem::bad_request(error.to_string()))
}

/// Which stages somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StagesQuery {
    /// How their addresses, `flow/stage`, begin.
    q: Option<String>,
    /// Those that are so.
    state: Option<StageState>,
    /// Those that this node has a part of.
    node: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many stages at most: 1,000 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
}

impl StagesQuery {
    fn of(self, flow: Option<Name>) -> Result<StageQuery, Problem> {
        let after = self.after.map(|after| after.parse()).transpose();
        let after = after.map_err(|error: kernel::AddressError| {
            Problem::bad_request(format!("after: {error}"))
        })?;
        Ok(StageQuery {
            flow,
            prefix: self.q,
            state: self.state,
            node: self.node,
            after,
            limit: limit_of(self.limit)?,
        })
    }
}

type MaybeStages = Result<Query<StagesQuery>, QueryRejection>;

/// Flows with their stages, in the order of their names. The last flow of a page may go on in the next one.
#[derive(Serialize, JsonSchema)]
pub(super) struct FlowPage {
    flows: Vec<FlowShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<StageAddress>,
}

/// A flow with its stages, in the order of their names.
#[derive(Serialize, JsonSchema)]
pub(super) struct FlowStages {
    flow: String,
    stages: Vec<StageShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<StageAddress>,
}

pub(super) async fn list(
    Node(running): Node,
    query: MaybeStages,
) -> Result<Tagged<FlowPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let query = query.of(None)?;
    let (stages, next) = running.deployments.stages(&query);
    let flows = crate::deploy::flows_of(stages);
    Ok(Tagged(FlowPage { flows, next }))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: MaybeStages,
) -> Result<Tagged<FlowStages>, Problem> {
    let name = name_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let query = query.of(Some(name.clone()))?;
    check_flow(&running, &name)?;
    let (stages, next) = running.deployments.stages(&query);
    Ok(Tagged(FlowStages {
        flow: name.to_string(),
        stages,
        next,
    }))
}

fn check_flow(running: &Running, name: &Name) -> Result<(), Problem> {
    let addresses = running.deployments.addresses();
    match addresses.iter().any(|stage| stage.flow() == name) {
        true => Ok(()),
        false => Err(running.deployments.unknown_flow(name).into()),
    }
}

pub(super) async fn show_stage(
    Node(running): Node,
    path: StagePath,
) -> Result<Tagged<StageShown>, Problem> {
    Ok(Tagged(running.deployments.stage(&stage_of(path)?)?))
}

/// Its ETag names it in If-Match.
pub(super) async fn definition(Node(running): Node, path: StagePath) -> Result<Response, Problem> {
    let stage = stage_of(path)?;
    let definition = running.deployments.definition(&stage).await?;
    let etag = format!("\"{}\"", definition.tag());
    Ok(([(header::ETAG, etag)], Json::<DefinitionShown>(definition)).into_response())
}

/// The versions of a stage.
#[derive(Serialize, JsonSchema)]
pub(super) struct Versions {
    /// The newest first.
    versions: Vec<VersionShown>,
}

pub(super) async fn versions(
    Node(running): Node,
    path: StagePath,
) -> Result<Tagged<Versions>, Problem> {
    let stage = stage_of(path)?;
    let versions = running.deployments.versions(&stage).await?;
    Ok(Tagged(Versions { versions }))
}

/// Which workers somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersQuery {
    /// The number of the first one.
    from: Option<u32>,
    /// The `next` of the page before: the number of its last worker.
    after: Option<u32>,
    /// Those that are so.
    state: Option<WorkerState>,
    /// How many at most: 100 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = WORKERS_MAX))]
    limit: Option<usize>,
}

/// Workers in the order of their numbers.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkerPage {
    workers: Vec<WorkerView>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

pub(super) async fn workers(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<WorkersQuery>, QueryRejection>,
) -> Result<Tagged<WorkerPage>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, WORKERS_DEFAULT, WORKERS_MAX)?;
    let after = query.after.map_or(0, |after| after.saturating_add(1));
    let from = query.from.unwrap_or_default().max(after);
    let workers = match query.state {
        None => running.deployments.workers(&stage, from, limit + 1)?,
        Some(state) => workers_so(&running, &stage, from, limit + 1, state)?,
    };
    let number = |worker: &WorkerView| worker.address.worker().to_string();
    let (workers, next) = next_of(workers, limit, number);
    Ok(Tagged(WorkerPage { workers, next }))
}

/// Workers that are in this state, looked for page by page.
fn workers_so(
    running: &Running,
    stage: &StageAddress,
    mut from: u32,
    max: usize,
    state: WorkerState,
) -> Result<Vec<WorkerView>, Problem> {
    let mut found = Vec::new();
    loop {
        let page = running.deployments.workers(stage, from, WORKERS_MAX)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        from = last.address.worker().saturating_add(1);
        found.extend(page.into_iter().filter(|worker| worker.state == state));
        if found.len() >= max {
            found.truncate(max);
            return Ok(found);
        }
    }
}

/// What was stopped: a flow, a stage or a worker.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stopped {
    stopped: String,
}

pub(super) async fn stop(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Stopped>, Problem> {
    let flow: Name = name_of(path)?;
    running.deployments.stop_flow(&flow).await?;
    Ok(Json(Stopped {
        stopped: flow.to_string(),
    }))
}

pub(super) async fn stop_stage(
    Node(running): Node,
    path: StagePath,
    headers: HeaderMap,
) -> Result<Json<Stopped>, Problem> {
    let stage = stage_of(path)?;
    let stopping = running
        .deployments
        .stop_expected(&stage, expected(&headers));
    stopping.await?;
    Ok(Json(Stopped {
        stopped: stage.to_string(),
    }))
}

pub(super) async fn stop_worker(
    Node(running): Node,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Result<Json<Stopped>, Problem> {
    let Path((flow, stage, worker)) =
        path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let worker = format!("{flow}/{stage}/{worker}").parse::<WorkerAddress>();
    let worker = worker.map_err(|error| Problem::bad_request(error.to_string()))?;
    running.deployments.stop_worker(&worker).await?;
    Ok(Json(Stopped {
        stopped: worker.to_string(),
    }))
}

/// What is started again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartQuery {
    /// The worker with this number; without one, all.
    worker: Option<u32>,
    /// Whether the state is forgotten.
    #[serde(default)]
    reset: bool,
}

/// What was started again.
#[derive(Serialize, JsonSchema)]
pub(super) struct Restarted {
    restarted: StageAddress,
    /// Whether the state was forgotten.
    reset: bool,
}

pub(super) async fn restart(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<RestartQuery>, QueryRejection>,
) -> Result<Json<Restarted>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let restarting = running
        .deployments
        .restart(&stage, query.worker, query.reset);
    restarting.await?;
    Ok(Json(Restarted {
        restarted: stage,
        reset: query.reset,
    }))
}

/// A stage that takes nothing, or takes everything again.
#[derive(Serialize, JsonSchema)]
pub(super) struct Paused {
    stage: StageAddress,
    /// Whether it is paused.
    paused: bool,
}

pub(super) async fn pause(Node(running): Node, path: StagePath) -> Result<Json<Paused>, Problem> {
    set_paused(&running, path, true).await
}

pub(super) async fn resume(Node(running): Node, path: StagePath) -> Result<Json<Paused>, Problem> {
    set_paused(&running, path, false).await
}

async fn set_paused(
    running: &Running,
    path: StagePath,
    paused: bool,
) -> Result<Json<Paused>, Problem> {
    let stage = stage_of(path)?;
    running.deployments.pause(&stage, paused).await?;
    Ok(Json(Paused { stage, paused }))
}

/// What to look at of an output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleQuery {
    /// The output; `out` unless it says otherwise.
    output: Option<String>,
    /// How many events at most: 20 unless it says otherwise, and never more than 50.
    #[schemars(range(max = SAMPLE_MAX))]
    count: Option<usize>,
}

/// Some of what an output of a stage emits, on this node.
#[derive(Serialize, JsonSchema)]
pub(super) struct SampleShown {
    output: String,
    /// How long more is taken unless somebody looks again.
    armed_ms: u64,
    /// How many events were emitted since somebody began to look.
    seen: u64,
    /// Some of them, the newest first: at most 20 of a second, and the last 50.
    events: Vec<EventSampled>,
}

/// An event that left a stage.
#[derive(Serialize, JsonSchema)]
pub(super) struct EventSampled {
    /// The how many-th it was since somebody began to look.
    number: u64,
    /// When, in milliseconds since 1970.
    at_ms: u64,
    /// Where it went.
    to: Vec<String>,
    /// The body, or its first 4,096 bytes, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The same in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// How long the body is.
    body_bytes: usize,
    /// Of a header that is repeated, the first counts.
    headers: BTreeMap<String, String>,
}

impl EventSampled {
    fn of(sampled: SampledView, to: &[String]) -> Self {
        let mut headers = BTreeMap::new();
        for (name, value) in sampled.headers {
            headers.entry(name).or_insert(value);
        }
        let is_whole = sampled.body.len() == sampled.body_bytes;
        let text = match str::from_utf8(&sampled.body) {
            Ok(text) => Some(text),
            // It may have been cut within a character.
            Err(error) if !is_whole && error.error_len().is_none() => {
                str::from_utf8(&sampled.body[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        Self {
            number: sampled.number,
            at_ms: sampled.at_ms,
            to: to.to_vec(),
            body: text.map(str::to_owned),
            body_base64: text.is_none().then(|| STANDARD.encode(&sampled.body)),
            body_bytes: sampled.body_bytes,
            headers,
        }
    }
}

pub(super) async fn sample(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<SampleQuery>, QueryRejection>,
) -> Result<Json<SampleShown>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let count = checked(query.count, SAMPLE_DEFAULT, SAMPLE_MAX)?;
    let output = query.output.unwrap_or_else(|| USUAL_OUTPUT.to_owned());
    let view = running.runtime().stage(&stage);
    let view = view.ok_or_else(|| Problem::from(running.deployments.unknown(&stage)))?;
    let sample = running.runtime().sample(&stage, &output, count);
    let sample = sample.ok_or_else(|| {
        let known: Vec<&String> = view.spec.outputs.keys().collect();
        Problem::not_found(format!(
            "no output {output:?} of {stage} leads anywhere; there are: {known:?}"
        ))
    })?;
    let to: Vec<String> = match view.spec.outputs.get(&output) {
        Some(to) => to.iter().map(ToString::to_string).collect(),
        None => Vec::new(),
    };
    let events = sample.messages.into_iter();
    Ok(Json(SampleShown {
        output,
        armed_ms: sample.armed_ms,
        seen: sample.seen,
        events: events
            .map(|sampled| EventSampled::of(sampled, &to))
            .collect(),
    }))
}

/// How a stage is scaled.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleQuery {
    /// How many workers it is to have.
    #[schemars(range(max = runtime::WORKERS_MAX))]
    workers: u32,
}

/// A stage with another number of workers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Scaled {
    stage: StageAddress,
    workers: u32,
    version: u32,
}

pub(super) async fn scale(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<ScaleQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<Scaled>, Problem> {
    let stage = stage_of(path)?;
    let Query(ScaleQuery { workers }) = query.map_err(bad_query)?;
    let scaling = running
        .deployments
        .scale(&stage, workers, expected(&headers));
    let version = scaling.await?;
    Ok(Json(Scaled {
        stage,
        workers,
        version,
    }))
}

/// What of a history somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// What happened.
    event: Option<HistoryEvent>,
    /// To stages of this flow.
    flow: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many at most: 10,000 unless it says otherwise, and never more.
    #[schemars(range(max = HISTORY_MAX))]
    limit: Option<usize>,
}

/// What happened to stages, the oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct HistoryPage {
    history: Vec<HistoryEntry>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

type MaybeHistory = Result<Query<HistoryQuery>, QueryRejection>;

pub(super) async fn history(
    Node(running): Node,
    query: MaybeHistory,
) -> Result<Tagged<HistoryPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let history = running.deployments.history(None).await;
    history_page(history, query).map(Tagged)
}

pub(super) async fn stage_history(
    Node(running): Node,
    path: StagePath,
    query: MaybeHistory,
) -> Result<Tagged<HistoryPage>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let history = running.deployments.history(Some(&stage)).await;
    if history.is_empty() {
        // A stage that is linked in may have none; one that never was is an error.
        running.deployments.stage(&stage)?;
    }
    history_page(history, query).map(Tagged)
}

/// How many decisions somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionsQuery {
    /// The newest so many: all that are kept, 200, unless it says otherwise.
    #[schemars(range(max = DECISIONS_MAX))]
    limit: Option<usize>,
}

/// What a stage decided about its number of workers.
#[derive(Serialize, JsonSchema)]
pub(super) struct DecisionList {
    /// The oldest first.
    decisions: Vec<ScaleDecision>,
}

pub(super) async fn decisions(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<DecisionsQuery>, QueryRejection>,
) -> Result<Tagged<DecisionList>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, DECISIONS_MAX, DECISIONS_MAX)?;
    let mut decisions = running.deployments.decisions(&stage)?;
    let older = decisions.len().saturating_sub(limit);
    let decisions = decisions.split_off(older);
    Ok(Tagged(DecisionList { decisions }))
}

/// A page of a history. Several things can happen at the same time, so a page goes on after the time of its
/// last entry and how many entries of that time it had.
fn history_page(history: Vec<HistoryEntry>, query: HistoryQuery) -> Result<HistoryPage, Problem> {
    let limit = checked(query.limit, HISTORY_MAX, HISTORY_MAX)?;
    let after = query.after.as_deref().map(time_and_count).transpose()?;
    let wanted = history.into_iter().filter(|entry| {
        let of_flow = |flow: &String| entry.stage.flow().as_str() == flow;
        query.event.is_none_or(|event| event == entry.event)
            && query.flow.as_ref().is_none_or(of_flow)
    });
    let mut rest: Vec<HistoryEntry> = wanted.collect();
    if let Some((at_ms, count)) = after {
        let begin = rest.partition_point(|entry| entry.at_ms < at_ms);
        let same = rest.partition_point(|entry| entry.at_ms <= at_ms) - begin;
        rest.drain(..begin + same.min(count));
    }
    let has_more = rest.len() > limit;
    rest.truncate(limit);
    let next = rest.last().filter(|_| has_more).map(|last| {
        let mut same = rest.iter().filter(|e| e.at_ms == last.at_ms).count();
        // The page before may have had some of that time, too.
        same += after
            .filter(|(at_ms, _)| *at_ms == last.at_ms)
            .map_or(0, |(_, count)| count);
        format!("{}-{same}", last.at_ms)
    });
    Ok(HistoryPage {
        history: rest,
        next,
    })
}

fn time_and_count(text: &str) -> Result<(u64, usize), Problem> {
    let parts = text.split_once('-');
    let parsed = parts.and_then(|(at, count)| Some((at.parse().ok()?, count.parse().ok()?)));
    parsed.ok_or_else(|| Problem::bad_request("after is the `next` of the page before"))
}

impl From<UnknownStage> for Problem {
    fn from(error: UnknownStage) -> Self {
        Self::not_found(error.to_string())
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let detail = error.to_string();
        match error {
            ControlError::Unknown(unknown) => unknown.into(),
            ControlError::Deploy(error) => error.into(),
            ControlError::UnknownNode { .. } | ControlError::UnknownWorker { .. } => {
                Self::not_found(detail)
            }
            ControlError::Runtime(_) | ControlError::Alone | ControlError::LinkedIn { .. } => {
                Self::conflict(detail)
            }
            ControlError::Bus(_) => Self::not_ready(detail),
            ControlError::Store(_) => Self::not_ready(detail),
            ControlError::Broken(_) => Self::internal(detail),
        }
    }
}
