//! `/api/v1/queues`

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use broker::{DEAD_LETTERS, QueueStats};
use kernel::{Destination, Name, Timestamp};
use serde_json::{Value, json};

use super::app::{Node, Running};
use super::problem::Problem;
use super::views::name_of;

pub(super) async fn list(Node(running): Node) -> Result<Json<Value>, Problem> {
    let broker = running.broker()?;
    let now = broker.clock().now();
    let queues: Vec<Value> = broker
        .queues()
        .iter()
        .map(|(name, stats)| view(&running, name, stats, now))
        .collect();
    Ok(Json(json!({ "queues": queues })))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let name = name_of(path)?;
    let broker = running.broker()?;
    let queue = broker.find_queue(name.as_str());
    let queue = queue.ok_or_else(|| missing(&name))?;
    let now = broker.clock().now();
    Ok(Json(view(&running, &name, &queue.stats(), now)))
}

pub(super) async fn close(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
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
    Ok(Json(json!({ "name": name.as_str(), "removed": removed })))
}

pub(super) fn missing(name: &Name) -> Problem {
    Problem::not_found(format!(
        "there is no queue {name}: it is made by the first message or subscriber"
    ))
}

fn view(running: &Running, name: &Name, stats: &QueueStats, now: Timestamp) -> Value {
    let rates = running.rates.of(&Destination::Queue(name.clone()));
    let oldest_age_ms = stats
        .oldest
        .map(|oldest| now.since(oldest).as_millis() as u64);
    let totals = &stats.totals;
    json!({
        "name": name.as_str(),
        "waiting": stats.waiting,
        "on_disk": stats.on_disk,
        "unacknowledged": stats.unacknowledged,
        "bytes": stats.bytes,
        "memory_bytes": stats.memory_bytes,
        "consumers": stats.subscribers,
        "in_per_second": rates.in_per_second,
        "out_per_second": rates.out_per_second,
        "oldest_age_ms": oldest_age_ms,
        "totals": {
            "published": totals.published,
            "delivered": totals.delivered,
            "acknowledged": totals.acknowledged,
            "returned": totals.returned,
            "dead": totals.dead,
            "refused": totals.refused,
        },
    })
}
