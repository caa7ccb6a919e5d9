//! `/api/v1/deployments` and `/api/v1/components`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use crate::deploy::{ComponentsError, DeployError, DeployRequest, PluginError, StoreError};

/// Arguments may be long, but they are no place for data.
const REQUEST_BYTES_MAX: usize = 1 << 20;

pub(super) async fn deploy(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let bytes = body::read(&app, &headers, body, REQUEST_BYTES_MAX).await?;
    let request: DeployRequest = body::parse(&bytes)?;
    let stage = request.stage.clone();
    let deployed = running.deployments.deploy(request).await?;
    Ok(Json(json!({
        "stage": stage,
        "version": deployed.version,
        "replaced": deployed.replaced,
        "digest": deployed.digest,
    })))
}

pub(super) async fn upload(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let bytes_max = usize::try_from(running.deployments.component_bytes_max());
    let bytes_max = bytes_max.unwrap_or(usize::MAX);
    let bytes = body::read(&app, &headers, body, bytes_max).await?;
    let digest = running.deployments.upload(bytes).await?;
    Ok(Json(json!({ "digest": digest })))
}

impl From<DeployError> for Problem {
    fn from(error: DeployError) -> Self {
        let (check, detail) = (error.check(), error.to_string());
        match error {
            DeployError::Request(_) => Self::bad_request(detail),
            DeployError::Plugin(PluginError::Store(_)) => Self::not_ready(detail),
            DeployError::Stage(runtime::DeployError::Stopping | runtime::DeployError::Bus(_)) => {
                Self::not_ready(detail)
            }
            DeployError::Store(StoreError::Components(
                ComponentsError::Missing { .. } | ComponentsError::Digest { .. },
            ))
            | DeployError::Source(_)
            | DeployError::Plugin(_)
            | DeployError::Component(_)
            | DeployError::Router(_)
            | DeployError::Stage(_) => Self::not_deployed(check, detail),
            DeployError::Taken { .. } => Self::not_deployed(check, detail),
            DeployError::Args(error) => Self::not_deployed(check, detail).at(error.pointer),
            DeployError::Store(StoreError::Changed { .. }) => Self::conflict(detail),
            DeployError::Store(_) | DeployError::Late { .. } => Self::not_ready(detail),
            DeployError::Broken(_) => Self::internal(detail),
        }
    }
}
