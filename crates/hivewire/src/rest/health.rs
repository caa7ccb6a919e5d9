//! `GET /health`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::app::App;
use super::node::{JournalState, journal_state};
use super::operation::{Answers, Operation};

/// How a node is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    status: HealthStatus,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalState>,
    /// What it is called among others.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum HealthStatus {
    /// All listeners are ready.
    Ready,
    /// They are not yet.
    Starting,
    /// It ends.
    Draining,
    /// Its journal has failed.
    Failed,
    /// It does not hear itself on the bus any more.
    #[serde(rename = "cut off")]
    CutOff,
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        let status = match self.status {
            HealthStatus::Ready => StatusCode::OK,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, Json(self)).into_response()
    }
}

impl Answers for Health {
    fn answers(operation: &mut Operation) {
        operation.gives_json::<Self>(200);
        operation.gives_json::<Self>(503);
    }
}

pub(super) async fn show(State(app): State<Arc<App>>) -> Health {
    let is = |status| Health {
        status,
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: None,
        journal: None,
        node: None,
    };
    let Some(running) = app.running.get() else {
        return is(HealthStatus::Starting);
    };
    if app.is_draining() {
        return is(HealthStatus::Draining);
    }
    let mut health = is(HealthStatus::Ready);
    health.uptime_seconds = Some(app.started.elapsed().as_secs());
    if let Some(broker) = &running.broker {
        if broker.journal().failure().is_some() {
            return is(HealthStatus::Failed);
        }
        health.journal = Some(journal_state(broker).await);
    }
    if let Some(agent) = running.deployments.agent() {
        if agent.is_cut_off() {
            return is(HealthStatus::CutOff);
        }
        health.node = Some(agent.name().to_string());
    }
    health
}
