//! `GET /api/v1/live`: numbers of stages, edges and queues as they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch as signal;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::app::{App, Node, Running};
use super::problem::Problem;
use super::socket::{BUFFER_BYTES, HEARD_BYTES_MAX, KEEP_ALIVE, SILENCE_MAX, close, sent};
use super::views::bad_query;
use crate::http;
use crate::live::{
    EdgeNumbers, Full, Numbers, PERIOD_MAX, PERIOD_MIN, QueueNumbers, StageNumbers, Watching,
};

/// The protocol of the WebSocket, for those who have to name one.
const PROTOCOL: &str = "hivewire.live";
const PERIOD: Duration = Duration::from_millis(250);
/// How long the first numbers may take.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);

/// Which numbers somebody wants, and how often.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveQuery {
    /// Those of this flow, with the queues that its edges lead to.
    flow: Option<String>,
    /// How often at most, in milliseconds: 250 unless it says otherwise, at least 100, at most 60,000.
    #[schemars(range(min = 100, max = 60_000))]
    period_ms: Option<u64>,
}

/// How everything is, on all nodes together; or, over a WebSocket, what has changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct LiveShown {
    kind: Kind,
    /// In milliseconds since 1970.
    at_ms: u64,
    /// Whether this is everything. If not, it is what has changed since the frame before, and null is gone.
    complete: bool,
    /// By `flow/stage`.
    stages: BTreeMap<String, Option<StageNumbers>>,
    /// By `flow/stage.output>target`.
    edges: BTreeMap<String, Option<EdgeNumbers>>,
    /// By name: those of the broker in one of the nodes, but for those of stages.
    queues: BTreeMap<String, Option<QueueNumbers>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Live,
}

impl LiveQuery {
    fn period(&self) -> Result<Duration, Problem> {
        let period = self.period_ms.map_or(PERIOD, Duration::from_millis);
        match (PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            true => Ok(period),
            false => Err(Problem::bad_request(format!(
                "period_ms is {} to {}",
                PERIOD_MIN.as_millis(),
                PERIOD_MAX.as_millis()
            ))),
        }
    }
}

impl From<Full> for Problem {
    fn from(error: Full) -> Self {
        Self::not_ready(error.to_string())
    }
}

pub(super) async fn watch(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    query: Result<Query<LiveQuery>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    if app.is_draining() {
        return Err(Problem::not_ready("the node drains"));
    }
    let period = query.period()?;
    let mut frames = Frames {
        watching: running.live.watch(period)?,
        running: running.clone(),
        flow: query.flow,
        before: None,
    };
    if headers.contains_key(header::UPGRADE) {
        let upgrade = upgrade.map_err(|error| Problem::bad_request(error.body_text()))?;
        let stop = app.stop.clone();
        let upgrade = upgrade
            .protocols([PROTOCOL])
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_message_size(HEARD_BYTES_MAX)
            .max_frame_size(HEARD_BYTES_MAX);
        return Ok(upgrade.on_upgrade(move |socket| tell(socket, frames, stop)));
    }
    let first = timeout(FIRST_TIMEOUT, frames.next()).await;
    let shown = first.map_err(|_| Problem::not_ready("there are no numbers yet"))?;
    Ok(Json(shown).into_response())
}

/// What one watcher gets.
struct Frames {
    watching: Watching,
    running: Arc<Running>,
    flow: Option<String>,
    /// What it knows.
    before: Option<Numbers>,
}

impl Frames {
    /// The next one, as soon as something has changed. Nothing is lost if this is given up.
    async fn next(&mut self) -> LiveShown {
        loop {
            let mut numbers = self.watching.next().await;
            if let Some(flow) = &self.flow {
                numbers.only(flow);
            }
            let complete = self.before.is_none();
            let changes = numbers.since(&self.before.take().unwrap_or_default());
            self.before = Some(numbers);
            if complete || !changes.is_empty() {
                return LiveShown {
                    kind: Kind::Live,
                    at_ms: self.running.desk.now_ms(),
                    complete,
                    stages: changes.stages,
                    edges: changes.edges,
                    queues: changes.queues,
                };
            }
        }
    }
}

/// Tells until the other side is gone or the node drains. The next frame is made when the one before was taken, so a slow
/// reader gets fewer.
async fn tell(mut socket: WebSocket, mut frames: Frames, mut stop: signal::Receiver<bool>) {
    let mut pings = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard_at = Instant::now();
    loop {
        let message = tokio::select! {
            frame = frames.next() => match serde_json::to_string(&frame) {
                Ok(text) => Message::Text(Utf8Bytes::from(text)),
                Err(error) => {
                    tracing::error!(%error, "live numbers cannot be written");
                    return;
                }
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {
                    heard_at = Instant::now();
                    continue;
                }
            },
            _ = pings.tick() => {
                if heard_at.elapsed() > SILENCE_MAX {
                    return;
                }
                Message::Ping(Bytes::new())
            }
            () = http::stopped(&mut stop) => return close(socket).await,
        };
        if !sent(&mut socket, message, &mut stop).await {
            let drains = *stop.borrow();
            if drains {
                close(socket).await;
            }
            return;
        }
    }
}
