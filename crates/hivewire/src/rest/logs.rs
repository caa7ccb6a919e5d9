//! `/api/v1/flows/{flow}/{stage}/logs`: what workers wrote, as lines of JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_lite::stream;
use kernel::StageAddress;
use runtime::{LogLine, LogReader};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::app::{App, Node};
use super::flows::{StagePath, stage_of};
use super::problem::Problem;
use super::views::bad_query;
use crate::logs::{Filter, Line};

/// A blank line that often shows both sides that the other is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const LINES_AT_ONCE: usize = 256;
/// So many lines of earlier starts of the node are shown if nobody says how many.
const EARLIER_MAX: u64 = 1_000;
/// As many as are kept in memory.
const TAIL_MAX: u64 = 10_000;

/// Which lines somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogsQuery {
    /// Those with larger numbers.
    after: Option<u64>,
    /// So many of the last ones.
    tail: Option<u64>,
    /// Those of the worker with this number.
    worker: Option<u32>,
    /// Whether it goes on with lines as they are written.
    #[serde(default)]
    follow: bool,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: StagePath,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let stage = stage_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let deployments = &running.deployments;
    let log = deployments.runtime().logs(&stage);
    let log = log.ok_or_else(|| deployments.unknown(&stage))?;
    let tail = query
        .tail
        .map(|lines| log.last_number().saturating_sub(lines));
    let earlier = match query.after {
        Some(_) => Bytes::new(),
        None => {
            let newer = log.last_number();
            let wanted = query.tail.map_or(EARLIER_MAX, |tail| tail.min(TAIL_MAX));
            let limit = wanted.saturating_sub(newer) as usize;
            earlier(&app, &stage, query.worker, limit).await?
        }
    };
    let reader = Reader {
        earlier,
        after: query
            .after
            .unwrap_or_default()
            .max(tail.unwrap_or_default()),
        log,
        worker: query.worker,
        follow: query.follow,
        stop: app.stop.clone(),
    };
    let lines = stream::unfold(reader, async |mut reader| {
        let lines = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(lines), reader))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// What workers wrote before the last start of the node, as far as it is in files.
async fn earlier(
    app: &App,
    stage: &StageAddress,
    worker: Option<u32>,
    limit: usize,
) -> Result<Bytes, Problem> {
    let filter = Filter {
        stage: Some(stage.clone()),
        ..Filter::default()
    };
    let read = app.logs.page(app.logs.first_id(), limit, filter).await;
    let newest_first = read.map_err(|error| Problem::not_ready(error.to_string()))?;
    let lines = newest_first.into_iter().rev();
    let lines: Vec<LogLine> = lines.filter_map(Line::into_stage_line).collect();
    Ok(text(&lines, worker))
}

fn text<'a>(lines: impl IntoIterator<Item = &'a LogLine>, worker: Option<u32>) -> Bytes {
    let mut text = Vec::new();
    let is_wanted = |line: &&LogLine| worker.is_none_or(|n| n == line.worker.worker());
    for line in lines.into_iter().filter(is_wanted) {
        serde_json::to_writer(&mut text, line).expect("text and numbers are JSON");
        text.push(b'\n');
    }
    text.into()
}

struct Reader {
    /// What comes first.
    earlier: Bytes,
    log: LogReader,
    after: u64,
    worker: Option<u32>,
    follow: bool,
    stop: watch::Receiver<bool>,
}

impl Reader {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.earlier.is_empty() {
            return Some(std::mem::take(&mut self.earlier));
        }
        while !*self.stop.borrow() {
            let lines = self.log.read(self.after, LINES_AT_ONCE);
            if let Some(last) = lines.last() {
                self.after = last.number;
                let text = text(&lines, self.worker);
                if !text.is_empty() {
                    return Some(text);
                }
                continue;
            }
            if !self.follow {
                return None;
            }
            tokio::select! {
                changed = timeout(KEEP_ALIVE, self.log.changed(self.after)) => match changed {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(_) => return Some(Bytes::from_static(b"\n")),
                },
                _ = self.stop.changed() => {}
            }
        }
        None
    }
}
