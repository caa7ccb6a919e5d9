//! The REST interface: one file per resource, one line per route in one table.

mod access;
mod alerts;
mod all_logs;
mod app;
mod body;
mod clients;
mod config;
mod crawls;
mod dead;
mod deployments;
mod documents;
mod etag;
mod events;
mod examples;
mod flows;
mod general;
mod health;
mod idempotency;
mod live;
mod logs;
mod messages;
mod metrics;
mod node;
mod nodes;
mod openapi;
mod operation;
mod paging;
mod plugins;
mod problem;
mod profile;
mod queues;
mod registry;
mod requests;
mod sending;
mod services;
mod socket;
mod stream;
mod studio;
mod topics;
mod views;

use std::sync::Arc;

use ::flows::document::Document;
use axum::Router;
use axum::middleware;

pub(crate) use self::access::AllowedHosts;
pub(crate) use self::app::{App, CONNECTIONS_MAX, Running};
use self::messages::EntryShown;
pub(crate) use self::node::{JournalState, journal_state};
pub(crate) use self::openapi::text as openapi_text;
use self::operation::{Handler, delete, get, post, put};
pub(crate) use self::problem::Problem;
pub(crate) use self::requests::Peer;
use self::views::MessageShown;
use crate::deploy::{DefinitionShown, FoundPlugin};

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
    route("GET", "/", "the studio; needs no token", || get(studio::page).gives("text/html; charset=utf-8").tagged()),
    route("GET", "/assets/{file}", "a file of the studio; needs no token", || get(studio::asset).gives("*/*").tagged()),
    route("GET", "/health", "whether all listeners are ready; needs no token", || get(health::show)),
    route("GET", "/metrics", "counters and histograms as Prometheus reads them", || get(metrics::show).gives(metrics::CONTENT_TYPE)),
    route("GET", "/api/v1/openapi.json", "describes all routes, for programs: OpenAPI 3.1", || get(openapi::show).gives("application/json").tagged()),
    route("GET", "/api/v1/node", "version, listeners, data folder, journal", || get(node::show)),
    route("GET", "/api/v1/queues", "all queues and how they are doing", || get(queues::list).fails(&[409])),
    route("GET", "/api/v1/queues/{name}", "one queue", || get(queues::show).fails(&[409])),
    route("DELETE", "/api/v1/queues/{name}", "ends a queue: its messages go, its subscribers get nothing more", || delete(queues::close).fails(&[409, 500])),
    route("GET", "/api/v1/queues/{name}/messages", "looks at waiting messages without taking them", || get(messages::peek).fails(&[409, 500])),
    route("POST", "/api/v1/queues/{name}/messages", "publishes to a queue", || post(messages::publish_to_queue).once().fails(&[504, 507])),
    route("GET", "/api/v1/queues/{name}/stream", "takes messages off a queue, one line of JSON each", || get(stream::from_queue).streams::<EntryShown>().fails(&[409, 507])),
    route("GET", "/api/v1/topics", "all topics and how they are doing", || get(topics::list).fails(&[409])),
    route("GET", "/api/v1/topics/{name}", "one topic", || get(topics::show).fails(&[409])),
    route("POST", "/api/v1/topics/{name}/messages", "publishes to a topic", || post(messages::publish_to_topic).once().fails(&[504, 507])),
    route("GET", "/api/v1/topics/{name}/stream", "what is published to a topic from now on, one line of JSON each", || get(stream::from_topic).streams::<EntryShown>().fails(&[409, 507])),
    route("GET", "/api/v1/clients", "who is connected to this node over STOMP and gamq, page by page", || get(clients::list)),
    route("DELETE", "/api/v1/clients/{id}", "hangs up on a client", || delete(clients::hang_up)),
    route("GET", "/api/v1/dead", "the dead letters", || get(dead::list).fails(&[409, 500])),
    route("POST", "/api/v1/dead/replay", "sends dead letters back to where they came from", || post(dead::replay).once().fails(&[500, 507])),
    route("POST", "/api/v1/dead/purge", "removes dead letters", || post(dead::purge).once().fails(&[500])),
    route("PUT", "/api/v1/components", "uploads a component and gives its digest", || put(deployments::upload).fails(&[500])),
    route("GET", "/api/v1/plugins", "the plug-ins of all repositories, page by page", || get(plugins::list).fails(&[409, 502])),
    route("POST", "/api/v1/plugins", "takes in a plug-in; the component says what it is", || post(plugins::push).fails(&[409, 422, 500, 507])),
    route("GET", "/api/v1/plugins/{id}", "all versions of a plug-in", || get(plugins::versions).fails(&[409, 502])),
    route("GET", "/api/v1/plugins/{id}/{version}", "the descriptor of a plug-in", || get(plugins::show).gives_json::<FoundPlugin>(200).tagged().fails(&[409, 502])),
    route("PUT", "/api/v1/plugins/{id}/{version}", "takes in a plug-in under this id and version", || put(plugins::put).fails(&[409, 422, 500, 507])),
    route("DELETE", "/api/v1/plugins/{id}/{version}", "removes a plug-in that no stage uses", || delete(plugins::remove).fails(&[409, 500])),
    route("GET", "/api/v1/plugins/{id}/{version}/component", "the component of a plug-in", || get(plugins::component).gives("application/wasm").tagged().fails(&[409, 502])),
    route("POST", "/api/v1/deployments", "deploys a component as a stage, or replaces the code of one", || post(deployments::deploy).guarded().once().fails(&[500])),
    route("POST", "/api/v1/document-check", "what is wrong with a flow document, and where", || post(documents::check).fails(&[500])),
    route("GET", "/api/v1/document-schema", "the JSON Schema of flow documents", || get(documents::show_schema)),
    route("GET", "/api/v1/documents/{flow}", "the document of a flow, as JSON or TOML; its ETag serves as If-Match", || get(documents::show).gives_json::<Document>(200).gives(documents::TOML).tagged().fails(&[409])),
    route("PUT", "/api/v1/documents/{flow}", "makes a flow like a document, or only says by which steps", || put(documents::apply).guarded().once().fails(&[409, 500])),
    route("GET", "/api/v1/documents/{flow}/versions", "the last documents of a flow, the newest first", || get(documents::versions).fails(&[409])),
    route("GET", "/api/v1/documents/{flow}/versions/{version}", "one of the last documents of a flow, as JSON or TOML", || get(documents::show_version).gives_json::<Document>(200).gives(documents::TOML).tagged().fails(&[409])),
    route("GET", "/api/v1/flows", "all flows with their stages", || get(flows::list)),
    route("GET", "/api/v1/flows/{flow}", "one flow", || get(flows::show)),
    route("DELETE", "/api/v1/flows/{flow}", "stops all stages of a flow", || delete(flows::stop).fails(&[409, 500])),
    route("GET", "/api/v1/flows/{flow}/{stage}", "one stage", || get(flows::show_stage)),
    route("DELETE", "/api/v1/flows/{flow}/{stage}", "stops a stage; what waits in its queue stays there", || delete(flows::stop_stage).guarded().fails(&[409, 500])),
    route("GET", "/api/v1/flows/{flow}/{stage}/definition", "what a stage is to be; its ETag serves as If-Match", || get(flows::definition).gives_json::<DefinitionShown>(200).tagged().fails(&[409])),
    route("GET", "/api/v1/flows/{flow}/{stage}/versions", "the versions that a stage had, the newest first", || get(flows::versions)),
    route("POST", "/api/v1/flows/{flow}/{stage}/restart", "starts workers again, with their state or without it", || post(flows::restart).once().fails(&[500])),
    route("GET", "/api/v1/flows/{flow}/{stage}/workers", "the workers of a stage, page by page", || get(flows::workers)),
    route("DELETE", "/api/v1/flows/{flow}/{stage}/workers/{worker}", "stops one worker", || delete(flows::stop_worker).fails(&[409, 500])),
    route("GET", "/api/v1/flows/{flow}/{stage}/history", "what happened to a stage: versions, rollbacks, failures", || get(flows::stage_history)),
    route("GET", "/api/v1/flows/{flow}/{stage}/decisions", "what a stage decided about its number of workers, and why", || get(flows::decisions)),
    route("GET", "/api/v1/flows/{flow}/{stage}/logs", "what its workers wrote, one line of JSON each", || get(logs::show).streams::<runtime::LogLine>()),
    route("POST", "/api/v1/flows/{flow}/{stage}/pause", "lets a stage take nothing, on all nodes and after restarts; what comes waits", || post(flows::pause).once().fails(&[500])),
    route("POST", "/api/v1/flows/{flow}/{stage}/resume", "lets a stage take everything again", || post(flows::resume).once().fails(&[500])),
    route("GET", "/api/v1/flows/{flow}/{stage}/sample", "some of what an output emits on this node; the first look begins it", || get(flows::sample)),
    route("POST", "/api/v1/flows/{flow}/{stage}/scale", "gives a stage another number of workers", || post(flows::scale).guarded().once().fails(&[500])),
    route("GET", "/api/v1/examples", "flows to begin with, as documents", || get(examples::list)),
    route("POST", "/api/v1/examples/{id}", "puts the files of an example where its flow reads them, and applies its document", || post(examples::run).once().fails(&[409, 422, 500, 502, 507])),
    route("GET", "/api/v1/crawls", "all crawls: flows with a frontier", || get(crawls::list).fails(&[409])),
    route("GET", "/api/v1/crawls/{flow}", "how far a crawl is, on all nodes together", || get(crawls::show).fails(&[409, 500, 504])),
    route("GET", "/api/v1/crawls/{flow}/pages", "pages that a crawl has stored, page by page", || get(crawls::pages).fails(&[409, 500, 504])),
    route("GET", "/api/v1/crawls/{flow}/search", "pages with these words in their text", || get(crawls::search).fails(&[409, 500, 504])),
    route("GET", "/api/v1/crawls/{flow}/why", "why a crawl has fetched a URL, or has not", || get(crawls::why).fails(&[409, 500, 504])),
    route("GET", "/api/v1/crawls/{flow}/export", "all that a crawl has stored, as JSON lines or CSV", || get(crawls::export).gives(crawls::JSON_LINES).gives(crawls::CSV).fails(&[409, 500, 504])),
    route("GET", "/api/v1/nodes", "all nodes that share the work, and what they have of it", || get(nodes::list).fails(&[409])),
    route("GET", "/api/v1/nodes/{node}", "one node", || get(nodes::show).fails(&[409])),
    route("POST", "/api/v1/nodes/{node}", "tells a node what to be: running, paused, draining, its labels, its prefetch", || post(nodes::change).once().fails(&[500])),
    route("POST", "/api/v1/nodes/{node}/profile", "where a node spends its time, seen for some seconds", || post(profile::take).fails(&[409, 500, 504])),
    route("GET", "/api/v1/logs", "the logs of all nodes, one line of JSON each", || get(all_logs::show).streams::<all_logs::Shown>().fails(&[404, 409])),
    route("GET", "/api/v1/config", "the configuration of a node, key by key, and where it comes from", || get(config::list).fails(&[404, 409, 500, 504])),
    route("GET", "/api/v1/config/history", "who changed the configuration while the node ran, the newest first", || get(config::history).fails(&[404, 409, 500, 504])),
    route("GET", "/api/v1/config/{key}", "one key of the configuration", || get(config::show).fails(&[409, 500, 504])),
    route("PUT", "/api/v1/config/{key}", "changes a key while the node runs", || put(config::set).fails(&[409, 500, 504])),
    route("DELETE", "/api/v1/config/{key}", "goes back to what is configured", || delete(config::unset).fails(&[409, 500, 504])),
    route("POST", "/api/v1/moves", "moves a flow, a stage or a worker to a node", || post(nodes::relocate).once().fails(&[404, 500])),
    route("GET", "/api/v1/history", "what happened to all stages", || get(flows::history)),
    route("GET", "/api/v1/requests", "who changed something on this node and when, the newest first", || get(requests::list)),
    route("GET", "/api/v1/alerts", "what is wrong, and how it went with those who are told", || get(alerts::list)),
    route("GET", "/api/v1/alerts/rules", "what is watched, and when it is wrong", || get(alerts::rules)),
    route("GET", "/api/v1/alerts/silences", "of which alerts nobody is told, and until when", || get(alerts::silences).fails(&[409])),
    route("POST", "/api/v1/alerts/silences", "for a time, nobody is told of some alerts", || post(alerts::silence).once().fails(&[404, 507])),
    route("DELETE", "/api/v1/alerts/silences/{id}", "ends a silence", || delete(alerts::unsilence).fails(&[409, 507])),
    route("POST", "/api/v1/alerts/test", "sends a test to everybody who is told, and says what came of it", || post(alerts::test).once()),
    route("GET", "/api/v1/events", "what happens, over a WebSocket or as lines of JSON", || get(events::listen).streams::<events::EventShown>()),
    route("GET", "/api/v1/live", "numbers of stages, edges and queues as they change, over a WebSocket, or once as JSON", || get(live::watch).gives_json::<live::LiveShown>(200)),
    route("POST", "/api/v1/general", "says something to all nodes and all who listen", || post(general::say).once()),
    route("GET", "/api/v1/services", "requests over HTTP that stages and handlers of this node answer, and how it goes with them", || get(services::show)),
    route("POST", "/api/v1/messages/{address}", "sends to a stage, a worker, a queue or a topic", || post(sending::send).once().fails(&[504, 507])),
    route("POST", "/api/v1/asks/{address}", "asks a stage or a worker and answers with its reply", || post(sending::ask).gives_json::<MessageShown>(200).gives("*/*").once().fails(&[502, 504, 507])),
    route("GET", "/registry/system/list", "all nodes that live, as systems", || get(registry::list)),
    route("GET", "/registry/system/{bootstrapperId}", "what was deployed for a node", || get(registry::show)),
    route("POST", "/registry/deploy", "deploys workers for a node, each at its place", || post(registry::deploy).once().fails(&[404, 500])),
    route("POST", "/registry/system/shutdown", "ends what a node has of a stage or of a flow", || post(registry::shutdown).once().fails(&[404, 500])),
];

/// All routes behind the checks of host, origin and token.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let Handler {
            router: mut handler,
            operation,
        } = (route.handler)();
        if !operation.takes_body {
            let leave_nothing = middleware::from_fn_with_state(app.clone(), body::leave_nothing);
            handler = handler.route_layer(leave_nothing);
        }
        if operation.once {
            let once = middleware::from_fn_with_state(app.clone(), idempotency::once);
            handler = handler.route_layer(once);
        }
        router = router.route(route.path, handler);
    }
    router
        .fallback(async || {
            Problem::not_found("there is nothing at this path: see GET /api/v1/openapi.json")
        })
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(middleware::from_fn(etag::spare))
        .layer(middleware::from_fn_with_state(app.clone(), access::check))
        // Around the checks: whom they refuse is noted too.
        .layer(middleware::from_fn_with_state(app.clone(), requests::note))
        .with_state(app)
}
