//! `/api/v1/queues`

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use broker::{DEAD_LETTERS, QueueStats};
use kernel::{Destination, Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::{Node, Running};
use super::etag::Tagged;
use super::paging::{LIMIT_MAX, limit_of, next_of};
use super::problem::Problem;
use super::views::{bad_query, name_of};

/// Which queues or topics somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamesQuery {
    /// How their names begin.
    pub q: Option<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many at most: 1,000 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = LIMIT_MAX))]
    pub limit: Option<usize>,
}

/// Queues in the order of their names.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueuePage {
    queues: Vec<QueueShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A queue and how it is doing.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueueShown {
    name: String,
    /// Messages that wait.
    waiting: usize,
    /// Those of them that are on disk only.
    on_disk: usize,
    /// Messages that were delivered and not acknowledged yet.
    unacknowledged: usize,
    /// Bytes of all its messages.
    bytes: u64,
    /// Bytes of those in memory.
    memory_bytes: usize,
    consumers: usize,
    in_per_second: f64,
    out_per_second: f64,
    /// How long the oldest message has waited; null if nothing waits.
    oldest_age_ms: Option<u64>,
    totals: QueueTotals,
}

/// What happened to the messages of a queue since the start of the node.
#[derive(Serialize, JsonSchema)]
struct QueueTotals {
    published: u64,
    delivered: u64,
    acknowledged: u64,
    returned: u64,
    dead: u64,
    refused: u64,
}

/// A queue that is no more.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueueClosed {
    name: String,
    /// How many messages went with it.
    removed: usize,
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<NamesQuery>, QueryRejection>,
) -> Result<Tagged<QueuePage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = limit_of(query.limit)?;
    let broker = running.broker()?;
    let now = broker.clock().now();
    let names = broker.queue_names(query.after.as_deref(), query.q.as_deref());
    let (names, next) = next_of(names, limit, Name::to_string);
    let queues = names.iter().filter_map(|name| {
        let queue = broker.find_queue(name.as_str())?;
        Some(view(&running, name, &queue.stats(), now))
    });
    Ok(Tagged(QueuePage {
        queues: queues.collect(),
        next,
    }))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Tagged<QueueShown>, Problem> {
    let name = name_of(path)?;
    let broker = running.broker()?;
    let queue = broker.find_queue(name.as_str());
    let queue = queue.ok_or_else(|| missing(&name))?;
    let now = broker.clock().now();
    Ok(Tagged(view(&running, &name, &queue.stats(), now)))
}

pub(super) async fn close(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<QueueClosed>, Problem> {
    let name = name_of(path)?;
    if name.as_str() == DEAD_LETTERS {
        return Err(Problem::conflict(
            "the dead letters cannot be closed: use POST /api/v1/dead/purge",
        ));
    }
    let queue = running.broker()?.find_queue(name.as_str());
    let queue = queue.ok_or_else(|| missing(&name))?;
    let closed = tokio::task::spawn_blocking(move || queue.close()).await;
    let removed = closed.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Json(QueueClosed {
        name: name.to_string(),
        removed,
    }))
}

pub(super) fn missing(name: &Name) -> Problem {
    Problem::not_found(format!(
        "there is no queue {name}: it is made by the first message or subscriber"
    ))
}

fn view(running: &Running, name: &Name, stats: &QueueStats, now: Timestamp) -> QueueShown {
    let rates = running.rates.of(&Destination::Queue(name.clone()));
    let totals = &stats.totals;
    QueueShown {
        name: name.to_string(),
        waiting: stats.waiting,
        on_disk: stats.on_disk,
        unacknowledged: stats.unacknowledged,
        bytes: stats.bytes,
        memory_bytes: stats.memory_bytes,
        consumers: stats.subscribers,
        in_per_second: rates.in_per_second,
        out_per_second: rates.out_per_second,
        oldest_age_ms: stats
            .oldest
            .map(|oldest| now.since(oldest).as_millis() as u64),
        totals: QueueTotals {
            published: totals.published,
            delivered: totals.delivered,
            acknowledged: totals.acknowledged,
            returned: totals.returned,
            dead: totals.dead,
            refused: totals.refused,
        },
    }
}
