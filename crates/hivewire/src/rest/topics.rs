//! `/api/v1/topics`

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use broker::TopicStats;
use kernel::{Destination, Name};
use serde_json::{Value, json};

use super::app::{Node, Running};
use super::problem::Problem;
use super::views::name_of;

pub(super) async fn list(Node(running): Node) -> Result<Json<Value>, Problem> {
    let topics: Vec<Value> = running
        .broker()?
        .topics()
        .iter()
        .map(|(name, stats)| view(&running, name, stats))
        .collect();
    Ok(Json(json!({ "topics": topics })))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let name = name_of(path)?;
    match running.broker()?.find_topic(name.as_str()) {
        Some(topic) => Ok(Json(view(&running, &name, &topic.stats()))),
        None => Err(Problem::not_found(format!(
            "there is no topic {name}: it is made by the first message or subscriber"
        ))),
    }
}

fn view(running: &Running, name: &Name, stats: &TopicStats) -> Value {
    let rates = running.rates.of(&Destination::Topic(name.clone()));
    json!({
        "name": name.as_str(),
        "held": stats.held,
        "bytes": stats.bytes,
        "consumers": stats.subscribers,
        "in_per_second": rates.in_per_second,
        "out_per_second": rates.out_per_second,
        "totals": {
            "published": stats.totals.published,
            "delivered": stats.totals.delivered,
            "missed": stats.totals.missed,
        },
    })
}
