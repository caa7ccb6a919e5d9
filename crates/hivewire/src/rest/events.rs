//! `GET /api/v1/events`: what happens, over a WebSocket or as lines of JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_lite::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::app::{App, Node};
use super::problem::Problem;
use super::socket::{BUFFER_BYTES, HEARD_BYTES_MAX, KEEP_ALIVE, SILENCE_MAX, close, sent};
use super::views::bad_query;
use crate::events::{Filter, Full, KINDS, Position, Subscriber};
use crate::http;

/// The protocol of the WebSocket, for those who have to name one.
const PROTOCOL: &str = "hivewire.events";
/// As many as there can be.
const ALL: usize = usize::MAX;

/// Which events somebody wants to hear of.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Those of these kinds, with commas between them.
    kind: Option<String>,
    /// Those of this flow.
    flow: Option<String>,
    /// Those of this stage.
    stage: Option<String>,
    /// Those that this node tells.
    node: Option<String>,
    /// Those after this number.
    after: Option<u64>,
    /// The run of the node that the number is of.
    run: Option<String>,
    /// The last so many of those that are kept.
    tail: Option<usize>,
    /// Whether those that come later are wanted, too.
    follow: Option<bool>,
}

/// An event. What else it says depends on its kind.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct EventShown {
    /// What it is about.
    #[expect(dead_code, reason = "it stands for what is told")]
    kind: String,
}

pub(super) async fn listen(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    if app.is_draining() {
        return Err(Problem::not_ready("the node drains"));
    }
    let filter = query.filter()?;
    let is_socket = headers.contains_key(header::UPGRADE);
    let follow = is_socket || query.follow.unwrap_or(false);
    let from = query.position(follow);
    let subscribe = || Subscriber::new(&running.events, filter, from);
    if is_socket {
        let upgrade = upgrade.map_err(|error| Problem::bad_request(error.body_text()))?;
        let (subscriber, stop) = (subscribe()?, app.stop.clone());
        let upgrade = upgrade
            .protocols([PROTOCOL])
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_message_size(HEARD_BYTES_MAX)
            .max_frame_size(HEARD_BYTES_MAX);
        return Ok(upgrade.on_upgrade(move |socket| tell(socket, subscriber, stop)));
    }
    let reader = Reader {
        subscriber: subscribe()?,
        follow,
        stop: app.stop.clone(),
    };
    let lines = stream::unfold(reader, async |mut reader| {
        let lines = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(lines), reader))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

impl EventsQuery {
    fn filter(&self) -> Result<Filter, Problem> {
        let kinds = self.kind.iter().flat_map(|kinds| kinds.split(','));
        let kinds: Vec<String> = kinds.map(str::to_owned).collect();
        if let Some(unknown) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(Problem::bad_request(format!(
                "there is no kind {unknown:?} of events; there are: {}",
                KINDS.join(", ")
            )));
        }
        Ok(Filter {
            kinds,
            flow: self.flow.clone(),
            stage: self.stage.clone(),
            node: self.node.clone(),
        })
    }

    fn position(&self, follow: bool) -> Position {
        match (self.after, self.tail) {
            (Some(number), _) => Position::After {
                number,
                run: self.run.clone(),
            },
            (None, Some(count)) => Position::Last(count),
            (None, None) if follow => Position::Now,
            (None, None) => Position::Last(ALL),
        }
    }
}

impl From<Full> for Problem {
    fn from(error: Full) -> Self {
        Self::not_ready(error.to_string())
    }
}

/// Tells until the other side is gone or the node drains.
async fn tell(mut socket: WebSocket, mut subscriber: Subscriber, mut stop: watch::Receiver<bool>) {
    let mut pings = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard_at = Instant::now();
    loop {
        let told = tokio::select! {
            told = subscriber.next() => told,
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {
                    heard_at = Instant::now();
                    continue;
                }
            },
            _ = pings.tick() => {
                let is_gone = heard_at.elapsed() > SILENCE_MAX;
                if is_gone || !sent(&mut socket, Message::Ping(Bytes::new()), &mut stop).await {
                    return;
                }
                continue;
            }
            () = http::stopped(&mut stop) => return close(socket).await,
        };
        for text in told {
            // It is JSON, so it is text; and the same piece of memory for all.
            let Ok(text) = Utf8Bytes::try_from(text) else {
                continue;
            };
            if !sent(&mut socket, Message::Text(text), &mut stop).await {
                let drains = *stop.borrow();
                if drains {
                    close(socket).await;
                }
                return;
            }
        }
    }
}

/// Lines of JSON.
struct Reader {
    subscriber: Subscriber,
    follow: bool,
    stop: watch::Receiver<bool>,
}

impl Reader {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if *self.stop.borrow() {
            return None;
        }
        if !self.follow {
            while !self.subscriber.is_done() {
                let told = self.subscriber.take();
                if !told.is_empty() {
                    return Some(lines(&told));
                }
            }
            return None;
        }
        tokio::select! {
            told = timeout(KEEP_ALIVE, self.subscriber.next()) => match told {
                Ok(told) => Some(lines(&told)),
                Err(_) => Some(Bytes::from_static(b"\n")),
            },
            () = http::stopped(&mut self.stop) => None,
        }
    }
}

fn lines(told: &[Bytes]) -> Bytes {
    let mut lines = BytesMut::new();
    for text in told {
        lines.extend_from_slice(text);
        lines.extend_from_slice(b"\n");
    }
    lines.freeze()
}
