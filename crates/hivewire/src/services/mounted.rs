//! Services in Rust, mounted by those who embed a node.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use flows::document::HttpPattern;
use tower::ServiceExt;
use web::service::ServicesCollector;
use web::{Running, ServiceError};

use super::Services;
use crate::rest::Problem;

/// How long handlers that still run are waited for when the node ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a service was not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// It cannot stand there.
    #[error("a service cannot be mounted at {prefix:?}: {reason}")]
    Prefix {
        /// Where it was to stand.
        prefix: String,
        /// Why it cannot.
        reason: String,
    },
    /// It does not fit together.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// All services that were mounted.
#[derive(Clone, Default)]
pub(super) struct Mounted {
    pub services: Vec<MountedService>,
    router: Router,
}

/// A service, and where it stands.
#[derive(Clone)]
pub(super) struct MountedService {
    pub prefix: String,
    pub running: Running,
}

impl Mounted {
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    fn with(&self, prefix: &str, running: Running) -> Self {
        let mut services = self.services.clone();
        let router = self.router.clone().nest(prefix, running.router());
        services.push(MountedService {
            prefix: prefix.to_owned(),
            running,
        });
        Self { services, router }
    }

    fn check(&self, prefix: &str) -> Result<(), String> {
        let pattern = HttpPattern::read(&format!("GET {prefix}"))?;
        if pattern.path.len() < 2 || pattern.path.ends_with('/') || pattern.path.contains('{') {
            return Err("write a fixed path, such as /shop".to_owned());
        }
        let below = |one: &str, other: &str| {
            let rest = one.strip_prefix(other);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let overlaps =
            |other: &&MountedService| below(prefix, &other.prefix) || below(&other.prefix, prefix);
        match self.services.iter().find(overlaps) {
            None => Ok(()),
            Some(other) => Err(format!("there is a service at {} already", other.prefix)),
        }
    }

    pub async fn answer(&self, request: Request) -> Response {
        if self.is_empty() {
            let path = request.uri().path();
            return Problem::not_found(format!(
                "no service answers {path}: `hivewire services` lists what is answered"
            ))
            .into_response();
        }
        let answer = self.router.clone().oneshot(request).await;
        answer.unwrap_or_else(|never| match never {})
    }

    pub fn stop(&self) {
        for MountedService { prefix, running } in &self.services {
            if !running.stop(STOP_TIMEOUT) {
                tracing::warn!(
                    prefix,
                    "handlers of a service still run, and are left to themselves"
                );
            }
        }
    }
}

impl Services {
    /// How it goes with them, as metrics. Each is called as its paths begin.
    pub fn mounted_collector(self: &Arc<Self>) -> ServicesCollector {
        let services = self.clone();
        ServicesCollector::new(move || {
            let mounted = services.mounted();
            let all = mounted.services.iter();
            all.map(|one| (one.prefix.clone(), one.running.clone()))
                .collect()
        })
    }

    /// Serves this below a prefix.
    pub fn mount(&self, prefix: &str, service: web::Service) -> Result<Running, MountError> {
        let refused = |reason| MountError::Prefix {
            prefix: prefix.to_owned(),
            reason,
        };
        let mut mounted = self.mounted.write();
        mounted.check(prefix).map_err(refused)?;
        let deployments = self.deployments.clone();
        let stages = web::Stages::new(deployments.runtime().clone());
        let stages = stages.known_by(move |stage| deployments.exists(stage));
        let running = service.stages(stages).build()?;
        *mounted = mounted.with(prefix, running.clone()).into();
        drop(mounted);
        self.changed.notify_one();
        Ok(running)
    }
}
