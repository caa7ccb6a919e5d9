//! Stages as the registry shows them: what each node has of them, and where their workers are.

use control::Member;
use kernel::StageAddress;
use runtime::{Delivery, StageKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::systems::{System, Systems};
use crate::deploy::StageShown;
use crate::rest::app::Running;

/// A stage, as the registry shows it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::rest) struct Isolate {
    pub id: StageAddress,
    worker_uri: String,
    workers_count: u32,
    workers_paths: Vec<String>,
    router_type: String,
    hot_deployment: bool,
}

/// What was deployed for a node.
pub(super) fn isolates(running: &Running, systems: &Systems, asked: &System) -> Vec<Isolate> {
    let nodes = running.deployments.nodes().unwrap_or_default();
    let stages = running.deployments.flows().into_iter();
    let stages = stages.flat_map(|flow| flow.stages);
    let isolates = stages.filter_map(|stage| {
        let places = places(systems, asked, &nodes, &stage)?;
        Some(isolate(systems, asked, &stage, places))
    });
    isolates.collect()
}

fn isolate(systems: &Systems, asked: &System, stage: &StageShown, places: Places) -> Isolate {
    let spec = &stage.stage.spec;
    let deployment = stage.deployment.as_ref();
    let source = deployment.map(|deployment| deployment.source.clone());
    let own_router = deployment.and_then(|deployment| deployment.router_source.clone());
    let paths = places.nodes.iter();
    Isolate {
        id: spec.address.clone(),
        // What is linked in has no other place than its name.
        worker_uri: source.unwrap_or_else(|| stage.stage.code.name.clone()),
        workers_count: places.workers,
        workers_paths: paths.map(|node| systems.path(node, asked)).collect(),
        router_type: match &spec.kind {
            StageKind::Pool(kind) | StageKind::Routed(kind) => {
                own_router.unwrap_or_else(|| kind.name().to_owned())
            }
            StageKind::Keyed(rule) => rule.to_string(),
        },
        hot_deployment: deployment.is_some_and(|deployment| deployment.watch),
    }
}

/// How many workers a node has of a stage, and where they are.
struct Places {
    workers: u32,
    nodes: Vec<String>,
}

/// What a node has of a stage; none if it has nothing of it.
fn places(
    systems: &Systems,
    asked: &System,
    nodes: &[(Member, bool)],
    stage: &StageShown,
) -> Option<Places> {
    let workers = stage.stage.spec.workers;
    let all_here = || Places {
        workers,
        nodes: vec![asked.name.clone(); workers as usize],
    };
    let (Some(me), Some(deployment)) = (&systems.me, &stage.deployment) else {
        // Code that is linked in stays in its process, and who stands alone has everything.
        let is_here = systems.me.as_ref().is_none_or(|me| *me == asked.name);
        return is_here.then(all_here);
    };
    let named = &deployment.places;
    if !named.replicas.is_empty() {
        let on = named.replicas.get(&asked.name)?;
        return Some(Places {
            workers: on.len() as u32,
            nodes: on.clone(),
        });
    }
    let holders = holders(nodes, stage);
    if !named.on.contains(&asked.name) && !holders.contains(&asked.name) {
        // What could not be loaded here runs nowhere, but somebody must show it.
        let is_lost = holders.is_empty() && *me == asked.name;
        return is_lost.then(|| Places {
            workers,
            nodes: Vec::new(),
        });
    }
    let is_named_one_by_one = named.on.len() == workers as usize && named.moved.is_empty();
    Some(Places {
        workers,
        nodes: match is_named_one_by_one {
            true => named.on.clone(),
            false => holders,
        },
    })
}

/// The nodes that have the workers of a stage now, in the order of the workers. Each node has all workers
/// of a keyed stage and of one in memory, so there it is one for each node.
fn holders(nodes: &[(Member, bool)], stage: &StageShown) -> Vec<String> {
    let spec = &stage.stage.spec;
    let address = spec.address.to_string();
    let living = nodes.iter().filter(|(_, lives)| *lives);
    let claims: Vec<_> = living
        .filter_map(|(member, _)| {
            let beat = member.last.stages.get(&address)?;
            Some((&member.last.node, &beat.holds))
        })
        .collect();
    let first_worker = match (spec.delivery, &spec.kind) {
        (Delivery::Memory, _) | (_, StageKind::Keyed(_)) => {
            let having = claims.iter().filter(|(_, holds)| holds.count() > 0);
            return having.map(|(node, _)| (*node).clone()).collect();
        }
        (_, StageKind::Pool(_)) => 0,
        // The owner comes before the workers.
        (_, StageKind::Routed(_)) => 1,
    };
    let holder = |worker: u32| {
        let mut holding = claims.iter().filter(|(_, holds)| holds.contains(worker));
        holding.next().map(|(node, _)| (*node).clone())
    };
    let workers = first_worker..first_worker + spec.workers;
    workers.filter_map(holder).collect()
}
