//! What all handlers share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use broker::Broker;
use kernel::metrics::{Counter, Registry};
use listeners::{Bound, Clients};
use runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use url::Url;

use super::access::AllowedHosts;
use super::idempotency::Answers;
use super::problem::Problem;
use super::requests::RequestLog;
use crate::alerts::AlertService;
use crate::deploy::Deployments;
use crate::desk::Desk;
use crate::events::Events;
use crate::live::Live;
use crate::logs::LogStore;
use crate::rates::Rates;
use crate::secret::Secret;
use crate::services::Services;

/// Bodies of all requests together may take this much memory, in units of [`BUDGET_UNIT_BYTES`].
const BODIES_BYTES_MAX: usize = 256 << 20;
/// What one permit of the budget stands for.
pub(super) const BUDGET_UNIT_BYTES: usize = 1 << 10;

/// How many connections there may be, unless something else is set.
pub(crate) const CONNECTIONS_MAX: usize = 1_000;

/// Where in the data folder it is kept who changed something.
const REQUESTS_FOLDER: &str = "requests";

/// What the HTTP side counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpCounters {
    pub requests: Counter,
    pub refused: Counter,
    pub connections_refused: Counter,
}

impl HttpCounters {
    /// Registers them all.
    pub fn register(&self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter("http_requests", "Requests over HTTP", &self.requests);
        counter(
            "http_requests_refused",
            "Requests refused because of host, origin or token",
            &self.refused,
        );
        counter(
            "http_connections_refused",
            "HTTP connections refused at the limit",
            &self.connections_refused,
        );
    }
}

/// The HTTP side of a node. It is there before the broker is, to say that it is not ready.
pub(crate) struct App {
    pub started: Instant,
    pub data: PathBuf,
    pub token: Secret,
    pub hosts: AllowedHosts,
    pub counters: HttpCounters,
    /// How many connections there may be at a time.
    pub connections_max: Arc<AtomicUsize>,
    pub requests: RequestLog,
    pub logs: Arc<LogStore>,
    /// Turns true when the node drains.
    pub stop: watch::Receiver<bool>,
    pub bodies: Arc<Semaphore>,
    pub running: OnceLock<Arc<Running>>,
    /// What requests with an `Idempotency-Key` were answered.
    pub answers: Answers,
}

/// What is there once all listeners are ready.
pub(crate) struct Running {
    /// The broker in this process, if there is one.
    pub broker: Option<Arc<Broker>>,
    pub bound: Vec<Bound>,
    /// Who is connected, if there are listeners.
    pub clients: Option<Arc<Clients>>,
    /// Where others reach the HTTP side.
    pub reached_at: Option<SocketAddr>,
    /// The addresses of the bus that it joined, without what is secret in them.
    pub buses: Vec<Url>,
    pub rates: Arc<Rates>,
    pub registry: Registry,
    pub deployments: Arc<Deployments>,
    pub alerts: Arc<AlertService>,
    pub events: Arc<Events>,
    pub live: Arc<Live>,
    /// Asks this node and others for something.
    pub desk: Arc<Desk>,
    /// What is answered over HTTP for others.
    pub services: Arc<Services>,
}

impl Running {
    pub fn runtime(&self) -> &Runtime {
        self.deployments.runtime()
    }

    /// The broker in this process. A node on a bus that others share has none.
    pub fn broker(&self) -> Result<&Arc<Broker>, Problem> {
        self.broker.as_ref().ok_or_else(|| {
            Problem::conflict(
                "this node has no broker of its own: its queues and topics are those of the bus that it joined, so ask there",
            )
        })
    }
}

impl App {
    pub fn new(
        data: PathBuf,
        token: Secret,
        hosts: AllowedHosts,
        logs: Arc<LogStore>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            started: Instant::now(),
            requests: RequestLog::open(data.join(REQUESTS_FOLDER)),
            data,
            token,
            hosts,
            logs,
            connections_max: Arc::new(AtomicUsize::new(CONNECTIONS_MAX)),
            counters: HttpCounters::default(),
            stop,
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX / BUDGET_UNIT_BYTES)),
            running: OnceLock::new(),
            answers: Answers::default(),
        }
    }

    pub fn is_draining(&self) -> bool {
        *self.stop.borrow()
    }
}

/// Handlers that need the broker ask for it this way, and are not called before it is there.
pub(super) struct Node(pub Arc<Running>);

impl FromRequestParts<Arc<App>> for Node {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match app.running.get() {
            Some(running) => Ok(Self(running.clone())),
            None => Err(Problem::not_ready("the node is still starting")),
        }
    }
}
