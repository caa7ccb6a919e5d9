//! `GET /api/v1/node`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use broker::Broker;
use futures_lite::future::poll_once;
use journal::AppendError;
use schemars::JsonSchema;
use serde::Serialize;

use super::app::{App, Node};

/// The node that answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThisNode {
    version: &'static str,
    process_id: u32,
    uptime_seconds: u64,
    /// Its data folder.
    data: String,
    listeners: Vec<ListenerShown>,
    /// What it is called among others; null if it stands alone.
    node: Option<String>,
    /// Bytes of messages in memory; null if it has no broker.
    memory_bytes: Option<usize>,
    /// Null if it has no broker.
    journal: Option<JournalShown>,
}

/// Where a protocol is spoken.
#[derive(Serialize, JsonSchema)]
struct ListenerShown {
    protocol: String,
    transport: String,
    address: String,
}

/// The log of everything durable.
#[derive(Serialize, JsonSchema)]
struct JournalShown {
    state: JournalState,
    /// Why it has failed.
    failure: Option<String>,
    segments: usize,
    bytes: u64,
    used_bytes: u64,
    records: u64,
    syncs: u64,
    sync_seconds: f64,
    sync_seconds_max: f64,
}

pub(super) async fn show(State(app): State<Arc<App>>, Node(running): Node) -> Json<ThisNode> {
    let listeners = running.bound.iter().map(|bound| ListenerShown {
        protocol: bound.protocol.to_string(),
        transport: bound.transport.to_string(),
        address: bound.address.to_string(),
    });
    let journal = match &running.broker {
        Some(broker) => Some(journal(broker).await),
        None => None,
    };
    Json(ThisNode {
        version: env!("CARGO_PKG_VERSION"),
        process_id: std::process::id(),
        uptime_seconds: app.started.elapsed().as_secs(),
        data: app.data.display().to_string(),
        listeners: listeners.collect(),
        node: running
            .deployments
            .agent()
            .map(|agent| agent.name().to_string()),
        memory_bytes: running.broker.as_ref().map(|broker| broker.memory_bytes()),
        journal,
    })
}

async fn journal(broker: &Broker) -> JournalShown {
    let journal = broker.journal();
    let counters = journal.counters();
    let segments = journal.segments();
    JournalShown {
        state: journal_state(broker).await,
        failure: journal.failure().map(|failed| failed.reason.to_string()),
        segments: segments.len(),
        bytes: segments.iter().map(|s| u64::from(s.bytes)).sum(),
        used_bytes: segments.iter().map(|s| u64::from(s.used_bytes)).sum(),
        records: counters.appended_records,
        syncs: counters.syncs,
        sync_seconds: counters.sync_time.as_secs_f64(),
        sync_seconds_max: counters.sync_time_max.as_secs_f64(),
    }
}

/// How the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JournalState {
    /// It takes everything.
    Ok,
    /// The disk is behind: whoever publishes waits.
    Busy,
    /// The disk is full.
    Full,
    /// It takes nothing any more.
    Failed,
}

/// How the journal is now.
pub(crate) async fn journal_state(broker: &Broker) -> JournalState {
    if broker.journal().failure().is_some() {
        return JournalState::Failed;
    }
    match poll_once(broker.journal().ready()).await {
        None => JournalState::Busy,
        Some(Ok(())) => JournalState::Ok,
        Some(Err(AppendError::DiskFull { .. })) => JournalState::Full,
        Some(Err(_)) => JournalState::Failed,
    }
}
