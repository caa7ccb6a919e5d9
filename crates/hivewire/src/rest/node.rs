//! `GET /api/v1/node`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use broker::Broker;
use futures_lite::future::poll_once;
use journal::AppendError;
use serde_json::{Value, json};

use super::app::{App, Node};

pub(super) async fn show(State(app): State<Arc<App>>, Node(running): Node) -> Json<Value> {
    let listeners: Vec<Value> = running
        .bound
        .iter()
        .map(|bound| {
            json!({
                "protocol": bound.protocol,
                "transport": bound.transport,
                "address": bound.address.to_string(),
            })
        })
        .collect();
    let (memory_bytes, journal) = match &running.broker {
        Some(broker) => (Some(broker.memory_bytes()), journal(broker).await),
        None => (None, Value::Null),
    };
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "process_id": std::process::id(),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "data": app.data.display().to_string(),
        "listeners": listeners,
        "node": running.deployments.agent().map(|agent| agent.name().to_string()),
        "memory_bytes": memory_bytes,
        "journal": journal,
    }))
}

async fn journal(broker: &Broker) -> Value {
    let journal = broker.journal();
    let counters = journal.counters();
    let segments = journal.segments();
    let bytes: u64 = segments.iter().map(|s| u64::from(s.bytes)).sum();
    let used_bytes: u64 = segments.iter().map(|s| u64::from(s.used_bytes)).sum();
    json!({
        "state": journal_state(broker).await,
        "failure": journal.failure().map(|failed| failed.reason.to_string()),
        "segments": segments.len(),
        "bytes": bytes,
        "used_bytes": used_bytes,
        "records": counters.appended_records,
        "syncs": counters.syncs,
        "sync_seconds": counters.sync_time.as_secs_f64(),
        "sync_seconds_max": counters.sync_time_max.as_secs_f64(),
    })
}

/// `ok`, `busy`, `full` or `failed`.
pub(crate) async fn journal_state(broker: &Broker) -> &'static str {
    if broker.journal().failure().is_some() {
        return "failed";
    }
    match poll_once(broker.journal().ready()).await {
        None => "busy",
        Some(Ok(())) => "ok",
        Some(Err(AppendError::DiskFull { .. })) => "full",
        Some(Err(_)) => "failed",
    }
}
