//! A service that runs.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kernel::metrics::{Collector, Registry};
use tokio::net::TcpListener;

use crate::access::{AnyCell, States};
use crate::edge::{self, EdgeNumbers};

use super::edges::Edges;
use super::engine::Engine;
use super::explain::{Explanation, RouteLive};
use super::live::{LoopsLive, StateLive, TimesExplained};
use super::metrics::ServicesCollector;
use super::route::Route;

/// A service that runs: its event loops are there, and requests can come.
#[derive(Clone)]
pub struct Running {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub router: Router,
    pub states: States,
    pub routes: Vec<Arc<Route>>,
    pub engine: Arc<Engine>,
    pub explanation: Explanation,
    pub edges: Arc<Edges>,
}

impl Running {
    /// The service as a router of axum, to be served as it is or to be mounted into another.
    pub fn router(&self) -> Router {
        self.inner.router.clone()
    }

    /// Serves requests that come here, for ever; see [`Running::serve_until`].
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        self.serve_until(listener, std::future::pending()).await
    }

    /// Serves requests that come here, within the limits of the [edge], until this is done or this future is dropped.
    /// What is under way then is finished, for as long as the limits let it.
    ///
    /// Handlers find the address of their client as [`Extension`](crate::Extension) of axum's `ConnectInfo<SocketAddr>`.
    pub async fn serve_until(
        &self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let limits = self.inner.engine.settings.edge_limits();
        let serving = edge::serve(listener, self.router(), limits, end);
        let _served = self.inner.edges.serve(serving.handle());
        serving.ended().await;
        Ok(())
    }

    /// How it goes with the connections: of each listener that the service is being served on.
    pub fn edge(&self) -> Vec<EdgeNumbers> {
        self.inner.edges.numbers()
    }

    /// The service as it is now, with what happened so far.
    pub fn explain(&self) -> Explanation {
        let inner = &*self.inner;
        let mut explanation = inner.explanation.clone();
        for (explained, route) in explanation.routes.iter_mut().zip(&inner.routes) {
            let pace = &route.steps[0].pace;
            explained.live = Some(RouteLive {
                calls: pace.calls(),
                mean_ns: pace.expected_ns(),
                is_inline: pace.is_short() || route.steps[0].waits,
                taking: TimesExplained::of(&pace.times()),
                computing: TimesExplained::of(&route.computing.times()),
                waiting_for_computations: route.flights.waiting(),
            });
        }
        for (explained, cell) in explanation.states.iter_mut().zip(inner.states.all()) {
            explained.quarantine = cell.quarantine();
            explained.live = Some(StateLive::of(&inner.states.locks().numbers(cell.lock())));
        }
        explanation.loops = Some(LoopsLive::of(&inner.engine.loops.numbers()));
        explanation.overloaded = inner.engine.overloaded();
        explanation
    }

    /// Reads the metrics of the service for a registry, with this name as the label `service`. If a process has several services, take
    /// one [`ServicesCollector`] for all.
    pub fn collector(&self, name: &str) -> Box<dyn Collector> {
        let (name, running) = (name.to_owned(), self.clone());
        let services = move || vec![(name.clone(), running.clone())];
        Box::new(ServicesCollector::new(services))
    }

    /// The metrics of the service as text that Prometheus reads (OpenMetrics), with the label `service="service"`.
    ///
    /// A handler does not know the service that it belongs to, so they are shown beside it:
    ///
    /// ```
    /// use axum::http::header::CONTENT_TYPE;
    /// use axum::routing::get;
    /// use web::{Running, Service, edge};
    ///
    /// fn with_metrics(running: &Running) -> axum::Router {
    ///     let shown = running.clone();
    ///     let metrics = move || {
    ///         let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ///         std::future::ready(([(CONTENT_TYPE, kind)], shown.metrics()))
    ///     };
    ///     running.router().route("/metrics", get(metrics))
    /// }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let running = Service::new().get("/", || "hello").build().unwrap();
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    /// let serving = edge::serve(listener, with_metrics(&running), edge::EdgeLimits::default(), std::future::pending());
    /// # assert!(running.metrics().contains("service_requests_total"));
    /// # serving.handle().stop();
    /// # serving.ended().await;
    /// # });
    /// ```
    pub fn metrics(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(self.collector("service"));
        kernel::metrics::to_text(&registry)
    }

    /// Lets requests have a state again that was put into quarantine after a panic. False if it was not.
    pub fn release<T: Send + Sync + 'static>(&self) -> bool {
        let cell = self.inner.states.find::<T>();
        cell.is_some_and(|cell| AnyCell::release(&*cell))
    }

    /// Ends the event loops when what runs is done. False if that took longer; what runs then is left to itself.
    pub fn stop(&self, within: Duration) -> bool {
        self.inner.engine.loops.stop(within)
    }
}
