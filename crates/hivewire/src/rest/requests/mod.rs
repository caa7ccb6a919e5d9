//! `GET /api/v1/requests`, and what notes every request that may change something.

mod files;
mod log;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::log::RequestLog;
use self::log::{Entry, Filter};
use super::access;
use super::app::App;
use super::etag::Tagged;
use super::paging::{checked, next_of};
use super::problem::Problem;
use super::views::bad_query;
use crate::events::{Event, kind};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;
const PATH_CHARS_MAX: usize = 512;
/// Tells who asked under which id the request was noted.
const ID_HEADER: HeaderName = HeaderName::from_static("hivewire-request");
/// In place of a status: whoever asked went away before the answer.
const WENT_AWAY: u16 = 499;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Which requests somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestsQuery {
    /// Only those with smaller ids.
    before: Option<u64>,
    /// The `next` of the page before; the same as `before`.
    after: Option<u64>,
    /// How many at most: 100 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
    /// How their paths begin.
    path: Option<String>,
    /// Those that were answered so.
    status: Option<u16>,
}

/// Requests, the newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct RequestPage {
    requests: Vec<Entry>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Result<Query<RequestsQuery>, QueryRejection>,
) -> Result<Tagged<RequestPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, LIMIT_DEFAULT, LIMIT_MAX)?;
    let filter = Filter {
        path: query.path,
        status: query.status,
    };
    let before = query.before.unwrap_or(u64::MAX);
    let before = before.min(query.after.unwrap_or(u64::MAX));
    let requests = app.requests.page(before, limit + 1, filter).await?;
    let (requests, next) = next_of(requests, limit, |entry| entry.id.to_string());
    Ok(Tagged(RequestPage { requests, next }))
}

/// Notes a request once it is answered, unless it only looks.
pub(super) async fn note(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.method() == Method::GET || request.method() == Method::HEAD {
        return next.run(request).await;
    }
    let pending = Pending::new(app, &request);
    let mut response = next.run(request).await;
    if let Some(id) = pending.answered(response.status().as_u16()) {
        response.headers_mut().insert(ID_HEADER, id.into());
    }
    response
}

/// A request that is not answered yet. If it is dropped, whoever asked has gone; what was asked for may
/// happen all the same, so it is noted too.
struct Pending {
    app: Arc<App>,
    began: Instant,
    entry: Option<Entry>,
}

impl Pending {
    fn new(app: Arc<App>, request: &Request) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let peer = request.extensions().get::<Peer>();
        let who = match access::has_token(&app, request) {
            true => "token",
            false => "nobody",
        };
        let entry = Entry {
            id: 0,
            at_ms: at.map_or(0, |at| at.as_millis() as u64),
            method: request.method().to_string(),
            path: shown_path(&app, request.uri().path()),
            who: who.to_owned(),
            from: peer.map(|Peer(address)| address.to_string()),
            status: WENT_AWAY,
            took_us: 0,
        };
        Self {
            app,
            began: Instant::now(),
            entry: Some(entry),
        }
    }

    fn answered(mut self, status: u16) -> Option<u64> {
        if StatusCode::from_u16(status).is_ok_and(|status| status.is_success()) {
            self.tell(status);
        }
        self.end(status)
    }

    /// Tells whoever listens, unless it is only a message on its way.
    fn tell(&self, status: u16) {
        if let (Some(entry), Some(running)) = (&self.entry, self.app.running.get())
            && !is_traffic(&entry.path)
        {
            let event = Event::new(kind::REQUEST, "done")
                .with("method", entry.method.as_str())
                .with("path", entry.path.as_str())
                .with("who", entry.who.as_str())
                .with("status", status);
            running.events.tell(event);
        }
    }

    /// Notes it, unless that was done before.
    fn end(&mut self, status: u16) -> Option<u64> {
        let mut entry = self.entry.take()?;
        entry.status = status;
        entry.took_us = self.began.elapsed().as_micros() as u64;
        Some(self.app.requests.note(entry))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.end(WENT_AWAY);
    }
}

/// Whether a request to this path sends messages and changes nothing else.
fn is_traffic(path: &str) -> bool {
    let path = path.strip_prefix("/api/v1/").unwrap_or_default();
    let is_under = |start: &str| path.starts_with(start);
    let publishes = is_under("queues/") || is_under("topics/");
    is_under("messages/")
        || is_under("asks/")
        || path == "general"
        || (publishes && path.ends_with("/messages"))
}

/// The path, without what stands behind it and could be a secret.
fn shown_path(app: &App, path: &str) -> String {
    let token = app.token.reveal();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    if path.contains(token) || decoded.contains(token) {
        return "(not shown)".to_owned();
    }
    path.chars().take(PATH_CHARS_MAX).collect()
}
