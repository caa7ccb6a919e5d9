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
    let journal = journal_state(&running.broker).await;
    if running.broker.journal().failure().is_some() {
        return unavailable("failed");
    }
    let body = json!({
        "status": "ready",
        "version": version,
        "journal": journal,
        "uptime_seconds": app.started.elapsed().as_secs(),
    });
    (StatusCode::OK, Json(body))
}
