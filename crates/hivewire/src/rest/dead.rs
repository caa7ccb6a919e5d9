//! `/api/v1/dead`

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use broker::{Broker, CommitError, DEAD_LETTERS, DeadFilter, DeadLetter, PublishError};
use journal::AppendError;
use kernel::{Destination, Message, Name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::app::Node;
use super::body::MaybeOrder;
use super::etag::Tagged;
use super::paging::{checked, next_of};
use super::problem::Problem;
use super::views::{MessageShown, bad_query};

const LETTERS_DEFAULT: usize = 100;
const LETTERS_MAX: usize = 1_000;
/// A list is for looking; whoever wants all of a long body replays it.
const BODY_SHOWN_BYTES_MAX: usize = 4 << 10;
const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

/// Which dead letters somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadQuery {
    /// Those that came from the queue or topic of this name.
    from: Option<String>,
    /// This one.
    id: Option<u64>,
    /// The `next` of the page before.
    after: Option<u64>,
    /// How many at most: 100 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = LETTERS_MAX))]
    limit: Option<usize>,
}

/// Which letters an order is about; without anything, all of them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DeadOrder {
    /// Those that came from the queue or topic of this name.
    from: Option<String>,
    /// This one.
    id: Option<u64>,
}

/// Dead letters, the oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct DeadPage {
    letters: Vec<LetterShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A message that nobody could handle.
#[derive(Serialize, JsonSchema)]
pub(super) struct LetterShown {
    id: u64,
    /// The queue or topic that it came from.
    from: Option<String>,
    from_kind: Option<OriginKind>,
    reason: Option<String>,
    tries: Option<u64>,
    /// When, in milliseconds since 1970.
    died_at: Option<u64>,
    #[serde(flatten)]
    message: MessageShown,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OriginKind {
    Queue,
    Topic,
}

/// How many letters were sent back.
#[derive(Serialize, JsonSchema)]
pub(super) struct Replayed {
    replayed: usize,
}

/// How many letters are gone.
#[derive(Serialize, JsonSchema)]
pub(super) struct Purged {
    purged: usize,
}

fn filter(from: Option<&str>, id: Option<u64>) -> Result<DeadFilter, Problem> {
    let from = from.map(Name::new).transpose();
    let from = from.map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(DeadFilter { from, id, after: 0 })
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<DeadQuery>, QueryRejection>,
) -> Result<Tagged<DeadPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, LETTERS_DEFAULT, LETTERS_MAX)?;
    let filter = DeadFilter {
        after: query.after.unwrap_or_default(),
        ..filter(query.from.as_deref(), query.id)?
    };
    let broker = running.broker()?.clone();
    let letters = blocking(move || match limit {
        0 => Vec::new(),
        limit => broker.dead_letters(&filter, limit + 1),
    });
    let (letters, next) = next_of(letters.await?, limit, |letter| letter.id.to_string());
    Ok(Tagged(DeadPage {
        letters: letters.iter().map(view).collect(),
        next,
    }))
}

pub(super) async fn replay(
    Node(running): Node,
    MaybeOrder(order): MaybeOrder<DeadOrder>,
) -> Result<Json<Replayed>, Problem> {
    let filter = filter(order.from.as_deref(), order.id)?;
    let broker = running.broker()?;
    let end = Instant::now() + REPLAY_TIMEOUT;
    let mut replayed = 0;
    loop {
        let waiting = dead_waiting(broker);
        let (some_broker, some_filter) = (broker.clone(), filter.clone());
        match blocking(move || some_broker.replay_dead(&some_filter)).await? {
            Ok(letters) => {
                return Ok(Json(Replayed {
                    replayed: replayed + letters,
                }));
            }
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
    Node(running): Node,
    MaybeOrder(order): MaybeOrder<DeadOrder>,
) -> Result<Json<Purged>, Problem> {
    let filter = filter(order.from.as_deref(), order.id)?;
    let broker = running.broker()?.clone();
    let purged = blocking(move || broker.purge_dead(&filter)).await?;
    Ok(Json(Purged { purged }))
}

/// Letters that wait on disk are read from there, which must not hold up the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(error.to_string()))
}

fn view(letter: &DeadLetter) -> LetterShown {
    let headers = &letter.message.headers;
    let number = |name| headers.get(name).and_then(|text| text.parse::<u64>().ok());
    let (from_kind, from) = match &letter.origin {
        Some(Destination::Queue(name)) => (Some(OriginKind::Queue), Some(name.to_string())),
        Some(Destination::Topic(name)) => (Some(OriginKind::Topic), Some(name.to_string())),
        None => (None, None),
    };
    LetterShown {
        id: letter.id,
        from,
        from_kind,
        reason: headers.get(Message::DEAD_REASON).map(str::to_owned),
        tries: number(Message::DEAD_TRIES),
        died_at: number(Message::DEAD_AT),
        message: MessageShown::new(&letter.message, BODY_SHOWN_BYTES_MAX),
    }
}
