//! `/api/v1/flows` and `/api/v1/history`

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use kernel::{Name, StageAddress};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::app::Node;
use super::problem::Problem;
use super::views::{bad_query, name_of};
use crate::deploy::{ControlError, FlowShown, StageShown, UnknownStage};

const WORKERS_DEFAULT: usize = 100;
const WORKERS_MAX: usize = 10_000;

pub(super) type StagePath = Result<Path<(String, String)>, PathRejection>;

/// The stage in a path.
pub(super) fn stage_of(path: StagePath) -> Result<StageAddress, Problem> {
    let Path((flow, stage)) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let stage = StageAddress::new(&flow, &stage);
    stage.map_err(|error| Problem::bad_request(error.to_string()))
}

/// Written as it is: there may be thousands.
#[derive(Serialize)]
pub(super) struct Flows {
    flows: Vec<FlowShown>,
}

pub(super) async fn list(Node(running): Node) -> Json<Flows> {
    Json(Flows {
        flows: running.deployments.flows(),
    })
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let name = name_of(path)?;
    let mut flows = running.deployments.flows().into_iter();
    match flows.find(|flow| flow.flow == name.as_str()) {
        Some(flow) => Ok(Json(json!(flow))),
        None => Err(running.deployments.unknown_flow(&name).into()),
    }
}

pub(super) async fn show_stage(
    Node(running): Node,
    path: StagePath,
) -> Result<Json<StageShown>, Problem> {
    Ok(Json(running.deployments.stage(&stage_of(path)?)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersQuery {
    from: Option<u32>,
    limit: Option<usize>,
}

pub(super) async fn workers(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<WorkersQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = query.limit.unwrap_or(WORKERS_DEFAULT);
    if limit > WORKERS_MAX {
        return Err(Problem::bad_request(format!(
            "limit is at most {WORKERS_MAX}"
        )));
    }
    let from = query.from.unwrap_or_default();
    let workers = running.deployments.workers(&stage, from, limit)?;
    Ok(Json(json!({ "workers": workers })))
}

pub(super) async fn stop(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let flow: Name = name_of(path)?;
    running.deployments.stop_flow(&flow).await?;
    Ok(Json(json!({ "stopped": flow.as_str() })))
}

pub(super) async fn stop_stage(
    Node(running): Node,
    path: StagePath,
) -> Result<Json<Value>, Problem> {
    let stage = stage_of(path)?;
    running.deployments.stop_stage(&stage).await?;
    Ok(Json(json!({ "stopped": stage })))
}

pub(super) async fn stop_worker(
    Node(running): Node,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path((flow, stage, worker)) =
        path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let worker = format!("{flow}/{stage}/{worker}").parse();
    let worker =
        worker.map_err(|error: kernel::AddressError| Problem::bad_request(error.to_string()))?;
    running.deployments.stop_worker(&worker).await?;
    Ok(Json(json!({ "stopped": worker })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartQuery {
    worker: Option<u32>,
    #[serde(default)]
    reset: bool,
}

pub(super) async fn restart(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<RestartQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let restarting = running
        .deployments
        .restart(&stage, query.worker, query.reset);
    restarting.await?;
    Ok(Json(json!({ "restarted": stage, "reset": query.reset })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleQuery {
    workers: u32,
}

pub(super) async fn scale(
    Node(running): Node,
    path: StagePath,
    query: Result<Query<ScaleQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let stage = stage_of(path)?;
    let Query(ScaleQuery { workers }) = query.map_err(bad_query)?;
    let version = running.deployments.scale(&stage, workers).await?;
    Ok(Json(
        json!({ "stage": stage, "workers": workers, "version": version }),
    ))
}

pub(super) async fn history(Node(running): Node) -> Json<Value> {
    Json(json!({ "history": running.deployments.history(None).await }))
}

pub(super) async fn stage_history(
    Node(running): Node,
    path: StagePath,
) -> Result<Json<Value>, Problem> {
    let stage = stage_of(path)?;
    let history = running.deployments.history(Some(&stage)).await;
    if history.is_empty() {
        // A stage that is linked in may have none; one that never was is an error.
        running.deployments.stage(&stage)?;
    }
    Ok(Json(json!({ "history": history })))
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
            ControlError::Runtime(_) | ControlError::Alone => Self::conflict(detail),
            ControlError::Bus(_) => Self::not_ready(detail),
            ControlError::Store(_) => Self::not_ready(detail),
            ControlError::Broken(_) => Self::internal(detail),
        }
    }
}
