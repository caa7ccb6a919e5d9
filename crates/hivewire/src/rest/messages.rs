//! `/api/v1/queues/{name}/messages` and `/api/v1/topics/{name}/messages`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, Entry, Publication, PublishError, Queue};
use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::limits::BODY_BYTES_MAX;
use kernel::{Destination, Headers, HeadersError, Message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::app::{App, Node};
use super::body;
use super::etag::Tagged;
use super::operation::{Asks, JSON, Operation, SchemaOf};
use super::paging::checked;
use super::problem::Problem;
use super::queues::missing;
use super::views::{MessageShown, bad_query, name_of};

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

/// What became of messages that were published.
#[derive(Serialize, JsonSchema)]
pub(super) struct Published {
    /// How many were taken in.
    accepted: usize,
    ack_level: AckLevel,
}

/// What an acknowledgement is worth.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AckLevel {
    /// None of them was durable.
    Memory,
    /// Every durable one survives loss of power.
    Synced,
}

pub(super) async fn publish_to_queue(
    node: Node,
    path: Result<Path<String>, PathRejection>,
    Messages(batch): Messages,
) -> Result<Json<Published>, Problem> {
    let destination = Destination::Queue(name_of(path)?);
    publish(node, destination, batch).await
}

pub(super) async fn publish_to_topic(
    node: Node,
    path: Result<Path<String>, PathRejection>,
    Messages(batch): Messages,
) -> Result<Json<Published>, Problem> {
    let destination = Destination::Topic(name_of(path)?);
    publish(node, destination, batch).await
}

/// The messages in the body of a request: one as it is, or a batch as JSON.
pub(super) struct Messages(pub Vec<Publication>);

impl FromRequest<Arc<App>> for Messages {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let headers = &parts.headers;
        let bytes = body::read(app, headers, body, body::REQUEST_BYTES_MAX).await?;
        match body::is_json(headers) {
            true => batch_of(&bytes).map(Self),
            false => Ok(Self(vec![single_of(headers, bytes)?])),
        }
    }
}

impl Asks for Messages {
    fn asks(operation: &mut Operation) {
        operation.reads_body();
        let batch: SchemaOf = |generator| generator.subschema_for::<Batch>();
        operation.body.push((JSON, Some(batch)));
        operation.body.push(("*/*", None));
        operation.headers.push((
            "Hivewire-Durable",
            "`false` keeps a message that is sent as it is in memory only; the default is `true`",
        ));
    }
}

async fn publish(
    Node(running): Node,
    destination: Destination,
    mut batch: Vec<Publication>,
) -> Result<Json<Published>, Problem> {
    let broker = running.broker()?;
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
    Ok(Json(Published {
        accepted,
        ack_level: match stored {
            Some(_) => AckLevel::Synced,
            None => AckLevel::Memory,
        },
    }))
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

fn single_of(headers: &HeaderMap, body: Bytes) -> Result<Publication, Problem> {
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

/// Messages to be published together.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Batch {
    #[schemars(length(max = BATCH_MESSAGES_MAX))]
    messages: Vec<BatchMessage>,
}

/// A message to be published: either with a `body` or with a `body_base64`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BatchMessage {
    /// The body, if it is text.
    body: Option<String>,
    /// The body in base64.
    body_base64: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Whether it is to survive a restart.
    #[serde(default = "durable_by_default")]
    durable: bool,
}

fn durable_by_default() -> bool {
    true
}

fn batch_of(bytes: &[u8]) -> Result<Vec<Publication>, Problem> {
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

/// How much of a queue somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeekQuery {
    /// The `next` of the page before.
    after: Option<u64>,
    /// How many at most: 10 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = PEEK_MESSAGES_MAX))]
    limit: Option<usize>,
}

/// Messages that wait, in order.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessagePage {
    messages: Vec<EntryShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A message of a queue or topic.
#[derive(Serialize, JsonSchema)]
pub(super) struct EntryShown {
    id: u64,
    #[serde(flatten)]
    message: MessageShown,
    /// Whether it may have been delivered before.
    redelivered: bool,
    tries: u32,
    durable: bool,
}

impl EntryShown {
    pub fn new(entry: &Entry) -> Self {
        Self {
            id: entry.id,
            message: MessageShown::new(&entry.message, usize::MAX),
            redelivered: entry.redelivered,
            tries: entry.tries,
            durable: entry.durable,
        }
    }
}

pub(super) async fn peek(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<PeekQuery>, QueryRejection>,
) -> Result<Tagged<MessagePage>, Problem> {
    let name = name_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, PEEK_MESSAGES_DEFAULT, PEEK_MESSAGES_MAX)?;
    let after = query.after.unwrap_or_default();
    let queue = running.broker()?.find_queue(name.as_str());
    let queue = queue.ok_or_else(|| missing(&name))?;
    // What waits on disk is read from there.
    let looking = tokio::task::spawn_blocking(move || {
        let entries = peek_some(&queue, after, limit);
        let last = entries.last().map(|entry| entry.id);
        let has_more = last.is_some_and(|last| !queue.peek(last, 1).is_empty());
        (entries, last.filter(|_| has_more))
    });
    let (entries, next) = looking
        .await
        .map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Tagged(MessagePage {
        messages: entries.iter().map(EntryShown::new).collect(),
        next: next.map(|id| id.to_string()),
    }))
}

fn peek_some(queue: &Queue, after: u64, limit: usize) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    while found.len() < limit && bytes < PEEK_BYTES_MAX {
        let after = found.last().map_or(after, |entry| entry.id);
        let page = queue.peek(after, PEEK_STEP_MESSAGES.min(limit - found.len()));
        if page.is_empty() {
            break;
        }
        bytes += page.iter().map(|e| e.message.len_bytes()).sum::<usize>();
        found.extend(page);
    }
    found
}
