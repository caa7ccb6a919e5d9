//! `/api/v1/topics`

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use broker::TopicStats;
use kernel::{Destination, Name};
use schemars::JsonSchema;
use serde::Serialize;

use super::app::{Node, Running};
use super::etag::Tagged;
use super::paging::{limit_of, next_of};
use super::problem::Problem;
use super::queues::NamesQuery;
use super::views::{bad_query, name_of};

/// Topics in the order of their names.
#[derive(Serialize, JsonSchema)]
pub(super) struct TopicPage {
    topics: Vec<TopicShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A topic and how it is doing.
#[derive(Serialize, JsonSchema)]
pub(super) struct TopicShown {
    name: String,
    /// Messages kept for subscribers that lag.
    held: usize,
    /// Their bytes.
    bytes: usize,
    consumers: usize,
    in_per_second: f64,
    out_per_second: f64,
    totals: TopicTotals,
}

/// What happened to the messages of a topic since the start of the node.
#[derive(Serialize, JsonSchema)]
struct TopicTotals {
    published: u64,
    delivered: u64,
    missed: u64,
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<NamesQuery>, QueryRejection>,
) -> Result<Tagged<TopicPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = limit_of(query.limit)?;
    let broker = running.broker()?;
    let names = broker.topic_names(query.after.as_deref(), query.q.as_deref());
    let (names, next) = next_of(names, limit, Name::to_string);
    let topics = names.iter().filter_map(|name| {
        let topic = broker.find_topic(name.as_str())?;
        Some(view(&running, name, &topic.stats()))
    });
    Ok(Tagged(TopicPage {
        topics: topics.collect(),
        next,
    }))
}

pub(super) async fn show(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
) -> Result<Tagged<TopicShown>, Problem> {
    let name = name_of(path)?;
    match running.broker()?.find_topic(name.as_str()) {
        Some(topic) => Ok(Tagged(view(&running, &name, &topic.stats()))),
        None => Err(Problem::not_found(format!(
            "there is no topic {name}: it is made by the first message or subscriber"
        ))),
    }
}

fn view(running: &Running, name: &Name, stats: &TopicStats) -> TopicShown {
    let rates = running.rates.of(&Destination::Topic(name.clone()));
    TopicShown {
        name: name.to_string(),
        held: stats.held,
        bytes: stats.bytes,
        consumers: stats.subscribers,
        in_per_second: rates.in_per_second,
        out_per_second: rates.out_per_second,
        totals: TopicTotals {
            published: stats.totals.published,
            delivered: stats.totals.delivered,
            missed: stats.totals.missed,
        },
    }
}
