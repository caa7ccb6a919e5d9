//! Stages of flows, for handlers that send to them and ask them.
//!
//! ```
//! # #![allow(elided_lifetimes_in_paths)]
//! # use std::{sync::Arc, time::Duration};
//! # use async_trait::async_trait;
//! # use broker::{Broker, SystemClock};
//! # use bus::engines::EmbeddedBus;
//! # use journal::{Options, testing::MemoryStorage};
//! # use kernel::worker::{Failure, Incoming, Turn, Worker, native};
//! # use runtime::{Runtime, Settings, StageSpec};
//! use web::stages::{Message, Stages};
//! use web::{Body, Carried, Problem, Service, Tick, Write, next_tick};
//!
//! #[derive(Default)]
//! struct Answered(u64);
//!
//! // Asks a stage. No state is locked meanwhile.
//! async fn ask(stages: Stages, Body(question): Body) -> Result<Vec<u8>, Problem> {
//!     let answer = stages.ask("greetings/echo", Message::new(question), Duration::from_secs(5)).await?;
//!     Ok(answer.body.to_vec())
//! }
//!
//! // The same, and then writes state with what it was told.
//! async fn asked(stages: Stages, Body(question): Body) -> Tick<usize> {
//!     match stages.ask("greetings/echo", Message::new(question), Duration::from_secs(5)).await {
//!         Ok(answer) => Tick::next(answer.body.len()),
//!         Err(problem) => Tick::reply(problem),
//!     }
//! }
//!
//! fn count(Carried(bytes): Carried<usize>, mut answered: Write<Answered>) -> String {
//!     answered.0 += 1;
//!     format!("{bytes} bytes; {} answers so far", answered.0)
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let storage = Arc::new(MemoryStorage::new(1));
//! # let (broker, _) = Broker::start(storage, Options::default(), broker::Settings::default(), Arc::new(SystemClock))?;
//! # let runtime = Runtime::start(Arc::new(EmbeddedBus::new(broker)), Settings::default(), Arc::new(SystemClock));
//! let service = Service::new()
//!     .share(Answered::default())
//!     .stages(Stages::new(runtime))
//!     .post("/ask", ask)
//!     .post("/count", next_tick(asked, count));
//! # service.build()?;
//! # Ok(()) }
//! ```
//!
//! What it deliberately does not do: it deploys and stops nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::BusError;
use kernel::{Address, StageAddress};
use runtime::{AskError, Runtime, SendError};

pub use kernel::{Headers, Message};

use crate::extract::{Asked, Extract, Problem};

/// Whether there is such a stage.
type Exists = dyn Fn(&StageAddress) -> bool + Send + Sync;

/// Sends to stages of flows and asks them.
///
/// Every handler of a service that was given them with [`Service::stages`](crate::Service::stages) can take them as a parameter.
/// To ask takes an `async` handler; an ordinary one can pass them on. See the [module](self) for an example.
///
/// What goes wrong is told as a [`Problem`] that can be answered as it is: 500 if the address is none, 503 if there is no such stage
/// or the bus is not ready, 507 if nobody has room for the message, 504 if no answer came in time, and 502 if none will come.
#[derive(Clone)]
pub struct Stages {
    runtime: Arc<Runtime>,
    exists: Arc<Exists>,
}

impl Stages {
    /// The stages that run in this runtime.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        let here = Arc::clone(&runtime);
        Self {
            runtime,
            exists: Arc::new(move |stage| here.state(stage).is_some()),
        }
    }

    /// The same, where others say which stages there are: those of all nodes, say.
    #[must_use]
    pub fn known_by(self, exists: impl Fn(&StageAddress) -> bool + Send + Sync + 'static) -> Self {
        Self {
            exists: Arc::new(exists),
            ..self
        }
    }

    /// Sends a message to an address: `flow/stage`, `flow/stage/3`, `queue:NAME` or `topic:NAME`. It has been taken in when this returns.
    pub async fn send(&self, to: &str, message: impl Into<Message>) -> Result<(), Problem> {
        let to = self.find(to)?;
        let sent = self.runtime.send(&to, message.into()).await;
        sent.map_err(Problem::from)
    }

    /// Asks an address and waits so long for the answer.
    pub async fn ask(
        &self,
        to: &str,
        question: impl Into<Message>,
        timeout: Duration,
    ) -> Result<Message, Problem> {
        let to = self.find(to)?;
        let answer = self.runtime.ask(&to, question.into(), timeout).await;
        answer.map_err(Problem::from)
    }

    /// A message to a stage that is not there would wait for ever.
    fn find(&self, to: &str) -> Result<Address, Problem> {
        let address = to.parse().map_err(|error: kernel::AddressError| {
            let problem = Problem::new(500, "The handler sends to what is no address");
            problem.detail(error.to_string())
        })?;
        let stage = match &address {
            Address::Stage(stage) => stage,
            Address::Worker(worker) => worker.stage(),
            Address::Queue(_) | Address::Topic(_) => return Ok(address),
        };
        match (self.exists)(stage) {
            true => Ok(address),
            false => Err(not_ready(format!(
                "there is no stage {stage}: deploy it, or try again when it is there"
            ))),
        }
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stages").finish_non_exhaustive()
    }
}

impl Extract for Stages {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        let found = asked.extensions().get::<Self>().cloned();
        found.ok_or_else(|| {
            Problem::new(500, "The service is not complete").detail(
                "the handler takes Stages, but the service was given none: say `.stages(Stages::new(runtime))`",
            )
        })
    }
}

fn not_ready(detail: String) -> Problem {
    let problem = Problem::new(503, "Not ready").detail(detail);
    problem.retry_after(Duration::from_secs(1))
}

fn full(detail: String) -> Problem {
    Problem::new(507, "No room").detail(detail)
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        let detail = error.to_string();
        let SendError::Bus { error, .. } = error else {
            return full(detail);
        };
        match error {
            BusError::Full { .. } => full(detail),
            BusError::InDoubt { .. } => Self::new(504, "Not confirmed").detail(detail),
            BusError::Refused { .. } | BusError::Unsupported { .. } => {
                Self::new(409, "Not possible here").detail(detail)
            }
            BusError::Timeout { .. }
            | BusError::Stopped { .. }
            | BusError::NotHeld { .. }
            | BusError::Fenced { .. } => not_ready(detail),
        }
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        let detail = error.to_string();
        match error {
            AskError::Send(error) => error.into(),
            AskError::TimedOut { .. } => Self::new(504, "No reply").detail(detail),
            AskError::NoAnswer { .. } => Self::new(502, "No answer will come").detail(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered when the bus fails so.
    fn status(error: BusError) -> u16 {
        let to = "queue:orders".parse().unwrap();
        Problem::from(SendError::Bus { to, error }).status()
    }

    #[test]
    fn what_the_bus_says_is_answered() {
        let reason = || "it is so".to_owned();
        assert_eq!(status(BusError::Full { reason: reason() }), 507);
        assert_eq!(status(BusError::Refused { reason: reason() }), 409);
        assert_eq!(status(BusError::NotHeld { messages: 1 }), 503);
        let in_doubt = BusError::InDoubt {
            what: "a publish".to_owned(),
            waited: Duration::ZERO,
            reason: reason(),
        };
        assert_eq!(status(in_doubt), 504);
        assert_eq!(Problem::from(SendError::NoRoom(reason())).status(), 507);
    }

    #[test]
    fn what_comes_of_a_question_is_answered() {
        let to: Address = "greetings/echo".parse().unwrap();
        let waited = Duration::from_secs(1);
        let late = Problem::from(AskError::TimedOut {
            to: to.clone(),
            waited,
        });
        assert_eq!(late.status(), 504);
        assert_eq!(
            late.to_string(),
            "504 No reply: greetings/echo has not answered within 1s"
        );
        assert_eq!(Problem::from(AskError::NoAnswer { to }).status(), 502);
    }
}
