//! `/api/v1/config`

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::app::{Node, Running};
use super::body::Order;
use super::operation::{Asks, Operation};
use super::problem::Problem;
use super::requests::Peer;
use super::views::bad_query;
use crate::config::live::{By, Change, Changed, KeyShown};
use crate::desk::Request;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 500;

/// Whose configuration is meant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeQuery {
    /// That of this node; without it, of the one that is asked.
    node: Option<String>,
}

/// The configuration of a node.
#[derive(Serialize, JsonSchema)]
pub(super) struct ConfigShown {
    node: String,
    keys: Vec<KeyShown>,
}

/// Changes of a node's configuration, the newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct ConfigHistory {
    node: String,
    changes: Vec<Change>,
}

impl Asks for Option<Extension<Peer>> {
    fn asks(_: &mut Operation) {}
}

type AnyNode = Result<Query<NodeQuery>, QueryRejection>;
type Key = Result<Path<String>, PathRejection>;

pub(super) async fn list(
    Node(running): Node,
    query: AnyNode,
) -> Result<Json<ConfigShown>, Problem> {
    let node = node_of(&running, query)?;
    let keys: Vec<KeyShown> = running.desk.ask(Some(&node), Request::Config).await?;
    Ok(Json(ConfigShown { node, keys }))
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

/// What a key is to be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewValue {
    value: Value,
}

pub(super) async fn set(
    Node(running): Node,
    path: Key,
    query: AnyNode,
    peer: Option<Extension<Peer>>,
    Order(NewValue { value }): Order<NewValue>,
) -> Result<Json<Changed>, Problem> {
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

/// Which changes somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConfigHistoryQuery")]
pub(super) struct HistoryQuery {
    /// Those of this node; without it, of the one that is asked.
    node: Option<String>,
    /// Those with a lower number.
    before: Option<u64>,
    /// How many at most: 100 unless it says otherwise.
    #[schemars(range(max = 500))]
    limit: Option<usize>,
}

pub(super) async fn history(
    Node(running): Node,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<ConfigHistory>, Problem> {
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
    Ok(Json(ConfigHistory { node, changes }))
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
