//! `/api/v1/logs`: the logs of all nodes in one place, as lines of JSON.

use std::collections::{HashMap, VecDeque};
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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::app::{App, Node, Running};
use super::problem::Problem;
use super::views::bad_query;
use crate::desk::{Desk, LogPage, Refusal, Request};
use crate::logs::{Batch, Filter, Following, Level, Line, OWN_TARGET, Wanted};

/// A blank line that often shows both sides that the other is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const LIMIT_DEFAULT: usize = 100;
/// Who follows wants to see what comes.
const FOLLOW_LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 10_000;
const PAGE: usize = 500;
const FOLLOWERS_MAX: usize = 50;
/// So much is handed to the connection at once.
const TEXT_BYTES: usize = 64 << 10;

static FOLLOWERS: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(FOLLOWERS_MAX)));

/// Which lines somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AllLogsQuery")]
pub(super) struct LogsQuery {
    /// Those of this node.
    node: Option<String>,
    /// Those of this level or a higher one: trace, debug, info, warn or error.
    level: Option<String>,
    /// Those of this stage.
    stage: Option<String>,
    /// Those since this time, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// How many of the past at most.
    #[schemars(range(max = 10_000))]
    limit: Option<usize>,
    /// Whether those that come later are wanted, too.
    #[serde(default)]
    follow: bool,
}

impl LogsQuery {
    fn filter(&self) -> Result<Filter, Problem> {
        let level = self.level.as_deref().map(str::parse::<Level>).transpose();
        let stage = self
            .stage
            .as_deref()
            .map(str::parse::<StageAddress>)
            .transpose();
        Ok(Filter {
            level: level.map_err(Problem::bad_request)?,
            stage: stage.map_err(|error| Problem::bad_request(error.to_string()))?,
            since_ms: self.since_ms,
        })
    }

    fn limit(&self) -> Result<usize, Problem> {
        let default = match (self.since_ms, self.follow) {
            (Some(_), _) => LIMIT_MAX,
            (None, true) => FOLLOW_LIMIT_DEFAULT,
            (None, false) => LIMIT_DEFAULT,
        };
        match self.limit.unwrap_or(default) {
            limit if limit > LIMIT_MAX => Err(Problem::bad_request(format!(
                "limit is at most {LIMIT_MAX}"
            ))),
            limit => Ok(limit),
        }
    }
}

/// A line with the node that wrote it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LineShown")]
pub(super) struct Shown {
    node: String,
    #[serde(flatten)]
    line: Line,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Node(running): Node,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let (filter, limit) = (query.filter()?, query.limit()?);
    let desk = &running.desk;
    let node = query
        .node
        .as_deref()
        .map(|node| desk.known(node))
        .transpose()?;
    let mut following = None;
    let mut wanted = None;
    if query.follow {
        let permit = FOLLOWERS.clone().try_acquire_owned().map_err(|_| {
            Problem::not_ready(format!("{FOLLOWERS_MAX} follow already: try again later"))
        })?;
        let announced = desk.wanted(node.clone(), filter.clone());
        following = Some((desk.logs().follow(&announced), permit));
        wanted = Some(announced);
    }
    let past = Past {
        filter: filter.clone(),
        limit,
        wanted,
    };
    let (lines, last) = past.of(&running, node).await;
    let stream = Lines {
        ready: lines.into(),
        following,
        last,
        filter,
        stop: app.stop.clone(),
    };
    let lines = stream::unfold(stream, async |mut lines| {
        let text = lines.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), lines))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// What was logged before somebody asked.
#[derive(Clone)]
struct Past {
    filter: Filter,
    limit: usize,
    /// Whoever goes on to follow, so that nothing is missed in between.
    wanted: Option<Wanted>,
}

impl Past {
    /// The last lines of one node, or of all, by their times; and the last number of each node.
    async fn of(
        &self,
        running: &Running,
        node: Option<String>,
    ) -> (Vec<Shown>, HashMap<String, u64>) {
        let nodes = node.map_or_else(|| running.desk.nodes(), |node| vec![node]);
        let mut asking = JoinSet::new();
        for node in nodes {
            let (desk, past) = (running.desk.clone(), self.clone());
            asking.spawn(async move {
                let asked = past.of_node(&desk, &node).await;
                (node, asked)
            });
        }
        let mut lines = Vec::new();
        let mut last = HashMap::new();
        while let Some(asked) = asking.join_next().await {
            let Ok((node, (found, refusal))) = asked else {
                continue;
            };
            last.extend(found.first().map(|line| (node.clone(), line.id)));
            if let Some(refusal) = refusal {
                let text = format!("lines of {node} are missing: {refusal}");
                lines.push(told(&running.desk, text));
            }
            lines.extend(found.into_iter().map(|line| Shown {
                node: node.clone(),
                line,
            }));
        }
        lines.sort_by(|a, b| {
            (a.line.at_ms, &a.node, a.line.id).cmp(&(b.line.at_ms, &b.node, b.line.id))
        });
        let too_many = lines.len().saturating_sub(self.limit);
        (lines.split_off(too_many), last)
    }

    /// The last lines of a node, the newest first, page by page.
    async fn of_node(&self, desk: &Desk, node: &str) -> (Vec<Line>, Option<Refusal>) {
        let mut lines: Vec<Line> = Vec::new();
        loop {
            let limit = PAGE.min(self.limit - lines.len());
            let request = Request::Logs {
                filter: self.filter.clone(),
                before: lines.last().map(|line| line.id),
                limit,
                wanted: self.wanted.clone().map(Box::new),
            };
            match desk.ask::<LogPage>(Some(node), request).await {
                Ok(page) => {
                    let is_last = page.lines.len() < limit;
                    lines.extend(page.lines);
                    if is_last || lines.len() >= self.limit {
                        return (lines, None);
                    }
                }
                Err(refusal) => return (lines, Some(refusal)),
            }
        }
    }
}

/// A line of our own among those of the logs.
fn told(desk: &Desk, text: String) -> Shown {
    Shown {
        node: desk.name().to_owned(),
        line: Line {
            id: 0,
            at_ms: desk.now_ms(),
            level: Level::Warn,
            target: Some(OWN_TARGET.to_owned()),
            stage: None,
            worker: None,
            line: text,
        },
    }
}

struct Lines {
    ready: VecDeque<Shown>,
    following: Option<(Following, OwnedSemaphorePermit)>,
    /// What was shown of the past: the last number of each node.
    last: HashMap<String, u64>,
    filter: Filter,
    stop: watch::Receiver<bool>,
}

impl Lines {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let text = self.text();
            if !text.is_empty() {
                return Some(text);
            }
            if *self.stop.borrow() {
                return None;
            }
            let (following, _) = self.following.as_mut()?;
            let batch = tokio::select! {
                batch = timeout(KEEP_ALIVE, following.next()) => batch,
                _ = self.stop.changed() => continue,
            };
            match batch {
                Ok(batch) => self.came(batch?),
                Err(_) => return Some(Bytes::from_static(b"\n")),
            }
        }
    }

    fn came(&mut self, batch: Batch) {
        let Batch { node, lines, lost } = batch;
        if lost > 0 {
            let at_ms = lines.first().map_or(0, |line| line.at_ms);
            let text = format!(
                "at least {lost} lines were left out here: there are more than may be followed"
            );
            self.ready.push_back(Shown {
                node: node.clone(),
                line: Line {
                    id: 0,
                    at_ms,
                    level: Level::Warn,
                    target: Some(OWN_TARGET.to_owned()),
                    stage: None,
                    worker: None,
                    line: text,
                },
            });
        }
        let shown = self.last.get(&node).copied().unwrap_or_default();
        let new = lines
            .into_iter()
            .filter(|line| line.id > shown && self.filter.wants(line));
        let new = new.map(|line| Shown {
            node: node.clone(),
            line,
        });
        self.ready.extend(new);
    }

    fn text(&mut self) -> Bytes {
        let mut text = Vec::new();
        while text.len() < TEXT_BYTES {
            let Some(line) = self.ready.pop_front() else {
                break;
            };
            serde_json::to_writer(&mut text, &line).expect("text and numbers are JSON");
            text.push(b'\n');
        }
        text.into()
    }
}
