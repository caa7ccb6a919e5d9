//! `/api/v1/queues/{name}/messages` and `/api/v1/topics/{name}/messages`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, Entry, Publication, PublishError, Queue};
use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::limits::BODY_BYTES_MAX;
use kernel::{Destination, Headers, HeadersError, Message};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use super::queues::missing;
use super::views::{add_message, bad_query, name_of};

const DURABLE_HEADER: &str = "hivewire-durable";
pub(super) const HEADER_PREFIX: &str = "hivewire-header-";
pub(super) const CONTENT_TYPE_HEADER: &str = "content-type";
/// What clients send when nobody thought about the content type: not worth keeping.
const MEANINGLESS_TYPES: [&str; 2] = [
    "application/x-www-form-urlencoded",
    "application/octet-stream",
];
const BATCH_MESSAGES_MAX: usize = 10_000;
const READY_TIMEOUT: Duration = Duration::from_secs(10);
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
const PEEK_MESSAGES_DEFAULT: usize = 10;
const PEEK_MESSAGES_MAX: usize = 1_000;
const PEEK_BYTES_MAX: usize = 16 << 20;
/// Few at a time, so that large messages do not all come into memory before they are counted.
const PEEK_STEP_MESSAGES: usize = 16;

pub(super) async fn publish_to_queue(
    State(app): State<Arc<App>>,
    node: Node,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let destination = Destination::Queue(name_of(path)?);
    publish(&app, node, destination, headers, body).await
}

pub(super) async fn publish_to_topic(
    State(app): State<Arc<App>>,
    node: Node,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let destination = Destination::Topic(name_of(path)?);
    publish(&app, node, destination, headers, body).await
}

async fn publish(
    app: &App,
    Node(running): Node,
    destination: Destination,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let broker = running.broker()?;
    let bytes = body::read(app, &headers, body, body::REQUEST_BYTES_MAX).await?;
    let mut batch = if body::is_json(&headers) {
        batch_of(&bytes)?
    } else {
        vec![single_of(&headers, bytes)?]
    };
    let now = broker.clock().now();
    for publication in &mut batch {
        publication.message.published_at = now;
    }
    let (accepted, stored, refused) = take_in(broker, &destination, batch).await?;
    if let Some(position) = stored {
        confirm(broker, position).await?;
    }
    if let Some(error) = refused {
        return Err(Problem::from(error).accepted(accepted));
    }
    let ack_level = if stored.is_some() { "synced" } else { "memory" };
    Ok(Json(
        json!({ "accepted": accepted, "ack_level": ack_level }),
    ))
}

/// Publishes a batch, waiting where the disk is behind.
async fn take_in(
    broker: &Broker,
    destination: &Destination,
    mut batch: Vec<Publication>,
) -> Result<(usize, Option<Position>, Option<PublishError>), Problem> {
    let channel = broker
        .channel(destination)
        .map_err(|error| Problem::full(error.to_string()))?;
    let (mut accepted, mut stored) = (0, None);
    loop {
        let ready = timeout(READY_TIMEOUT, broker.ready()).await.is_ok();
        let published = channel.publish(&mut batch);
        accepted += published.accepted;
        stored = stored.max(published.stored);
        match published.refused {
            Some(PublishError::Journal(AppendError::NotReady)) if ready => {}
            refused => return Ok((accepted, stored, refused)),
        }
    }
}

async fn confirm(broker: &Broker, position: Position) -> Result<(), Problem> {
    match timeout(SYNC_TIMEOUT, broker.journal().wait(position)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failed)) => Err(failed.into()),
        Err(_) => Err(Problem::unconfirmed(format!(
            "the messages were taken in, but are not on disk after {SYNC_TIMEOUT:?}: they may or may not survive"
        ))),
    }
}

pub(super) fn single_of(headers: &HeaderMap, body: Bytes) -> Result<Publication, Problem> {
    let durable = match headers.get(DURABLE_HEADER).map(|value| value.as_bytes()) {
        None | Some(b"true") => true,
        Some(b"false") => false,
        Some(_) => {
            return Err(Problem::bad_request(
                "Hivewire-Durable is `true` or `false`",
            ));
        }
    };
    let mut pairs = Vec::new();
    if let Some(kind) = body::content_type(headers)
        && !MEANINGLESS_TYPES.contains(&kind)
    {
        pairs.push((CONTENT_TYPE_HEADER, kind));
    }
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(HEADER_PREFIX) {
            let value = str::from_utf8(value.as_bytes())
                .map_err(|_| Problem::bad_request(format!("the header {name} is not text")))?;
            pairs.push((name, value));
        }
    }
    publication(body, pairs, durable)
}

fn publication<'a>(
    body: Bytes,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    durable: bool,
) -> Result<Publication, Problem> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Problem::too_large(format!(
            "the body of a message has at most {BODY_BYTES_MAX} bytes, this one has {}",
            body.len()
        )));
    }
    let headers = Headers::from_pairs(headers)
        .map_err(|error: HeadersError| Problem::too_large(error.to_string()))?;
    Ok(Publication {
        message: Message::new(body).with_headers(headers),
        durable,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    messages: Vec<BatchMessage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchMessage {
    body: Option<String>,
    body_base64: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default = "durable_by_default")]
    durable: bool,
}

fn durable_by_default() -> bool {
    true
}

pub(super) fn batch_of(bytes: &[u8]) -> Result<Vec<Publication>, Problem> {
    let batch: Batch = body::parse(bytes).map_err(|problem| {
        problem.hint("application/json is for batches, {\"messages\": [{\"body\": …}]}; to send JSON as one message, use another content type such as text/plain")
    })?;
    if batch.messages.len() > BATCH_MESSAGES_MAX {
        return Err(Problem::too_large(format!(
            "a batch has at most {BATCH_MESSAGES_MAX} messages, this one has {}",
            batch.messages.len()
        )));
    }
    let messages = batch.messages.into_iter().enumerate();
    messages
        .map(|(index, message)| message.publication(index))
        .collect()
}

impl BatchMessage {
    fn publication(self, index: usize) -> Result<Publication, Problem> {
        let body = match (self.body, self.body_base64) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(encoded)) => match STANDARD.decode(encoded) {
                Ok(bytes) => bytes.into(),
                Err(error) => {
                    return Err(Problem::bad_request(format!(
                        "body_base64 of message {index} is not base64: {error}"
                    )));
                }
            },
            _ => {
                return Err(Problem::bad_request(format!(
                    "message {index} needs either `body` or `body_base64`"
                )));
            }
        };
        let pairs = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        publication(body, pairs, self.durable)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeekQuery {
    limit: Option<usize>,
}

pub(super) async fn peek(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<PeekQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let name = name_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = query.limit.unwrap_or(PEEK_MESSAGES_DEFAULT);
    if limit > PEEK_MESSAGES_MAX {
        return Err(Problem::bad_request(format!(
            "limit is at most {PEEK_MESSAGES_MAX}"
        )));
    }
    let queue = running.broker()?.find_queue(name.as_str());
    let queue = queue.ok_or_else(|| missing(&name))?;
    // What waits on disk is read from there.
    let entries = tokio::task::spawn_blocking(move || peek_some(&queue, limit)).await;
    let entries = entries.map_err(|error| Problem::internal(error.to_string()))?;
    let messages: Vec<Value> = entries.iter().map(|entry| view(entry).into()).collect();
    Ok(Json(json!({ "messages": messages })))
}

fn peek_some(queue: &Queue, limit: usize) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    while found.len() < limit && bytes < PEEK_BYTES_MAX {
        let after = found.last().map_or(0, |entry| entry.id);
        let page = queue.peek(after, PEEK_STEP_MESSAGES.min(limit - found.len()));
        if page.is_empty() {
            break;
        }
        bytes += page.iter().map(|e| e.message.len_bytes()).sum::<usize>();
        found.extend(page);
    }
    found
}

/// A message of a queue or topic as JSON.
pub(super) fn view(entry: &Entry) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("id".into(), entry.id.into());
    add_message(&mut object, &entry.message, usize::MAX);
    object.insert("redelivered".into(), entry.redelivered.into());
    object.insert("tries".into(), entry.tries.into());
    object.insert("durable".into(), entry.durable.into());
    object
}
