//! Putting a service together.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, on_service};
use tower::{Layer, Service as TowerService};

use crate::access::{Access, AnyCell, OnPanic, Scope, Shares, States};
use crate::extract::Problem;
use crate::outcome::Files;
use crate::stages::Stages;

use super::engine::Engine;
use super::error::{Mistake, ServiceError};
use super::explain::Explanation;
use super::handler::{Handler, Registered};
use super::plan::{Declared, Entry, PlannedRoute, mistakes};
use super::route::{Route, RouteService};
use super::running::{Inner, Running};
use super::settings::Settings;

/// A service that is put together: states that are shared, and routes with handlers that take them.
///
/// See the [crate](crate) for an example.
#[derive(Default)]
#[must_use = "build it and serve it"]
pub struct Service {
    shares: Shares,
    entries: Vec<Entry>,
    settings: Settings,
    stages: Option<Stages>,
}

impl Service {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares a state with all handlers that take its type. If a handler panics while it writes it, it is put into quarantine.
    pub fn share<T: Send + Sync + 'static>(self, state: T) -> Self {
        self.share_with(state, OnPanic::Quarantine)
    }

    /// Shares a state, and says what becomes of it if a handler panics while it writes it.
    pub fn share_with<T: Send + Sync + 'static>(mut self, state: T, on_panic: OnPanic<T>) -> Self {
        self.shares.add(state, on_panic);
        self
    }

    /// What asks for this path is handled so. Parts in braces are open: `/users/{id}`, `/files/{*rest}`.
    pub fn get<M, H>(self, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.route(Method::GET, path, handler)
    }

    /// What is posted to this path is handled so.
    pub fn post<M, H>(self, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.route(Method::POST, path, handler)
    }

    /// What is put to this path is handled so.
    pub fn put<M, H>(self, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.route(Method::PUT, path, handler)
    }

    /// What patches this path is handled so.
    pub fn patch<M, H>(self, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.route(Method::PATCH, path, handler)
    }

    /// What deletes this path is handled so.
    pub fn delete<M, H>(self, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.route(Method::DELETE, path, handler)
    }

    /// Requests with this method and path are handled so.
    pub fn route<M, H>(mut self, method: Method, path: &str, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.entries.push(Entry::Route(PlannedRoute {
            method: Some(method),
            path: path.to_owned(),
            callbacks: M::registered(handler).all,
        }));
        self
    }

    /// Requests that fit no route are handled so. Otherwise they are answered with 404.
    pub fn fallback<M, H>(mut self, handler: H) -> Self
    where
        H: Handler<M>,
        M: Registered<H>,
    {
        self.entries.push(Entry::Fallback(PlannedRoute {
            method: None,
            path: String::new(),
            callbacks: M::registered(handler).all,
        }));
        self
    }

    /// Puts all routes of another service below this prefix. They share the states of both, and the settings of this one.
    pub fn nest(mut self, prefix: &str, mut service: Service) -> Self {
        self.shares.extend(std::mem::take(&mut service.shares));
        self.entries
            .push(Entry::Nest(prefix.to_owned(), Box::new(service)));
        self
    }

    /// Puts a router of axum below this prefix, or beside the routes if it is `/`.
    pub fn mount(self, prefix: &str, router: Router) -> Self {
        let prefix = prefix.to_owned();
        self.change(move |all| match prefix.as_str() {
            "" | "/" => all.merge(router),
            _ => all.nest(&prefix, router),
        })
    }

    /// Answers what is below this prefix with files.
    pub fn files(self, prefix: &str, files: Files) -> Self {
        let prefix = prefix.to_owned();
        self.change(move |all| match prefix.as_str() {
            "" | "/" => all.fallback_service(files.service()),
            _ => all.nest_service(&prefix, files.service()),
        })
    }

    /// Puts a layer of tower around all that was added before.
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<axum::routing::Route> + Clone + Send + Sync + 'static,
        L::Service: TowerService<Request> + Clone + Send + Sync + 'static,
        <L::Service as TowerService<Request>>::Response: IntoResponse + 'static,
        <L::Service as TowerService<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as TowerService<Request>>::Future: Send + 'static,
    {
        self.change(move |all| all.layer(layer))
    }

    fn change(mut self, change: impl FnOnce(Router) -> Router + Send + 'static) -> Self {
        self.entries.push(Entry::Change(Box::new(change)));
        self
    }

    /// Lets all handlers of this service, whenever they are added, take [`Stages`], and axum's handlers that are mounted take
    /// `Extension<Stages>`. A service that is [nested](Service::nest) may have others.
    pub fn stages(mut self, stages: Stages) -> Self {
        self.stages = Some(stages);
        self
    }

    /// Other limits than the usual.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What the service knows about itself: a table of routes with their classes, states and conflicts.
    pub fn explain(&self) -> Explanation {
        let routes = self.declared("");
        let mistakes = mistakes(&routes, &self.shares);
        let mistakes = mistakes.iter().map(Mistake::to_string).collect();
        Explanation::of(&routes, &self.shares, mistakes)
    }

    fn declared(&self, prefix: &str) -> Vec<Declared> {
        let mut declared = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Route(route) | Entry::Fallback(route) => {
                    declared.push(route.declared(prefix));
                }
                Entry::Nest(below, service) => {
                    declared.extend(service.declared(&format!("{prefix}{below}")));
                }
                Entry::Change(_) => {}
            }
        }
        declared
    }

    /// Checks that all fits together, and starts the event loops.
    pub fn build(mut self) -> Result<Running, ServiceError> {
        let declared = self.declared("");
        let mistakes = mistakes(&declared, &self.shares);
        if !mistakes.is_empty() {
            return Err(ServiceError { mistakes });
        }
        let explanation = Explanation::of(&declared, &self.shares, Vec::new());
        let states = std::mem::take(&mut self.shares).build(self.settings.waiting_max);
        allow_concurrent_use(&declared, &states);
        let engine = Engine::start(self.settings.clone());
        let mut assembly = Assembly {
            declared: declared.into_iter(),
            states: &states,
            engine: &engine,
            routes: Vec::new(),
        };
        // Routers of axum panic if routes do not fit together.
        let router = catch_unwind(AssertUnwindSafe(|| assembly.assemble(self, true)));
        let routes = assembly.routes;
        let router = router.map_err(|reason| {
            engine.loops.stop(std::time::Duration::ZERO);
            let reason = panic_message(&*reason);
            let mistakes = vec![Mistake::Routes { reason }];
            ServiceError { mistakes }
        })?;
        let inner = Inner {
            router,
            states,
            routes,
            engine,
            explanation,
            edges: Arc::default(),
        };
        Ok(Running {
            inner: Arc::new(inner),
        })
    }
}

/// Makes a router of what was added, in the same order as it was declared.
struct Assembly<'a> {
    declared: std::vec::IntoIter<Declared>,
    states: &'a States,
    engine: &'a Arc<Engine>,
    routes: Vec<Arc<Route>>,
}

impl Assembly<'_> {
    fn assemble(&mut self, service: Service, is_outermost: bool) -> Router {
        let mut router = Router::new();
        if is_outermost {
            router = router.fallback(not_found);
        }
        for entry in service.entries {
            router = match entry {
                Entry::Route(route) => {
                    let method = route.method.clone().unwrap_or_default();
                    let filter = MethodFilter::try_from(method)
                        .unwrap_or_else(|error| panic!("{error}: {}", route.path));
                    let path = route.path.clone();
                    router.route(&path, on_service(filter, self.bind(route)))
                }
                Entry::Fallback(route) => router.fallback_service(self.bind(route)),
                Entry::Nest(prefix, service) => {
                    router.nest(&prefix, self.assemble(*service, false))
                }
                Entry::Change(change) => change(router),
            };
        }
        let router = router.method_not_allowed_fallback(not_allowed);
        match service.stages {
            Some(stages) => router.layer(axum::Extension(stages)),
            None => router,
        }
    }

    fn bind(&mut self, route: PlannedRoute) -> RouteService {
        let declared = self.declared.next().expect("all were declared");
        let route = route.bind(&declared, self.states, self.engine);
        self.routes.push(Arc::clone(&route));
        RouteService { route }
    }
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(404, "Not found").detail(format!("there is nothing at {}", uri.path()))
}

async fn not_allowed(method: Method) -> Problem {
    Problem::new(405, "Method not allowed")
        .detail(format!("{method} is not what this path can be asked with"))
}

fn allow_concurrent_use(routes: &[Declared], states: &States) {
    let uses = routes
        .iter()
        .flat_map(|route| route.steps.iter().flat_map(Access::uses));
    for used in uses.filter(|used| used.scope == Scope::Concurrent) {
        if let Some(cell) = states.any(used.state) {
            AnyCell::allow_concurrent_use(&**cell);
        }
    }
}

fn panic_message(reason: &(dyn std::any::Any + Send)) -> String {
    let text = reason.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| reason.downcast_ref::<&str>().copied());
    text.unwrap_or("the router panicked").to_owned()
}
