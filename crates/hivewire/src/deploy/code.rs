//! From the bytes of components to code that runs.

use std::sync::Arc;

use bytes::Bytes;
use flows::plugins::Environment;
use kernel::Message;
use kernel::worker::{Code, Failure, Incoming};
use runtime::{Router, Workers};
use tokio::sync::Semaphore;
use wasm::{Candidate, Host, LoadError};

use super::DeployError;
use super::built_in;
use super::source::Component;

/// Loads components, a few at a time.
pub(super) struct Loader {
    host: Arc<Host>,
    /// What built-in plug-ins find here.
    environment: Environment,
    permits: Semaphore,
}

impl Loader {
    pub fn new(host: Arc<Host>, environment: Environment) -> Self {
        let at_once = host.settings().compiles_max.max(1);
        Self {
            host,
            environment,
            permits: Semaphore::new(at_once),
        }
    }

    /// What built-in plug-ins find here.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The code of a worker.
    pub async fn worker(&self, component: &Component) -> Result<Arc<dyn Code>, DeployError> {
        if let Some(id) = built_in::id_of(&component.bytes) {
            return built_in::code(&id, &self.environment);
        }
        let load = |host: &Host, bytes: &[u8]| host.load(bytes);
        let code = self.load(component, load).await;
        Ok(code.map_err(DeployError::Component)?)
    }

    /// The code of a router.
    pub async fn router(&self, component: &Component) -> Result<Arc<dyn Router>, DeployError> {
        let load = |host: &Host, bytes: &[u8]| host.load_router(bytes);
        let router = self.load(component, load).await;
        let router = router.map_err(DeployError::Router)?;
        Ok(Arc::new(ComponentRouter(router)))
    }

    /// Checks the component of a worker without compiling it.
    pub async fn check(&self, bytes: Bytes) -> Result<Component, LoadError> {
        let host = self.host.clone();
        let checking = tokio::task::spawn_blocking(move || {
            host.check(&bytes)?;
            Ok(Component::new(bytes))
        });
        checking.await.map_err(broken)?
    }

    async fn load<T: Send + 'static>(
        &self,
        component: &Component,
        load: impl FnOnce(&Host, &[u8]) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let _permit = self.permits.acquire().await;
        let (host, bytes) = (self.host.clone(), component.bytes.clone());
        let loading = tokio::task::spawn_blocking(move || load(&host, &bytes));
        loading.await.map_err(broken)?
    }
}

fn broken(error: tokio::task::JoinError) -> LoadError {
    LoadError::Compile {
        reason: error.to_string(),
    }
}

/// A component that chooses workers.
struct ComponentRouter(Arc<wasm::Router>);

impl Router for ComponentRouter {
    fn select(
        &self,
        message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        let candidates: Vec<Candidate> = (0..workers.count())
            .filter(|worker| workers.has_room(*worker))
            .map(|worker| Candidate {
                worker,
                waiting: workers.waiting(worker),
            })
            .collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let places = self
            .0
            .select(&Incoming::new(message.clone()), &candidates)?;
        let numbers = places
            .iter()
            .filter_map(|place| candidates.get(*place as usize));
        chosen.extend(numbers.map(|candidate| candidate.worker));
        Ok(())
    }
}
