//! One function that handles requests, with all types known, behind traits that know none of them.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::response::IntoResponse;

use crate::access::{Access, Claim, Held, Param, States, Wants};
use crate::extract::{Asked, Problem};
use crate::locks::Locks;
use crate::outcome::{Effect, Outcome};

use super::handler::Callable;

/// A callback before the states of the service are known.
pub(crate) trait Unbound: Send {
    /// What it takes and gives.
    fn declare(&self) -> Access;
    /// The callback with its states. `name` is how it is called in logs.
    fn bind(self: Box<Self>, states: &States, name: String) -> Arc<dyn Callback>;
}

/// A callback of a running service.
pub(crate) trait Callback: Send + Sync {
    /// Does all there is to do in one go, if nothing of it is locked by others.
    fn attempt(self: Arc<Self>, asked: &mut Asked) -> Attempt;
    /// Takes what is needed from a request.
    fn prepare(self: Arc<Self>, asked: &mut Asked) -> Result<Box<dyn Prepared>, Problem>;
}

/// What became of an attempt.
pub(crate) enum Attempt {
    /// It is done.
    Done(Effect),
    /// Others hold what it needs.
    Busy(Box<dyn Prepared>),
}

/// A callback for one request, of which all is known but what is locked.
pub(crate) trait Prepared: Send {
    /// What has to be locked, if anything.
    fn claim(&self) -> Option<&Claim>;
    /// Takes what the callback before gave.
    fn carry(&mut self, carried: Option<Box<dyn Any + Send>>);
    /// Calls the function, and releases the locks.
    fn run(self: Box<Self>, held: Held) -> Effect;
}

/// A function that will handle requests.
pub(super) struct Planned<H, M> {
    function: H,
    marker: PhantomData<fn() -> M>,
}

impl<H: Callable<M>, M: 'static> Planned<H, M> {
    pub fn new(function: H) -> Self {
        Self {
            function,
            marker: PhantomData,
        }
    }
}

impl<H: Callable<M>, M: 'static> Unbound for Planned<H, M> {
    fn declare(&self) -> Access {
        let mut access = Access::default();
        H::Params::declare(&mut access);
        H::Out::declare(&mut access);
        access
    }

    fn bind(self: Box<Self>, states: &States, name: String) -> Arc<dyn Callback> {
        let site = H::Params::bind(states);
        let mut wants = Wants::default();
        H::Params::wants(&site, &mut wants);
        let claim = (!wants.all().is_empty()).then(|| {
            Claim::new(states.locks(), wants.all()).expect("what is wanted was checked before")
        });
        Arc::new(Bound {
            function: self.function,
            site,
            claim,
            wants,
            locks: Arc::clone(states.locks()),
            name,
            marker: PhantomData,
        })
    }
}

/// A function with the states that it takes.
struct Bound<H: Callable<M>, M: 'static> {
    function: H,
    site: <H::Params as Param>::Site,
    /// What is locked for every request.
    claim: Option<Claim>,
    wants: Wants,
    locks: Arc<Locks>,
    name: String,
    marker: PhantomData<fn() -> M>,
}

/// What the parameters have made of a request.
type PreparedOf<H, M> = <<H as Callable<M>>::Params as Param>::Prepared;

impl<H: Callable<M>, M: 'static> Bound<H, M> {
    /// What the parameters make of a request, and the claim of this request if it names keys.
    #[inline]
    fn read(&self, asked: &mut Asked) -> Result<(PreparedOf<H, M>, Option<Claim>), Problem> {
        let mut keys = Wants::default();
        let reading = AssertUnwindSafe(|| H::Params::prepare(&self.site, asked, &mut keys));
        let prepared = catch_unwind(reading).unwrap_or_else(|_| Err(self.panicked()))?;
        if keys.all().is_empty() {
            return Ok((prepared, None));
        }
        keys.extend(self.wants.all());
        let claim = Claim::new(&self.locks, keys.all());
        let claim = claim.map_err(|error| {
            Problem::new(400, "The keys do not fit").detail(format!(
                "the request cannot have all it names at once: {error}"
            ))
        })?;
        Ok((prepared, Some(claim)))
    }

    /// Calls the function. The locks are released when it has returned, before anything is made of its result.
    #[inline]
    fn call(&self, mut prepared: PreparedOf<H, M>, mut held: Held) -> Effect {
        let calling = AssertUnwindSafe(|| {
            let params = H::Params::fetch(&self.site, &mut prepared, &held)?;
            Ok::<_, Problem>(self.function.call(params))
        });
        match catch_unwind(calling) {
            Ok(Ok(out)) => {
                drop(held);
                let effect = catch_unwind(AssertUnwindSafe(|| out.effect()));
                effect.unwrap_or_else(|_| Effect::Reply(self.panicked().into_response()))
            }
            Ok(Err(problem)) => Effect::Reply(problem.into_response()),
            Err(_) => {
                H::Params::panicked(&self.site, &mut held, &self.name);
                drop(held);
                Effect::Reply(self.panicked().into_response())
            }
        }
    }

    #[cold]
    fn panicked(&self) -> Problem {
        tracing::error!(handler = self.name, "the handler panicked");
        Problem::panicked()
    }
}

impl<H: Callable<M>, M: 'static> Callback for Bound<H, M> {
    #[inline]
    fn attempt(self: Arc<Self>, asked: &mut Asked) -> Attempt {
        let (prepared, claim) = match self.read(asked) {
            Ok(read) => read,
            Err(problem) => return Attempt::Done(Effect::Reply(problem.into_response())),
        };
        let held = match claim.as_ref().or(self.claim.as_ref()) {
            None => Some(Held::nothing()),
            Some(claim) => claim.try_take().map(Held::of),
        };
        match held {
            Some(held) => Attempt::Done(self.call(prepared, held)),
            None => Attempt::Busy(Box::new(Ready {
                callback: self,
                prepared,
                claim,
            })),
        }
    }

    fn prepare(self: Arc<Self>, asked: &mut Asked) -> Result<Box<dyn Prepared>, Problem> {
        let (prepared, claim) = self.read(asked)?;
        Ok(Box::new(Ready {
            callback: self,
            prepared,
            claim,
        }))
    }
}

struct Ready<H: Callable<M>, M: 'static> {
    callback: Arc<Bound<H, M>>,
    prepared: PreparedOf<H, M>,
    claim: Option<Claim>,
}

impl<H: Callable<M>, M: 'static> Prepared for Ready<H, M> {
    fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref().or(self.callback.claim.as_ref())
    }

    fn carry(&mut self, mut carried: Option<Box<dyn Any + Send>>) {
        H::Params::carry(&mut self.prepared, &mut carried);
    }

    fn run(self: Box<Self>, held: Held) -> Effect {
        self.callback.call(self.prepared, held)
    }
}
