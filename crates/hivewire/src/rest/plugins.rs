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
use semver::Version;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::app::{App, Node, Running};
use super::body;
use super::problem::Problem;
use super::views::bad_query;
use crate::deploy::{
    FoundPlugin, PluginError, PluginNotes, PluginPage, PluginQuery, PluginRef, PluginVersions,
    PushedPlugin, StoreError, version_of,
};

/// Stands for a version where one is read.
const NEWEST: &str = "newest";
const PLUGINS_DEFAULT: usize = 100;
const PLUGINS_MAX: usize = 500;
const TEXT_BYTES_MAX: usize = 200;
/// A component is sent in pieces of that size.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    q: Option<String>,
    kind: Option<PluginKind>,
    after: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    own: bool,
}

/// Whether only the own repository is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Where {
    #[serde(default)]
    own: bool,
}

type MaybeQuery<T> = Result<Query<T>, QueryRejection>;
type MaybePath<T> = Result<Path<T>, PathRejection>;

pub(super) async fn list(
    Node(running): Node,
    query: MaybeQuery<ListQuery>,
) -> Result<Json<PluginPage>, Problem> {
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
    Ok(Json(running.deployments.list_plugins(&query).await?))
}

pub(super) async fn versions(
    Node(running): Node,
    path: MaybePath<String>,
    query: MaybeQuery<Where>,
) -> Result<Json<PluginVersions>, Problem> {
    let Path(id) = path.map_err(bad_path)?;
    let Query(Where { own }) = query.map_err(bad_query)?;
    let id: PluginId = id.parse().map_err(PluginError::from)?;
    Ok(Json(running.deployments.plugin_versions(&id, own).await?))
}

pub(super) async fn show(
    Node(running): Node,
    path: MaybePath<(String, String)>,
    query: MaybeQuery<Where>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&running, path, query).await?;
    let etag = etag_of(&found);
    match is_known(&headers, &etag) {
        true => Ok(not_modified(etag)),
        false => Ok(([(header::ETAG, etag)], Json(found)).into_response()),
    }
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
    if is_known(&headers, &etag) {
        return Ok(not_modified(etag));
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
    State(app): State<Arc<App>>,
    Node(running): Node,
    notes: MaybeQuery<PluginNotes>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PushedPlugin>, Problem> {
    let Query(notes) = notes.map_err(bad_query)?;
    take_in(&app, &running, None, notes, &headers, body).await
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: MaybePath<(String, String)>,
    notes: MaybeQuery<PluginNotes>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PushedPlugin>, Problem> {
    let named = named(path)?;
    let Query(notes) = notes.map_err(bad_query)?;
    take_in(&app, &running, Some(named), notes, &headers, body).await
}

async fn take_in(
    app: &App,
    running: &Running,
    named: Option<(PluginId, Version)>,
    notes: PluginNotes,
    headers: &HeaderMap,
    body: Body,
) -> Result<Json<PushedPlugin>, Problem> {
    let bytes_max = usize::try_from(running.deployments.component_bytes_max());
    let bytes = body::read(app, headers, body, bytes_max.unwrap_or(usize::MAX)).await?;
    let pushed = running.deployments.push_plugin(bytes, named, notes).await?;
    Ok(Json(pushed))
}

pub(super) async fn remove(
    Node(running): Node,
    path: MaybePath<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let (id, version) = named(path)?;
    let removed = running.deployments.remove_plugin(&id, &version).await?;
    Ok(Json(json!({ "removed": removed })))
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

/// Whether the client has this already.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

fn not_modified(etag: String) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response()
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
