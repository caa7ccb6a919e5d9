//! `/registry`: what runs where, in the words of the system that Hivewire takes over from. A bootstrapper
//! is a node, an isolate system a flow, and an isolate a stage; `workersPaths` names the place of each of
//! its workers.

mod isolates;
mod queuing;
mod systems;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use kernel::StageAddress;
use runtime::RouterKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::isolates::{Isolate, isolates};
use self::systems::{System, Systems};
use super::app::Node;
use super::body::Order;
use super::problem::Problem;
use crate::deploy::{DeployRequest, Given, Replica, RouterRequest};

/// The only thing that a deployment does.
const ADD: &str = "action.addIsolate";

/// A node that lives, as the registry shows it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SystemShown {
    bootstrapper_id: String,
    /// Empty if it has no HTTP.
    ip: String,
    port: String,
}

pub(super) async fn list(Node(running): Node) -> Json<Vec<SystemShown>> {
    let systems = Systems::of(&running);
    let view = |system: &System| {
        let (ip, port) = match system.address {
            Some(address) => (address.ip().to_string(), address.port().to_string()),
            None => Default::default(),
        };
        SystemShown {
            bootstrapper_id: system.id(),
            ip,
            port,
        }
    };
    Json(systems.living().map(view).collect())
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<BTreeMap<String, Vec<Isolate>>>, Problem> {
    let Path(id) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let systems = Systems::of(&running);
    let asked = systems.find(&id)?;
    let mut flows: BTreeMap<String, Vec<Isolate>> = BTreeMap::new();
    for isolate in isolates(&running, &systems, asked) {
        let flow = isolate.id.flow().to_string();
        flows.entry(flow).or_default().push(isolate);
    }
    Ok(Json(flows))
}

/// What is to be deployed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Deployment {
    bootstrapper_id: String,
    action: String,
    message_queuing_system_server: Option<String>,
    isolate_system_name: String,
    isolate_name: String,
    uri: String,
    workers_paths: Vec<String>,
    router_type: Option<String>,
    hot_deployment: Option<bool>,
    args: Option<Value>,
}

pub(super) async fn deploy(
    Node(running): Node,
    Order(deployment): Order<Deployment>,
) -> Result<StatusCode, Problem> {
    let systems = Systems::of(&running);
    if let Some(server) = &deployment.message_queuing_system_server {
        queuing::check(&running, &systems, server)?;
    }
    let request = deployment.request(&systems)?;
    running.deployments.deploy(request).await?;
    Ok(StatusCode::OK)
}

impl Deployment {
    /// The same in our words.
    fn request(self, systems: &Systems) -> Result<DeployRequest, Problem> {
        if self.action != ADD {
            return Err(Problem::bad_request(format!(
                "there is no action {:?}: write {ADD:?}",
                self.action
            )));
        }
        let asked = systems.find(&self.bootstrapper_id)?;
        if !asked.lives {
            return Err(Problem::conflict(format!(
                "the node {} is dead: choose one of GET /registry/system/list",
                asked.name
            )));
        }
        if self.workers_paths.is_empty() {
            return Err(Problem::bad_request(
                "workersPaths names no place: write one for each worker, such as [\"localhost\"]",
            ));
        }
        let places = self.workers_paths.iter();
        let places = places.map(|entry| systems.place(entry, asked));
        let on: Vec<String> = places.collect::<Result<_, _>>()?;
        let stage = StageAddress::new(&self.isolate_system_name, &self.isolate_name);
        let stage = stage.map_err(|error| Problem::bad_request(error.to_string()))?;
        let source = Given::try_from(self.uri);
        let source = source.map_err(|error| Problem::bad_request(format!("uri: {error}")))?;
        // Uploaded bytes cannot change by themselves.
        let can_change = matches!(source, Given::Source(_));
        let mut request = DeployRequest::new(stage, source);
        request.workers = Some(on.len() as u32);
        request.router = self.router_type.map(router_of).transpose()?;
        request.watch = Some(can_change && self.hot_deployment.unwrap_or(true));
        request.args = self.args.map(text_of);
        request.replica = Some(Replica {
            of: asked.name.clone(),
            on,
        });
        Ok(request)
    }
}

/// Arguments as a worker gets them: text as it is, anything else as JSON.
fn text_of(args: Value) -> String {
    match args {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A router by its name, in any spelling (`round-robin`, `roundRobin`, `Round Robin`), or by where
/// one's own comes from.
fn router_of(text: String) -> Result<RouterRequest, Problem> {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
        letters.flat_map(char::to_lowercase).collect()
    };
    let wanted = letters(&text);
    let mut kinds = RouterKind::ALL.into_iter();
    let kind = kinds.find(|kind| letters(kind.name()) == wanted);
    let name = kind.map_or(text, |kind| kind.name().to_owned());
    let router = RouterRequest::try_from(name);
    router.map_err(|reason| Problem::bad_request(format!("routerType: {reason}")))
}

/// What is to end: a stage or, without one, a flow.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Shutdown {
    bootstrapper_id: String,
    isolate_system_name: String,
    isolate_name: Option<String>,
}

impl Shutdown {
    fn means(&self, stage: &StageAddress) -> bool {
        let is_it = |name: &String| stage.stage().as_str() == name;
        stage.flow().as_str() == self.isolate_system_name
            && self.isolate_name.as_ref().is_none_or(is_it)
    }
}

pub(super) async fn shutdown(
    Node(running): Node,
    Order(order): Order<Shutdown>,
) -> Result<StatusCode, Problem> {
    let systems = Systems::of(&running);
    let asked = systems.find(&order.bootstrapper_id)?;
    let isolates = isolates(&running, &systems, asked).into_iter();
    let stages: Vec<StageAddress> = isolates
        .map(|isolate| isolate.id)
        .filter(|stage| order.means(stage))
        .collect();
    if stages.is_empty() {
        let what = match &order.isolate_name {
            Some(isolate) => format!("{}/{isolate}", order.isolate_system_name),
            None => order.isolate_system_name,
        };
        return Err(Problem::not_found(format!(
            "the node {} has no {what}: GET /registry/system/{} shows what it has",
            asked.name,
            asked.id()
        )));
    }
    for stage in &stages {
        running.deployments.stop_replica(stage, &asked.name).await?;
    }
    Ok(StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn routers_are_known_in_every_spelling() {
        for (text, kind) in [
            ("random", RouterKind::Random),
            ("Random", RouterKind::Random),
            ("roundRobin", RouterKind::RoundRobin),
            ("round-robin", RouterKind::RoundRobin),
            ("Round Robin", RouterKind::RoundRobin),
            ("broadcast", RouterKind::Broadcast),
            ("smallest-mailbox", RouterKind::SmallestMailbox),
        ] {
            let router = router_of(text.to_owned()).unwrap();
            assert_eq!(router, RouterRequest::Kind(kind), "{text}");
        }
        for own in ["/routers/mine.wasm", "https://hive.example/Round-Robin"] {
            let router = router_of(own.to_owned()).unwrap();
            assert!(matches!(router, RouterRequest::Own(_)), "{own}");
        }
        for wrong in ["", "sticky", "own"] {
            assert!(router_of(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arguments_are_text_or_json() {
        assert_eq!(text_of(json!("as it is")), "as it is");
        assert_eq!(text_of(json!(["a", 1])), r#"["a",1]"#);
    }
}
