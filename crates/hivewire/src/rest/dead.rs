//! `/api/v1/dead`

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use broker::{Broker, CommitError, DEAD_LETTERS, DeadFilter, DeadLetter, PublishError};
use journal::AppendError;
use kernel::{Destination, Message, Name};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use super::views::{add_message, bad_query};

const LETTERS_DEFAULT: usize = 100;
const LETTERS_MAX: usize = 1_000;
/// A list is for looking; whoever wants all of a long body replays it.
const BODY_SHOWN_BYTES_MAX: usize = 4 << 10;
const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadQuery {
    from: Option<String>,
    id: Option<u64>,
    limit: Option<usize>,
}

/// Which letters an order is about; without anything, all of them.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DeadOrder {
    from: Option<String>,
    id: Option<u64>,
}

fn filter(from: Option<&str>, id: Option<u64>) -> Result<DeadFilter, Problem> {
    let from = from.map(Name::new).transpose();
    let from = from.map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(DeadFilter { from, id })
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<DeadQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = query.limit.unwrap_or(LETTERS_DEFAULT);
    if limit > LETTERS_MAX {
        return Err(Problem::bad_request(format!(
            "limit is at most {LETTERS_MAX}"
        )));
    }
    let filter = filter(query.from.as_deref(), query.id)?;
    let broker = running.broker()?.clone();
    let letters = blocking(move || match limit {
        0 => Vec::new(),
        limit => broker.dead_letters(&filter, limit),
    });
    let letters: Vec<Value> = letters.await?.iter().map(view).collect();
    Ok(Json(json!({ "letters": letters })))
}

pub(super) async fn replay(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let filter = order(&app, &headers, body).await?;
    let broker = running.broker()?;
    let end = Instant::now() + REPLAY_TIMEOUT;
    let mut replayed = 0;
    loop {
        let waiting = dead_waiting(broker);
        let (some_broker, some_filter) = (broker.clone(), filter.clone());
        match blocking(move || some_broker.replay_dead(&some_filter)).await? {
            Ok(letters) => return Ok(Json(json!({ "replayed": replayed + letters }))),
            Err(error) if is_not_ready(&error) && Instant::now() < end => {
                replayed += waiting.saturating_sub(dead_waiting(broker));
                // If this takes too long, the next round says so.
                let _ = timeout(REPLAY_TIMEOUT, broker.ready()).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn dead_waiting(broker: &Broker) -> usize {
    let dead = broker.find_queue(DEAD_LETTERS);
    dead.map_or(0, |queue| queue.stats().waiting)
}

fn is_not_ready(error: &CommitError) -> bool {
    matches!(
        error,
        CommitError::Send(PublishError::Journal(AppendError::NotReady))
    )
}

pub(super) async fn purge(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let filter = order(&app, &headers, body).await?;
    let broker = running.broker()?.clone();
    let purged = blocking(move || broker.purge_dead(&filter)).await?;
    Ok(Json(json!({ "purged": purged })))
}

async fn order(app: &App, headers: &HeaderMap, body: Body) -> Result<DeadFilter, Problem> {
    let bytes = body::read(app, headers, body, body::ORDER_BYTES_MAX).await?;
    let order: DeadOrder = if bytes.is_empty() {
        DeadOrder::default()
    } else {
        body::parse(&bytes)?
    };
    filter(order.from.as_deref(), order.id)
}

/// Letters that wait on disk are read from there, which must not hold up the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(error.to_string()))
}

fn view(letter: &DeadLetter) -> Value {
    let headers = &letter.message.headers;
    let number = |name| headers.get(name).and_then(|text| text.parse::<u64>().ok());
    let (kind, from) = match &letter.origin {
        Some(Destination::Queue(name)) => (Some("queue"), Some(name.as_str())),
        Some(Destination::Topic(name)) => (Some("topic"), Some(name.as_str())),
        None => (None, None),
    };
    let mut object = Map::new();
    object.insert("id".into(), letter.id.into());
    object.insert("from".into(), from.into());
    object.insert("from_kind".into(), kind.into());
    object.insert("reason".into(), headers.get(Message::DEAD_REASON).into());
    object.insert("tries".into(), number(Message::DEAD_TRIES).into());
    object.insert("died_at".into(), number(Message::DEAD_AT).into());
    add_message(&mut object, &letter.message, BODY_SHOWN_BYTES_MAX);
    object.into()
}
