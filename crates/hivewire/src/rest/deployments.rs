//! `/api/v1/deployments` and `/api/v1/components`

use axum::Json;
use axum::http::HeaderMap;
use kernel::StageAddress;
use schemars::JsonSchema;
use serde::Serialize;

use super::app::Node;
use super::body::{Order, Upload};
use super::etag::expected;
use super::problem::Problem;
use crate::deploy::{ComponentsError, DeployError, DeployRequest, PluginError, StoreError};

/// Arguments may be long, but they are no place for data.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What a deployment led to.
#[derive(Serialize, JsonSchema)]
pub(super) struct Deployed {
    stage: StageAddress,
    /// The number of the version, counted over restarts of the node.
    version: u32,
    /// Whether there was one before.
    replaced: bool,
    /// Whether anything is other than before: the same request again changes nothing.
    changed: bool,
    /// The digest of the component.
    digest: String,
}

pub(super) async fn deploy(
    Node(running): Node,
    headers: HeaderMap,
    Order(mut request): Order<DeployRequest, REQUEST_BYTES_MAX>,
) -> Result<Json<Deployed>, Problem> {
    request.expected = expected(&headers);
    let stage = request.stage.clone();
    let deployed = running.deployments.deploy(request).await?;
    Ok(Json(Deployed {
        stage,
        version: deployed.version,
        replaced: deployed.replaced,
        changed: deployed.changed,
        digest: deployed.digest,
    }))
}

/// A component that was uploaded.
#[derive(Serialize, JsonSchema)]
pub(super) struct Uploaded {
    /// SHA-256 in hexadecimal digits.
    digest: String,
}

pub(super) async fn upload(
    Node(running): Node,
    Upload(bytes): Upload,
) -> Result<Json<Uploaded>, Problem> {
    let digest = running.deployments.upload(bytes).await?;
    Ok(Json(Uploaded { digest }))
}

impl From<DeployError> for Problem {
    fn from(error: DeployError) -> Self {
        let (check, detail) = (error.check(), error.to_string());
        match error {
            DeployError::Request(_) => Self::bad_request(detail),
            DeployError::NotExpected { .. } => Self::changed(detail),
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
