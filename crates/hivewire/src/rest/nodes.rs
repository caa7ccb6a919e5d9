//! `/api/v1/nodes` and `/api/v1/moves`

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use control::{Member, NodeState, Order};
use kernel::{Address, Name};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use super::views::name_of;
use crate::deploy::{MoveTarget, state_name};

pub(super) async fn list(Node(running): Node) -> Result<Json<Value>, Problem> {
    let me = running
        .deployments
        .agent()
        .map(|agent| agent.name().clone());
    let nodes = running.deployments.nodes()?;
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(member, lives)| {
            let is_this = me
                .as_ref()
                .is_some_and(|me| me.as_str() == member.last.node);
            view(member, *lives, is_this)
        })
        .collect();
    Ok(Json(json!({ "nodes": nodes })))
}

fn view(member: &Member, lives: bool, is_this: bool) -> Value {
    let beat = &member.last;
    // What a dead one had belongs to others by now.
    let stages = lives.then_some(&beat.stages).into_iter().flatten();
    let stages: Map<String, Value> = stages
        .map(|(stage, part)| {
            let shown = json!({ "version": part.version, "parts": part.holds.count() });
            (stage.clone(), shown)
        })
        .collect();
    json!({
        "name": beat.node,
        "state": state_name(beat.state, lives),
        "this": is_this,
        "labels": beat.labels,
        "load": beat.load,
        "stages": stages,
        "heard_at_ms": member.heard_at.as_millis(),
    })
}

/// What is not said stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeChange {
    state: Option<NodeState>,
    stop: Option<bool>,
    labels: Option<BTreeMap<String, String>>,
    prefetch: Option<u32>,
}

pub(super) async fn change(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let node = name_of(path)?;
    let bytes = body::read(&app, &headers, body, body::ORDER_BYTES_MAX).await?;
    let change: NodeChange = body::parse(&bytes)?;
    if change.prefetch == Some(0) {
        return Err(Problem::bad_request("prefetch is at least 1"));
    }
    let changed = running.deployments.order(&node, |order: &mut Order| {
        order.state = change.state.unwrap_or(order.state);
        order.stop = change.stop.unwrap_or(order.stop);
        if change.labels.is_some() {
            order.labels.clone_from(&change.labels);
        }
        order.prefetch = change.prefetch.or(order.prefetch);
    });
    Ok(Json(
        json!({ "node": node.as_str(), "order": changed.await? }),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    what: String,
    to: String,
}

pub(super) async fn relocate(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let bytes = body::read(&app, &headers, body, body::ORDER_BYTES_MAX).await?;
    let Move { what, to } = body::parse(&bytes)?;
    let target = target_of(&what)?;
    let node = Name::new(&to).map_err(|error| Problem::bad_request(error.to_string()))?;
    let stages = running.deployments.move_to(&target, &node).await?;
    Ok(Json(json!({ "moved": stages, "to": to })))
}

fn target_of(text: &str) -> Result<MoveTarget, Problem> {
    let wrong = || {
        Problem::bad_request(format!(
            "{text:?} is no flow, flow/stage or flow/stage/worker"
        ))
    };
    if !text.contains('/') {
        return Name::new(text).map(MoveTarget::Flow).map_err(|_| wrong());
    }
    match text.parse() {
        Ok(Address::Stage(stage)) => Ok(MoveTarget::Stage(stage)),
        Ok(Address::Worker(worker)) => Ok(MoveTarget::Worker(worker)),
        _ => Err(wrong()),
    }
}
