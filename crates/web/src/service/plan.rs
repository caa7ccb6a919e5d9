//! Routes as they were added, before the states of the service are known.

use std::any::TypeId;
use std::sync::Arc;

use axum::Router;
use axum::http::Method;

use crate::access::{Access, Class, Scope, Shares, States, Wrong};
use crate::locks::Mode;

use super::Service;
use super::callback::Unbound;
use super::engine::Engine;
use super::error::Mistake;
use super::flights::Flights;
use super::pace::{Calls, Pace};
use super::route::{Route, Step};

/// What was added to a service, in order.
pub(super) enum Entry {
    Route(PlannedRoute),
    Fallback(PlannedRoute),
    Nest(String, Box<Service>),
    Change(Box<dyn FnOnce(Router) -> Router + Send>),
}

/// A route with its handlers.
pub(super) struct PlannedRoute {
    pub method: Option<Method>,
    pub path: String,
    pub callbacks: Vec<Box<dyn Unbound>>,
}

/// What is known about a route before it runs.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub method: String,
    pub path: String,
    pub steps: Vec<Access>,
}

impl PlannedRoute {
    /// What is known about it, if it stands below this prefix.
    pub fn declared(&self, prefix: &str) -> Declared {
        let method = self.method.as_ref().map_or("any", Method::as_str);
        Declared {
            method: method.to_owned(),
            path: format!("{prefix}{}", self.path),
            steps: self.callbacks.iter().map(|each| each.declare()).collect(),
        }
    }

    /// The route with its states.
    pub fn bind(self, declared: &Declared, states: &States, engine: &Arc<Engine>) -> Arc<Route> {
        let name = declared.name();
        let callbacks = self.callbacks.into_iter().zip(&declared.steps);
        let steps = callbacks.map(|(callback, access)| {
            let callback = callback.bind(states, name.clone());
            Step::new(callback, access.class(), access.has_waits())
        });
        Arc::new(Route {
            steps: steps.collect(),
            reads_body: declared.steps.iter().any(Access::needs_body),
            engine: Arc::clone(engine),
            flights: Flights::new(engine.settings.computing_waiting_max),
            computing: Pace::new(Calls::HoldLocks),
            name,
        })
    }
}

impl Declared {
    /// How the route is called.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The strongest class of its callbacks.
    pub fn class(&self) -> Class {
        let classes = self.steps.iter().map(Access::class);
        classes.max().unwrap_or(Class::Stateless)
    }

    /// What is wrong with each of its callbacks, and with their order.
    fn check(&self, shares: &Shares) -> Vec<Wrong> {
        let mut wrong: Vec<Wrong> = self.steps.iter().flat_map(Access::check).collect();
        for used in self.steps.iter().flat_map(Access::uses) {
            match shares.find(used.state) {
                None => wrong.push(Wrong::NotShared {
                    position: used.position,
                    parameter: used.parameter.clone(),
                    state: used.state_name.clone(),
                }),
                Some(share)
                    if share.has_snapshots
                        && used.scope == Scope::Key
                        && used.mode == Mode::Write =>
                {
                    wrong.push(Wrong::NoSnapshotOfKeys {
                        position: used.position,
                        parameter: used.parameter.clone(),
                        state: used.state_name.clone(),
                    });
                }
                Some(_) => {}
            }
        }
        wrong.extend(self.check_carried());
        wrong
    }

    fn check_carried(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let mut given: Option<&(TypeId, String)> = None;
        for step in &self.steps {
            let wanted = step.carried_in();
            match (given, wanted) {
                (_, None) => {}
                (Some(given), Some(wanted)) if given == wanted => {}
                (given, Some((_, wanted))) => wrong.push(Wrong::Carried {
                    wanted: wanted.clone(),
                    given: match given {
                        Some((_, given)) => format!("the one before gives Tick<{given}>"),
                        None => "none before it gives a Tick".to_owned(),
                    },
                }),
            }
            given = step.carried_out();
        }
        let unfinished = self.steps.iter().rev().skip(1);
        let breaks_off = unfinished.filter(|step| step.carried_out().is_none());
        wrong.extend(breaks_off.map(|_| Wrong::NoTick));
        if let Some((_, given)) = given {
            wrong.push(Wrong::NotCarried {
                given: given.clone(),
            });
        }
        wrong
    }
}

/// All that is wrong with these routes and states.
pub(super) fn mistakes(routes: &[Declared], shares: &Shares) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (place, share) in shares.all().iter().enumerate() {
        let mut before = shares.all()[..place].iter();
        if before.any(|other| other.state == share.state) {
            mistakes.push(Mistake::SharedTwice {
                state: share.name.clone(),
            });
        }
    }
    for (place, route) in routes.iter().enumerate() {
        let mut before = routes[..place].iter();
        if before.any(|other| (&other.method, &other.path) == (&route.method, &route.path)) {
            mistakes.push(Mistake::RoutedTwice {
                route: route.name(),
            });
        }
        let wrong = route
            .check(shares)
            .into_iter()
            .chain(not_alone(route, routes));
        mistakes.extend(wrong.map(|wrong| Mistake::Handler {
            route: route.name(),
            wrong,
        }));
    }
    mistakes
}

/// Parameters of a route that want states alone that others use without a lock.
fn not_alone(route: &Declared, routes: &[Declared]) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for step in &route.steps {
        for used in step.uses() {
            let is_alone = used.scope == Scope::Whole && step.strongest_mode(used) == Mode::Write;
            let shares_it = |other: &&Declared| {
                let mut uses = other.steps.iter().flat_map(Access::uses);
                uses.any(|other| other.scope == Scope::Concurrent && other.state == used.state)
            };
            if let Some(other) = routes.iter().find(shares_it).filter(|_| is_alone) {
                wrong.push(Wrong::NotAlone {
                    position: used.position,
                    parameter: used.parameter.clone(),
                    state: used.state_name.clone(),
                    other: other.name(),
                });
            }
        }
    }
    wrong
}
