//! `/api/v1/flows/{flow}/{stage}/logs`: what workers wrote, as lines of JSON.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_lite::stream;
use runtime::{LogLine, LogReader};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::app::{App, Node};
use super::flows::{StagePath, stage_of};
use super::problem::Problem;
use super::views::bad_query;

/// A blank line that often shows both sides that the other is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const LINES_AT_ONCE: usize = 256;

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
    let reader = Reader {
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

struct Reader {
    log: LogReader,
    after: u64,
    worker: Option<u32>,
    follow: bool,
    stop: watch::Receiver<bool>,
}

impl Reader {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        while !*self.stop.borrow() {
            let lines: VecDeque<LogLine> = self.log.read(self.after, LINES_AT_ONCE).into();
            if let Some(last) = lines.back() {
                self.after = last.number;
                let text = self.text(lines);
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

    fn text(&self, lines: VecDeque<LogLine>) -> Bytes {
        let mut text = Vec::new();
        let is_wanted = |line: &&LogLine| self.worker.is_none_or(|n| n == line.worker.worker());
        for line in lines.iter().filter(is_wanted) {
            serde_json::to_writer(&mut text, line).expect("text and numbers are JSON");
            text.push(b'\n');
        }
        text.into()
    }
}
