//! `/api/v1/queues/{name}/stream` and `/api/v1/topics/{name}/stream`: messages as lines of JSON.
//!
//! A message is settled when the connection asks for what comes after it. Whatever was not
//! asked past goes back to its queue, marked as redelivered.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use broker::{AckMode, Credit, Delivery, Outbox, Subscription};
use bytes::Bytes;
use futures_lite::stream;
use kernel::Destination;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::app::{App, Node};
use super::messages::EntryShown;
use super::problem::Problem;
use super::views::{bad_query, name_of};

/// A blank line that often shows both sides that the other is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const UNSENT_BYTES: u32 = 256 << 10;

/// When a stream ends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    /// After so many messages.
    max: Option<u64>,
    /// When nothing came for that long.
    wait_ms: Option<u64>,
}

type MaybeQuery = Result<Query<StreamQuery>, QueryRejection>;

pub(super) async fn from_queue(
    State(app): State<Arc<App>>,
    node: Node,
    path: Result<Path<String>, PathRejection>,
    query: MaybeQuery,
) -> Result<Response, Problem> {
    let destination = Destination::Queue(name_of(path)?);
    start(&app, node, destination, query)
}

pub(super) async fn from_topic(
    State(app): State<Arc<App>>,
    node: Node,
    path: Result<Path<String>, PathRejection>,
    query: MaybeQuery,
) -> Result<Response, Problem> {
    let destination = Destination::Topic(name_of(path)?);
    start(&app, node, destination, query)
}

fn start(
    app: &App,
    Node(running): Node,
    destination: Destination,
    query: MaybeQuery,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let channel = running
        .broker()?
        .channel(&destination)
        .map_err(|error| Problem::full(error.to_string()))?;
    let outbox = Arc::new(Outbox::default());
    let credit = Credit {
        unsent_bytes: UNSENT_BYTES,
        ..Credit::default()
    };
    let subscription = channel.subscribe(0, AckMode::Auto, credit, outbox.clone());
    let reader = Reader {
        subscription: Some(subscription),
        outbox,
        handed_over: Vec::new(),
        spare: Vec::new(),
        left: query.max.unwrap_or(u64::MAX),
        wait: query.wait_ms.map(Duration::from_millis),
        stop: app.stop.clone(),
    };
    let lines = stream::unfold(reader, async |mut reader| {
        let lines = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(lines), reader))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

struct Reader {
    subscription: Option<Subscription>,
    outbox: Arc<Outbox>,
    /// Given to the connection, which has not asked for more since.
    handed_over: Vec<Delivery>,
    /// Came after the last one that was asked for.
    spare: Vec<Delivery>,
    left: u64,
    wait: Option<Duration>,
    stop: watch::Receiver<bool>,
}

impl Reader {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        self.settle();
        let start = Instant::now();
        let give_up = self.wait.map(|wait| start + wait);
        while self.left > 0 && !*self.stop.borrow() {
            self.outbox.take(&mut self.handed_over);
            if !self.handed_over.is_empty() {
                return Some(self.lines());
            }
            tokio::select! {
                () = self.outbox.filled() => {}
                () = sleep_until(start + KEEP_ALIVE) => return Some(Bytes::from_static(b"\n")),
                () = sleep_until(give_up.unwrap_or(start)), if give_up.is_some() => return None,
                _ = self.stop.changed() => {}
            }
        }
        None
    }

    fn settle(&mut self) {
        if let Some(subscription) = &self.subscription
            && !self.handed_over.is_empty()
        {
            subscription.sent(&self.handed_over);
            self.handed_over.clear();
        }
    }

    fn lines(&mut self) -> Bytes {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
        if self.handed_over.len() > wanted {
            self.spare = self.handed_over.split_off(wanted);
        }
        self.left -= self.handed_over.len() as u64;
        let mut lines = Vec::new();
        for delivery in &self.handed_over {
            let shown = EntryShown::new(&delivery.entry);
            serde_json::to_writer(&mut lines, &shown).expect("text and numbers are JSON");
            lines.push(b'\n');
        }
        lines.into()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The connection broke: what it was given last may or may not have arrived.
        let maybe_seen = !self.handed_over.is_empty();
        let unsent = self.handed_over.drain(..).chain(self.spare.drain(..));
        let unsent = unsent.map(|delivery| delivery.entry).collect();
        if let Some(subscription) = self.subscription.take() {
            subscription.close(unsent, maybe_seen);
        }
    }
}
