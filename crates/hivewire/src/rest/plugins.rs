//! `/api/v1/plugins`

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_lite::stream;
use kernel::PluginId;
use kernel::descriptor::PluginKind;
use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

use super::app::{App, Node, Running};
use super::body::{self, Upload};
use super::etag::{Tagged, is_known};
use super::problem::Problem;
use super::views::bad_query;
use crate::deploy::{
    FoundPlugin, Plugin, PluginError, PluginNotes, PluginPage, PluginQuery, PluginRef,
    PluginVersions, PushedPlugin, StoreError, version_of,
};

/// Stands for a version where one is read.
const NEWEST: &str = "newest";
const PLUGINS_DEFAULT: usize = 100;
const PLUGINS_MAX: usize = 500;
const TEXT_BYTES_MAX: usize = 200;
/// A component is sent in pieces of that size.
const PIECE_BYTES: usize = 64 << 10;

/// Which plug-ins somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// What is looked for in ids, descriptions and authors.
    q: Option<String>,
    /// Those of this kind.
    kind: Option<PluginKind>,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many at most: 100 unless it says otherwise, and never more than 500.
    #[schemars(range(max = PLUGINS_MAX))]
    limit: Option<usize>,
    /// Whether only the own repository is asked.
    #[serde(default)]
    own: bool,
}

/// Where a plug-in is looked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Where {
    /// Whether only the own repository is asked.
    #[serde(default)]
    own: bool,
}

type MaybeQuery<T> = Result<Query<T>, QueryRejection>;
type MaybePath<T> = Result<Path<T>, PathRejection>;

pub(super) async fn list(
    Node(running): Node,
    query: MaybeQuery<ListQuery>,
) -> Result<Tagged<PluginPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    // A node that asks for another wants to see whether there is one more.
    let limit_max = PLUGINS_MAX + usize::from(query.own);
    let limit = query.limit.unwrap_or(PLUGINS_DEFAULT);
    if limit > limit_max {
        return Err(Problem::bad_request(format!(
            "limit is at most {PLUGINS_MAX}"
        )));
    }
    if query
        .q
        .as_ref()
        .is_some_and(|text| text.len() > TEXT_BYTES_MAX)
    {
        return Err(Problem::bad_request(format!(
            "q has at most {TEXT_BYTES_MAX} bytes"
        )));
    }
    let after = query.after.map(|text| text.parse::<PluginId>()).transpose();
    let query = PluginQuery {
        text: query.q.filter(|text| !text.is_empty()),
        kind: query.kind,
        after: after.map_err(PluginError::from)?,
        limit,
        own: query.own,
    };
    Ok(Tagged(running.deployments.list_plugins(&query).await?))
}

pub(super) async fn versions(
    Node(running): Node,
    path: MaybePath<String>,
    query: MaybeQuery<Where>,
) -> Result<Tagged<PluginVersions>, Problem> {
    let Path(id) = path.map_err(bad_path)?;
    let Query(Where { own }) = query.map_err(bad_query)?;
    let id: PluginId = id.parse().map_err(PluginError::from)?;
    Ok(Tagged(running.deployments.plugin_versions(&id, own).await?))
}

pub(super) async fn show(
    Node(running): Node,
    path: MaybePath<(String, String)>,
    query: MaybeQuery<Where>,
) -> Result<Response, Problem> {
    let found = find(&running, path, query).await?;
    Ok(([(header::ETAG, etag_of(&found))], Json(found)).into_response())
}

pub(super) async fn component(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: MaybePath<(String, String)>,
    query: MaybeQuery<Where>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&running, path, query).await?;
    let etag = etag_of(&found);
    // It would be read for nothing.
    if is_known(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    // What it says about its length may come from another node.
    let length = found
        .plugin
        .bytes
        .min(running.deployments.component_bytes_max());
    let permit = body::budget(&app, usize::try_from(length).unwrap_or(usize::MAX)).await?;
    let component = running.deployments.plugin_component(&found).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/wasm".to_owned()),
        (header::CONTENT_LENGTH, component.bytes.len().to_string()),
        (header::ETAG, etag),
    ];
    Ok((headers, in_pieces(component.bytes, permit)).into_response())
}

/// The room that bytes take is given back when the last of them was sent.
fn in_pieces(bytes: Bytes, permit: OwnedSemaphorePermit) -> Body {
    let pieces = stream::unfold((bytes, permit), async |(mut left, permit)| {
        if left.is_empty() {
            return None;
        }
        let piece = left.split_to(left.len().min(PIECE_BYTES));
        Some((Ok::<_, Infallible>(piece), (left, permit)))
    });
    Body::from_stream(pieces)
}

pub(super) async fn push(
    Node(running): Node,
    notes: MaybeQuery<PluginNotes>,
    Upload(bytes): Upload,
) -> Result<Json<PushedPlugin>, Problem> {
    let Query(notes) = notes.map_err(bad_query)?;
    Ok(Json(
        running.deployments.push_plugin(bytes, None, notes).await?,
    ))
}

pub(super) async fn put(
    Node(running): Node,
    path: MaybePath<(String, String)>,
    notes: MaybeQuery<PluginNotes>,
    Upload(bytes): Upload,
) -> Result<Json<PushedPlugin>, Problem> {
    let named = Some(named(path)?);
    let Query(notes) = notes.map_err(bad_query)?;
    Ok(Json(
        running.deployments.push_plugin(bytes, named, notes).await?,
    ))
}

/// A plug-in that is no more.
#[derive(Serialize, JsonSchema)]
pub(super) struct PluginRemoved {
    removed: Plugin,
}

pub(super) async fn remove(
    Node(running): Node,
    path: MaybePath<(String, String)>,
) -> Result<Json<PluginRemoved>, Problem> {
    let (id, version) = named(path)?;
    let removed = running.deployments.remove_plugin(&id, &version).await?;
    Ok(Json(PluginRemoved { removed }))
}

async fn find(
    running: &Running,
    path: MaybePath<(String, String)>,
    query: MaybeQuery<Where>,
) -> Result<FoundPlugin, Problem> {
    let Query(Where { own }) = query.map_err(bad_query)?;
    let reference = match path {
        Ok(Path((id, version))) if version == NEWEST => PluginRef {
            id: id.parse().map_err(PluginError::from)?,
            version: None,
        },
        path => {
            let (id, version) = named(path)?;
            PluginRef::exact(&id, &version)
        }
    };
    Ok(running.deployments.plugin(&reference, own).await?)
}

/// The id and version in a path.
fn named(path: MaybePath<(String, String)>) -> Result<(PluginId, Version), Problem> {
    let Path((id, version)) = path.map_err(bad_path)?;
    let version = version_of(&version).map_err(|error| {
        Problem::from(error).hint("a slash in an id is written as %2F in a path")
    })?;
    Ok((id.parse().map_err(PluginError::from)?, version))
}

fn bad_path(error: PathRejection) -> Problem {
    Problem::bad_request(error.body_text())
}

fn etag_of(found: &FoundPlugin) -> String {
    format!("\"{}\"", found.plugin.digest)
}

impl From<PluginError> for Problem {
    fn from(error: PluginError) -> Self {
        let detail = error.to_string();
        match error {
            PluginError::Id(_) | PluginError::Version { .. } => Self::bad_request(detail),
            PluginError::Component(_)
            | PluginError::Descriptor(_)
            | PluginError::NoDescriptor
            | PluginError::Says { .. }
            | PluginError::Unfit(_) => Self::unfit(detail),
            PluginError::Taken { .. } | PluginError::InUse { .. } => Self::conflict(detail),
            PluginError::Changed { .. } => Self::conflict(detail),
            PluginError::Full { .. } => Self::full(detail),
            PluginError::Unknown { .. } => Self::not_found(detail),
            PluginError::Digest { .. }
            | PluginError::Repository { .. }
            | PluginError::Nonsense { .. } => Self::bad_repository(detail),
            PluginError::Store(StoreError::Bus(error)) => error.into(),
            PluginError::Store(_) => Self::not_ready(detail),
            PluginError::Broken(_) => Self::internal(detail),
        }
    }
}
