//! The way of a request through the handlers of its route.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::access::{Claim, Class, Held};
use crate::extract::{Asked, Problem};
use crate::outcome::{Answer, Computation, Computed, Effect, Reply};

use super::callback::{Attempt, Callback, Prepared};
use super::engine::Engine;
use super::flights::{Flights, Joined, Lead};
use super::pace::{Calls, Pace};

/// Bodies that are larger are made sense of on an event loop and not on an I/O thread.
const PARSED_INLINE_BYTES_MAX: usize = 16 << 10;

/// One route of a running service.
pub(crate) struct Route {
    pub name: String,
    pub steps: Vec<Step>,
    pub reads_body: bool,
    pub engine: Arc<Engine>,
    pub flights: Flights,
    pub computing: Pace,
}

/// One function of a route.
pub(crate) struct Step {
    pub callback: Arc<dyn Callback>,
    pub pace: Pace,
    /// Whether it is an `async` function: calling it takes no time, what it does later has to wait by itself.
    pub waits: bool,
}

impl Step {
    pub fn new(callback: Arc<dyn Callback>, class: Class, waits: bool) -> Self {
        let calls = match class {
            _ if waits => Calls::Wait,
            Class::Stateless => Calls::Free,
            Class::Shared | Class::Exclusive => Calls::HoldLocks,
        };
        Self {
            callback,
            pace: Pace::new(calls),
            waits,
        }
    }
}

/// What a request comes to after one function.
enum Settled {
    Reply(Reply),
    Next(Box<dyn Any + Send>),
}

impl Route {
    /// The whole way of a request.
    async fn conduct(self: Arc<Self>, request: Request) -> Reply {
        let time = Duration::from_millis(self.engine.settings.answer_timeout_ms);
        let answered = tokio::time::timeout(time, self.answer(request)).await;
        let answered = answered.unwrap_or_else(|_| Err(too_long()));
        answered.unwrap_or_else(Problem::into_response)
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Result<Reply, Problem> {
        let mut asked = self.read(request).await?;
        let prepared = match asked.body().len() > PARSED_INLINE_BYTES_MAX {
            false => self.prepare(&mut asked)?,
            true => {
                let route = Arc::clone(self);
                let prepare = move || route.prepare(&mut asked);
                self.engine.run(0, prepare).await??
            }
        };
        let mut carried = None;
        for (place, mut prepared) in prepared.into_iter().enumerate() {
            prepared.carry(carried.take());
            let effect = self.perform(place, prepared).await?;
            match self.settle(place, effect).await? {
                Settled::Reply(reply) => return Ok(reply),
                Settled::Next(value) => carried = Some(value),
            }
        }
        Err(Problem::new(500, "The service is not complete"))
    }

    /// Reads what the handlers need.
    async fn read(&self, request: Request) -> Result<Asked, Problem> {
        let (parts, body) = request.into_parts();
        if !self.reads_body {
            return Ok(Asked::new(parts, Bytes::new()));
        }
        let settings = &self.engine.settings;
        let reading = Limited::new(body, settings.body_bytes_max).collect();
        let time = Duration::from_millis(settings.body_timeout_ms);
        match tokio::time::timeout(time, reading).await {
            Ok(Ok(body)) => Ok(Asked::new(parts, body.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let bytes = settings.body_bytes_max;
                Err(Problem::new(413, "The body is too large")
                    .detail(format!("at most {bytes} bytes are taken")))
            }
            Ok(Err(error)) => {
                Err(Problem::new(400, "The body cannot be read").detail(error.to_string()))
            }
            Err(_) => {
                let ms = settings.body_timeout_ms;
                Err(Problem::new(408, "The body takes too long")
                    .detail(format!("it has to be there within {ms} ms")))
            }
        }
    }

    fn prepare(&self, asked: &mut Asked) -> Result<Vec<Box<dyn Prepared>>, Problem> {
        let steps = self.steps.iter();
        steps
            .map(|step| Arc::clone(&step.callback).prepare(asked))
            .collect()
    }

    /// Calls one function: now if it may, else on an event loop.
    async fn perform(
        self: &Arc<Self>,
        place: usize,
        prepared: Box<dyn Prepared>,
    ) -> Result<Effect, Problem> {
        let held = match prepared.claim() {
            None => Held::nothing(),
            Some(claim) => match claim.try_take() {
                Some(granted) => Held::of(granted),
                None => return self.wait_for_locks(place, prepared).await,
            },
        };
        let step = &self.steps[place];
        if step.waits {
            return Ok(step.pace.measured(|| prepared.run(held)));
        }
        if step.pace.is_short()
            && let Some(_inline) = self.engine.inline()
        {
            return Ok(step.pace.measured(|| prepared.run(held)));
        }
        let route = Arc::clone(self);
        let run = move || route.steps[place].pace.measured(|| prepared.run(held));
        self.engine.run(step.pace.expected_ns(), run).await
    }

    /// Calls one function as soon as it has its locks.
    async fn wait_for_locks(
        self: &Arc<Self>,
        place: usize,
        prepared: Box<dyn Prepared>,
    ) -> Result<Effect, Problem> {
        let claim: Claim = prepared.claim().expect("something is locked").clone();
        let expected_ns = self.steps[place].pace.expected_ns();
        let route = Arc::clone(self);
        let run = move |held| route.steps[place].pace.measured(|| prepared.run(held));
        self.engine.run_locked(&claim, expected_ns, run).await
    }

    /// Does what a function wants done, and what follows from that.
    async fn settle(
        self: &Arc<Self>,
        place: usize,
        mut effect: Effect,
    ) -> Result<Settled, Problem> {
        loop {
            effect = match effect {
                Effect::Reply(reply) => return Ok(Settled::Reply(reply)),
                Effect::Next(value) => return Ok(Settled::Next(value)),
                Effect::Compute(computation) => {
                    return self.compute(computation).await.map(Settled::Reply);
                }
                Effect::Later(later) => {
                    let later = CaughtPanics { future: later };
                    let effect = self.steps[place].pace.awaited(later).await;
                    effect.ok_or_else(|| self.panicked())?
                }
            };
        }
    }

    /// Has something computed, or waits for others who do.
    async fn compute(
        self: &Arc<Self>,
        mut computation: Box<dyn Computation>,
    ) -> Result<Reply, Problem> {
        let joined = self.flights.join(computation.take_key());
        let waiting = match joined {
            None => {
                return Err(self
                    .engine
                    .refuse("too many requests wait for a computation"));
            }
            Some(Joined::Waits(waiting)) => waiting,
            Some(Joined::Leads(lead, waiting)) => {
                // Others will wait for it too, so it goes on if this client goes away.
                tokio::spawn(Arc::clone(self).lead(lead, computation));
                waiting
            }
        };
        let answered = waiting.await;
        let answered = answered.map_err(|_| Problem::overloaded("the service ends"))?;
        Ok(answered?.answer())
    }

    async fn lead(self: Arc<Self>, lead: Lead, computation: Box<dyn Computation>) {
        let answered = self.compute_and_commit(computation).await;
        lead.finish(&answered);
    }

    async fn compute_and_commit(
        self: &Arc<Self>,
        computation: Box<dyn Computation>,
    ) -> Result<Arc<dyn Answer>, Problem> {
        let route = Arc::clone(self);
        let expected_ns = self.computing.expected_ns();
        let begun = self.engine.run(expected_ns, move || {
            let computing = AssertUnwindSafe(|| route.computing.measured(|| computation.compute()));
            let computed = catch_unwind(computing).map_err(|_| route.panicked())?;
            // Most often the state is free, and the value is committed before the thread does something else.
            match computed.claim().try_take() {
                Some(granted) => computed
                    .commit(Held::of(granted), &route.name)
                    .map(Committed::Done),
                None => Ok(Committed::NotYet(computed)),
            }
        });
        match begun.await?? {
            Committed::Done(value) => Ok(value),
            Committed::NotYet(computed) => {
                let claim = computed.claim();
                let route = Arc::clone(self);
                let commit = move |held| computed.commit(held, &route.name);
                self.engine.run_locked(&claim, 0, commit).await?
            }
        }
    }

    #[cold]
    fn panicked(&self) -> Problem {
        tracing::error!(route = self.name, "what the handler wanted done panicked");
        Problem::panicked()
    }

    /// Calls the only function of a route now, if its requests have proven to be short.
    #[inline]
    #[expect(
        clippy::result_large_err,
        reason = "a request that cannot be handled at once is handed back as it is"
    )]
    fn at_once(self: &Arc<Self>, request: Request) -> Result<RouteFuture, Request> {
        let [step] = &*self.steps else {
            return Err(request);
        };
        if self.reads_body || !(step.waits || step.pace.is_short()) {
            return Err(request);
        }
        let inline = match step.waits {
            true => None,
            false => match self.engine.inline() {
                Some(inline) => Some(inline),
                None => return Err(request),
            },
        };
        let mut asked = Asked::new(request.into_parts().0, Bytes::new());
        let callback = Arc::clone(&step.callback);
        let attempt = step.pace.measured(|| callback.attempt(&mut asked));
        drop(inline);
        let route = Arc::clone(self);
        Ok(match attempt {
            Attempt::Done(Effect::Reply(reply)) => RouteFuture::Ready(Some(reply)),
            Attempt::Done(effect) => RouteFuture::boxed(route.go_on(async |_| Ok(effect))),
            Attempt::Busy(prepared) => RouteFuture::boxed(
                route.go_on(async |route| route.wait_for_locks(0, prepared).await),
            ),
        })
    }

    /// The rest of the way of a request that was begun at once.
    async fn go_on<F>(self: Arc<Self>, effect: F) -> Reply
    where
        F: AsyncFnOnce(&Arc<Self>) -> Result<Effect, Problem>,
    {
        let time = Duration::from_millis(self.engine.settings.answer_timeout_ms);
        let rest = async {
            let effect = effect(&self).await?;
            match self.settle(0, effect).await? {
                Settled::Reply(reply) => Ok(reply),
                Settled::Next(_) => Err(Problem::new(500, "The service is not complete")),
            }
        };
        let answered = tokio::time::timeout(time, rest).await;
        let answered = answered.unwrap_or_else(|_| Err(too_long()));
        answered.unwrap_or_else(Problem::into_response)
    }
}

enum Committed {
    Done(Arc<dyn Answer>),
    NotYet(Box<dyn Computed>),
}

fn too_long() -> Problem {
    Problem::new(503, "The answer takes too long")
}

/// A route as tower sees it.
#[derive(Clone)]
pub(crate) struct RouteService {
    pub route: Arc<Route>,
}

impl tower::Service<Request> for RouteService {
    type Response = Reply;
    type Error = Infallible;
    type Future = RouteFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: Request) -> RouteFuture {
        match self.route.at_once(request) {
            Ok(future) => future,
            Err(request) => RouteFuture::boxed(Arc::clone(&self.route).conduct(request)),
        }
    }
}

/// The answer of a route.
pub(crate) enum RouteFuture {
    Ready(Option<Reply>),
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl RouteFuture {
    fn boxed(future: impl Future<Output = Reply> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }
}

impl Future for RouteFuture {
    type Output = Result<Reply, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(reply) => Poll::Ready(Ok(reply.take().expect("answered once"))),
            Self::Later(future) => future.as_mut().poll(context).map(Ok),
        }
    }
}

/// A future of the user, who may panic: then there is no answer.
struct CaughtPanics {
    future: Pin<Box<dyn Future<Output = Effect> + Send>>,
}

impl Future for CaughtPanics {
    type Output = Option<Effect>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Effect>> {
        let polling = AssertUnwindSafe(|| self.future.as_mut().poll(context));
        match catch_unwind(polling) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}
