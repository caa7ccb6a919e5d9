//! Services as they are shown.

use schemars::JsonSchema;
use serde::Serialize;
use web::Explanation;

use super::numbers::NumbersShown;
use super::table::Listed;
use super::{Listener, Services};

/// What this node answers over HTTP for others.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Services")]
pub(crate) struct ServicesShown {
    /// Where services listen; null as long as there is none, or if they cannot.
    address: Option<String>,
    /// Why they are not reached, if that is so.
    problem: Option<String>,
    /// Connections there are now.
    connections: u64,
    /// Requests refused because of the page or the name that they came from.
    refused: u64,
    /// Requests that stages of flows answer.
    routes: Vec<RouteShown>,
    /// Handlers in Rust, of those who embed a node.
    services: Vec<ServiceShown>,
}

/// Requests that a stage answers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceRoute")]
struct RouteShown {
    /// The method.
    method: String,
    /// The path, with its parts in braces.
    path: String,
    /// The flow.
    flow: String,
    /// The stage in it.
    stage: String,
    /// Whether the reply of the stage is the answer; if not, that is 202.
    reply: bool,
    /// How long the reply is waited for; null if none is.
    timeout_ms: Option<u64>,
    /// Whether the stage runs.
    running: bool,
    /// Why no request comes to the stage, if that is so.
    problem: Option<String>,
    #[serde(flatten)]
    numbers: NumbersShown,
}

/// A service in Rust.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MountedService")]
struct ServiceShown {
    /// What its paths begin with.
    prefix: String,
    /// Its routes, states and conflicts, and how it goes with them.
    #[serde(flatten)]
    explanation: Explanation,
}

impl Services {
    /// How it goes.
    pub fn shown(&self) -> ServicesShown {
        let (address, problem, connections) = match &*self.listener.lock() {
            Listener::Unneeded => (None, None, 0),
            Listener::At { address, edge, .. } => {
                (Some(address.to_string()), None, edge.numbers().connections)
            }
            Listener::Failed(reason) => (None, Some(reason.clone()), 0),
        };
        let table = self.table();
        let routes = table.routes.iter().map(|listed| self.route(listed));
        let mounted = self.mounted();
        let services = mounted.services.iter().map(|service| ServiceShown {
            prefix: service.prefix.clone(),
            explanation: service.running.explain(),
        });
        ServicesShown {
            address,
            problem,
            connections,
            refused: self.refused.get(),
            routes: routes.collect(),
            services: services.collect(),
        }
    }

    fn route(&self, Listed { route, problem }: &Listed) -> RouteShown {
        let timeout_ms = u64::try_from(route.timeout.as_millis()).unwrap_or(u64::MAX);
        RouteShown {
            method: route.method.clone(),
            path: route.path.clone(),
            flow: route.stage.flow().to_string(),
            stage: route.stage.stage().to_string(),
            reply: route.reply,
            timeout_ms: route.reply.then_some(timeout_ms),
            running: self.deployments.exists(&route.stage),
            problem: problem.clone(),
            numbers: route.numbers.shown(),
        }
    }
}
