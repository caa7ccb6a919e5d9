//! `GET /health`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::app::App;
use super::node::journal_state;

pub(super) async fn show(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let version = env!("CARGO_PKG_VERSION");
    let unavailable = |status: &str| {
        let body = json!({ "status": status, "version": version });
        (StatusCode::SERVICE_UNAVAILABLE, Json(body))
    };
    let Some(running) = app.running.get() else {
        return unavailable("starting");
    };
    if app.is_draining() {
        return unavailable("draining");
    }
    let mut body = json!({
        "status": "ready",
        "version": version,
        "uptime_seconds": app.started.elapsed().as_secs(),
    });
    if let Some(broker) = &running.broker {
        if broker.journal().failure().is_some() {
            return unavailable("failed");
        }
        body["journal"] = journal_state(broker).await.into();
    }
    if let Some(agent) = running.deployments.agent() {
        if agent.is_cut_off() {
            return unavailable("cut off");
        }
        body["node"] = agent.name().as_str().into();
    }
    (StatusCode::OK, Json(body))
}
