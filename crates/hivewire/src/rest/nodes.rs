//! `/api/v1/nodes` and `/api/v1/moves`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use control::{Agent, Member, NodeState, Order as NodeOrder};
use kernel::{Address, Name, StageAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::{Node, Running};
use super::body::Order;
use super::etag::Tagged;
use super::paging::{LIMIT_MAX, limit_of, next_of};
use super::problem::Problem;
use super::views::{bad_query, name_of};
use crate::deploy::{ControlError, MoveTarget};

/// Which nodes somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodesQuery {
    /// How their names begin.
    q: Option<String>,
    /// Those that are so.
    state: Option<ShownState>,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many at most: 1,000 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
}

/// How a node is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShownState {
    /// It takes its share.
    Running,
    /// It keeps what it has and does nothing with it.
    Paused,
    /// It gives everything away.
    Draining,
    /// It was not heard of late.
    Dead,
}

/// Nodes in the order of their names.
#[derive(Serialize, JsonSchema)]
pub(super) struct NodePage {
    nodes: Vec<NodeShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A node, as the one that answers has heard of it.
#[derive(Serialize, JsonSchema)]
pub(super) struct NodeShown {
    name: String,
    state: ShownState,
    /// Whether it is the one that answers.
    this: bool,
    labels: BTreeMap<String, String>,
    /// Hundredths of its cores in use.
    load: u32,
    /// What it has of stages, by their addresses.
    stages: BTreeMap<String, StagePart>,
    /// When it was heard last, in milliseconds since 1970.
    heard_at_ms: u64,
}

/// What a node has of a stage.
#[derive(Serialize, JsonSchema)]
struct StagePart {
    /// The version that it runs.
    version: u32,
    /// How many parts it has.
    parts: u32,
}

fn agent(running: &Running) -> Result<&Agent, Problem> {
    let agent = running.deployments.agent();
    agent.ok_or_else(|| ControlError::Alone.into())
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<NodesQuery>, QueryRejection>,
) -> Result<Tagged<NodePage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = limit_of(query.limit)?;
    let agent = agent(&running)?;
    let (nodes, next) = agent.look(|members, now| {
        let wanted = members.known(now).filter(|(member, lives)| {
            let name = member.last.node.as_str();
            let state = state_of(member, *lives);
            query.after.as_deref().is_none_or(|after| name > after)
                && query.q.as_deref().is_none_or(|q| name.starts_with(q))
                && query.state.is_none_or(|wanted| wanted == state)
        });
        let some: Vec<_> = wanted.take(limit + 1).collect();
        let (some, next) = next_of(some, limit, |(member, _)| member.last.node.clone());
        let view = |(member, lives): (&Member, bool)| view(agent, member, lives);
        (some.into_iter().map(view).collect(), next)
    });
    Ok(Tagged(NodePage { nodes, next }))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Tagged<NodeShown>, Problem> {
    let name = name_of(path)?;
    let agent = agent(&running)?;
    let found = agent.look(|members, now| {
        let mut known = members.known(now);
        let found = known.find(|(member, _)| member.last.node == name.as_str());
        found.map(|(member, lives)| view(agent, member, lives))
    });
    let unknown = || {
        Problem::not_found(format!(
            "no node {name} was heard of: see GET /api/v1/nodes"
        ))
    };
    found.map(Tagged).ok_or_else(unknown)
}

fn state_of(member: &Member, lives: bool) -> ShownState {
    match member.last.state {
        _ if !lives => ShownState::Dead,
        NodeState::Running => ShownState::Running,
        NodeState::Paused => ShownState::Paused,
        NodeState::Draining => ShownState::Draining,
    }
}

fn view(agent: &Agent, member: &Member, lives: bool) -> NodeShown {
    let beat = &member.last;
    // What a dead one had belongs to others by now.
    let stages = lives.then_some(&beat.stages).into_iter().flatten();
    let held = stages.filter(|(_, part)| part.holds.count() > 0);
    let stages = held.map(|(stage, part)| {
        let shown = StagePart {
            version: part.version,
            parts: part.holds.count(),
        };
        (stage.clone(), shown)
    });
    NodeShown {
        name: beat.node.clone(),
        state: state_of(member, lives),
        this: agent.name().as_str() == beat.node,
        labels: beat.labels.clone(),
        load: beat.load,
        stages: stages.collect(),
        heard_at_ms: member.heard_at.as_millis(),
    }
}

/// What is not said stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeChange {
    /// What it is to be ready for.
    state: Option<NodeState>,
    /// With `draining`: whether its process ends once everything is given away.
    stop: Option<bool>,
    /// What distinguishes it, in place of all labels.
    labels: Option<BTreeMap<String, String>>,
    /// How many messages of one queue it may have on their way.
    #[schemars(range(min = 1))]
    prefetch: Option<u32>,
}

/// What a node was told to be.
#[derive(Serialize, JsonSchema)]
pub(super) struct NodeChanged {
    node: String,
    order: NodeOrder,
}

pub(super) async fn change(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    Order(change): Order<NodeChange>,
) -> Result<Json<NodeChanged>, Problem> {
    let node = name_of(path)?;
    if change.prefetch == Some(0) {
        return Err(Problem::bad_request("prefetch is at least 1"));
    }
    let changed = running.deployments.order(&node, |order: &mut NodeOrder| {
        order.state = change.state.unwrap_or(order.state);
        order.stop = change.stop.unwrap_or(order.stop);
        if change.labels.is_some() {
            order.labels.clone_from(&change.labels);
        }
        order.prefetch = change.prefetch.or(order.prefetch);
    });
    Ok(Json(NodeChanged {
        node: node.to_string(),
        order: changed.await?,
    }))
}

/// What is moved where.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    /// `flow`, `flow/stage` or `flow/stage/worker`.
    what: String,
    /// The name of a node.
    to: String,
}

/// What was moved where.
#[derive(Serialize, JsonSchema)]
pub(super) struct Moved {
    moved: Vec<StageAddress>,
    to: String,
}

pub(super) async fn relocate(
    Node(running): Node,
    Order(Move { what, to }): Order<Move>,
) -> Result<Json<Moved>, Problem> {
    let target = target_of(&what)?;
    let node = Name::new(&to).map_err(|error| Problem::bad_request(error.to_string()))?;
    let stages = running.deployments.move_to(&target, &node).await?;
    Ok(Json(Moved { moved: stages, to }))
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
