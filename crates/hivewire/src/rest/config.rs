//! `/api/v1/config`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::{App, Node, Running};
use super::body;
use super::problem::Problem;
use super::requests::Peer;
use super::views::bad_query;
use crate::config::live::{By, Change, Changed, KeyShown};
use crate::desk::Request;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeQuery {
    node: Option<String>,
}

type AnyNode = Result<Query<NodeQuery>, QueryRejection>;
type Key = Result<Path<String>, PathRejection>;

pub(super) async fn list(Node(running): Node, query: AnyNode) -> Result<Json<Value>, Problem> {
    let node = node_of(&running, query)?;
    let keys: Vec<KeyShown> = running.desk.ask(Some(&node), Request::Config).await?;
    Ok(Json(json!({ "node": node, "keys": keys })))
}

pub(super) async fn show(
    Node(running): Node,
    path: Key,
    query: AnyNode,
) -> Result<Json<KeyShown>, Problem> {
    let node = node_of(&running, query)?;
    let key = key_of(path)?;
    Ok(Json(
        running
            .desk
            .ask(Some(&node), Request::ConfigKey { key })
            .await?,
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewValue {
    value: Value,
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: Key,
    query: AnyNode,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Changed>, Problem> {
    let bytes = body::read(&app, &headers, body, body::ORDER_BYTES_MAX).await?;
    let NewValue { value } = body::parse(&bytes)?;
    change(&running, path, query, Some(value), peer).await
}

pub(super) async fn unset(
    Node(running): Node,
    path: Key,
    query: AnyNode,
    peer: Option<Extension<Peer>>,
) -> Result<Json<Changed>, Problem> {
    change(&running, path, query, None, peer).await
}

async fn change(
    running: &Running,
    path: Key,
    query: AnyNode,
    value: Option<Value>,
    peer: Option<Extension<Peer>>,
) -> Result<Json<Changed>, Problem> {
    let node = node_of(running, query)?;
    let by = By {
        // Nobody comes here without it.
        who: "token".to_owned(),
        from: peer.map(|Extension(Peer(address))| address.to_string()),
        via: Some(running.desk.name().to_owned()),
    };
    let key = key_of(path)?;
    let request = Request::ConfigChange { key, value, by };
    Ok(Json(running.desk.ask(Some(&node), request).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    node: Option<String>,
    before: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn history(
    Node(running): Node,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return Err(Problem::bad_request(format!(
            "limit is at most {LIMIT_MAX}"
        )));
    }
    let node = running
        .desk
        .known(query.node.as_deref().unwrap_or(running.desk.name()))?;
    let before = query.before;
    let request = Request::ConfigHistory { before, limit };
    let changes: Vec<Change> = running.desk.ask(Some(&node), request).await?;
    Ok(Json(json!({ "node": node, "changes": changes })))
}

fn node_of(running: &Running, query: AnyNode) -> Result<String, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let desk = &running.desk;
    Ok(desk.known(query.node.as_deref().unwrap_or(desk.name()))?)
}

fn key_of(path: Key) -> Result<String, Problem> {
    let Path(key) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(key)
}
