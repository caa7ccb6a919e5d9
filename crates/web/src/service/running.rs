//! A service that runs.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;

use crate::access::{AnyCell, States};

use super::engine::Engine;
use super::explain::{Explanation, RouteLive};
use super::numbers;
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
}

impl Running {
    /// The service as a router of axum, to be served as it is or to be mounted into another.
    pub fn router(&self) -> Router {
        self.inner.router.clone()
    }

    /// Serves requests that come here, for ever.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        self.serve_until(listener, std::future::pending()).await
    }

    /// Serves requests that come here, until this is done; what is under way then is finished.
    pub async fn serve_until(
        &self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        axum::serve(listener, self.router())
            .with_graceful_shutdown(end)
            .await
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
                waiting_for_computations: route.flights.waiting(),
            });
        }
        for (explained, cell) in explanation.states.iter_mut().zip(inner.states.all()) {
            explained.quarantine = cell.quarantine();
            explained.live = Some(numbers::of_lock(inner.states.locks(), cell.lock()));
        }
        explanation.loops = Some(numbers::of_loops(&inner.engine.loops));
        explanation.overloaded = inner.engine.overloaded.load(Ordering::Relaxed);
        explanation
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
