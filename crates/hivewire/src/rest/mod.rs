//! The REST interface: one file per resource, one line per route in one table.

mod access;
mod alerts;
mod all_logs;
mod app;
mod body;
mod config;
mod dead;
mod deployments;
mod flows;
mod health;
mod logs;
mod messages;
mod metrics;
mod node;
mod nodes;
mod page;
mod plugins;
mod problem;
mod profile;
mod queues;
mod registry;
mod requests;
mod sending;
mod stream;
mod topics;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{MethodRouter, delete, get, post, put};

pub(crate) use self::access::AllowedHosts;
pub(crate) use self::app::{App, CONNECTIONS_MAX, Running};
pub(crate) use self::node::journal_state;
use self::problem::Problem;
pub(crate) use self::requests::Peer;

type Handler = MethodRouter<Arc<App>>;

/// One route.
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path; what stands in braces is a name, percent-encoded.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    handler: fn() -> Handler,
}

const fn route(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    handler: fn() -> Handler,
) -> Route {
    Route {
        method,
        path,
        summary,
        handler,
    }
}

/// All routes there are.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route("GET", "/", "what this is and where the API is", || get(page::show)),
    route("GET", "/health", "whether all listeners are ready; needs no token", || get(health::show)),
    route("GET", "/metrics", "counters and histograms as Prometheus reads them", || get(metrics::show)),
    route("GET", "/api/v1/node", "version, listeners, data folder, journal", || get(node::show)),
    route("GET", "/api/v1/queues", "all queues and how they are doing", || get(queues::list)),
    route("GET", "/api/v1/queues/{name}", "one queue", || get(queues::show)),
    route("DELETE", "/api/v1/queues/{name}", "ends a queue: its messages go, its subscribers get nothing more", || delete(queues::close)),
    route("GET", "/api/v1/queues/{name}/messages", "looks at waiting messages without taking them", || get(messages::peek)),
    route("POST", "/api/v1/queues/{name}/messages", "publishes to a queue", || post(messages::publish_to_queue)),
    route("GET", "/api/v1/queues/{name}/stream", "takes messages off a queue, one line of JSON each", || get(stream::from_queue)),
    route("GET", "/api/v1/topics", "all topics and how they are doing", || get(topics::list)),
    route("GET", "/api/v1/topics/{name}", "one topic", || get(topics::show)),
    route("POST", "/api/v1/topics/{name}/messages", "publishes to a topic", || post(messages::publish_to_topic)),
    route("GET", "/api/v1/topics/{name}/stream", "what is published to a topic from now on, one line of JSON each", || get(stream::from_topic)),
    route("GET", "/api/v1/dead", "the dead letters", || get(dead::list)),
    route("POST", "/api/v1/dead/replay", "sends dead letters back to where they came from", || post(dead::replay)),
    route("POST", "/api/v1/dead/purge", "removes dead letters", || post(dead::purge)),
    route("PUT", "/api/v1/components", "uploads a component and gives its digest", || put(deployments::upload)),
    route("GET", "/api/v1/plugins", "the plug-ins of all repositories, page by page", || get(plugins::list)),
    route("POST", "/api/v1/plugins", "takes in a plug-in; the component says what it is", || post(plugins::push)),
    route("GET", "/api/v1/plugins/{id}", "all versions of a plug-in", || get(plugins::versions)),
    route("GET", "/api/v1/plugins/{id}/{version}", "the descriptor of a plug-in", || get(plugins::show)),
    route("PUT", "/api/v1/plugins/{id}/{version}", "takes in a plug-in under this id and version", || put(plugins::put)),
    route("DELETE", "/api/v1/plugins/{id}/{version}", "removes a plug-in that no stage uses", || delete(plugins::remove)),
    route("GET", "/api/v1/plugins/{id}/{version}/component", "the component of a plug-in", || get(plugins::component)),
    route("POST", "/api/v1/deployments", "deploys a component as a stage, or replaces the code of one", || post(deployments::deploy)),
    route("GET", "/api/v1/flows", "all flows with their stages", || get(flows::list)),
    route("GET", "/api/v1/flows/{flow}", "one flow", || get(flows::show)),
    route("DELETE", "/api/v1/flows/{flow}", "stops all stages of a flow", || delete(flows::stop)),
    route("GET", "/api/v1/flows/{flow}/{stage}", "one stage", || get(flows::show_stage)),
    route("DELETE", "/api/v1/flows/{flow}/{stage}", "stops a stage; what waits in its queue stays there", || delete(flows::stop_stage)),
    route("POST", "/api/v1/flows/{flow}/{stage}/restart", "starts workers again, with their state or without it", || post(flows::restart)),
    route("GET", "/api/v1/flows/{flow}/{stage}/workers", "the workers of a stage, page by page", || get(flows::workers)),
    route("DELETE", "/api/v1/flows/{flow}/{stage}/workers/{worker}", "stops one worker", || delete(flows::stop_worker)),
    route("GET", "/api/v1/flows/{flow}/{stage}/history", "what happened to a stage: versions, rollbacks, failures", || get(flows::stage_history)),
    route("GET", "/api/v1/flows/{flow}/{stage}/logs", "what its workers wrote, one line of JSON each", || get(logs::show)),
    route("POST", "/api/v1/flows/{flow}/{stage}/scale", "gives a stage another number of workers", || post(flows::scale)),
    route("GET", "/api/v1/nodes", "all nodes that share the work, and what they have of it", || get(nodes::list)),
    route("POST", "/api/v1/nodes/{node}", "tells a node what to be: running, paused, draining, its labels, its prefetch", || post(nodes::change)),
    route("POST", "/api/v1/nodes/{node}/profile", "where a node spends its time, seen for some seconds", || post(profile::take)),
    route("GET", "/api/v1/logs", "the logs of all nodes, one line of JSON each", || get(all_logs::show)),
    route("GET", "/api/v1/config", "the configuration of a node, key by key, and where it comes from", || get(config::list)),
    route("GET", "/api/v1/config/history", "who changed the configuration while the node ran, the newest first", || get(config::history)),
    route("GET", "/api/v1/config/{key}", "one key of the configuration", || get(config::show)),
    route("PUT", "/api/v1/config/{key}", "changes a key while the node runs", || put(config::set)),
    route("DELETE", "/api/v1/config/{key}", "goes back to what is configured", || delete(config::unset)),
    route("POST", "/api/v1/moves", "moves a flow, a stage or a worker to a node", || post(nodes::relocate)),
    route("GET", "/api/v1/history", "what happened to all stages", || get(flows::history)),
    route("GET", "/api/v1/requests", "who changed something on this node and when, the newest first", || get(requests::list)),
    route("GET", "/api/v1/alerts", "what is wrong on this node, and how it went with those who are told", || get(alerts::list)),
    route("GET", "/api/v1/alerts/rules", "what is watched, and when it is wrong", || get(alerts::rules)),
    route("GET", "/api/v1/alerts/silences", "of which alerts nobody is told, and until when", || get(alerts::silences)),
    route("POST", "/api/v1/alerts/silences", "for a time, nobody is told of some alerts", || post(alerts::silence)),
    route("DELETE", "/api/v1/alerts/silences/{id}", "ends a silence", || delete(alerts::unsilence)),
    route("POST", "/api/v1/alerts/test", "sends a test to everybody who is told, and says what came of it", || post(alerts::test)),
    route("POST", "/api/v1/messages/{address}", "sends to a stage, a worker, a queue or a topic", || post(sending::send)),
    route("POST", "/api/v1/asks/{address}", "asks a stage or a worker and answers with its reply", || post(sending::ask)),
    route("GET", "/registry/system/list", "all nodes that live, as systems", || get(registry::list)),
    route("GET", "/registry/system/{bootstrapperId}", "what was deployed for a node", || get(registry::show)),
    route("POST", "/registry/deploy", "deploys workers for a node, each at its place", || post(registry::deploy)),
    route("POST", "/registry/system/shutdown", "ends what a node has of a stage or of a flow", || post(registry::shutdown)),
];

/// All routes behind the checks of host, origin and token.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(async || {
            Problem::not_found("there is nothing at this path: see docs/reference/rest.md")
        })
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(middleware::from_fn_with_state(app.clone(), access::check))
        // Around the checks: whom they refuse is noted too.
        .layer(middleware::from_fn_with_state(app.clone(), requests::note))
        .with_state(app)
}
