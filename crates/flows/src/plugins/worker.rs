//! What the workers of all built-in plug-ins have in common.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};

use super::built_in::Plugin;
use super::{Environment, OnError, parameters};
use crate::event::{Data, Event};
use crate::expression::Variables;

/// A worker that becomes the one of a plug-in as soon as it knows its parameters.
pub(super) struct Built<P> {
    environment: Environment,
    plugin: Option<P>,
}

impl<P: Plugin> Built<P> {
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            plugin: None,
        }
    }

    fn plugin(&mut self) -> Result<&mut P, Failure> {
        let plugin = self.plugin.as_mut();
        plugin.ok_or_else(|| Failure::new("the worker was not told its parameters"))
    }
}

#[async_trait]
impl<P: Plugin> Worker for Built<P> {
    async fn init(&mut self, args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        let wrong = |error| Failure::new(format!("{}: {error}", P::ID));
        let plugin =
            parameters::read(args).and_then(|parameters| P::new(parameters, &self.environment));
        self.plugin
            .insert(plugin.map_err(wrong)?)
            .init(args, turn)
            .await
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.plugin()?.receive(message, turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        self.plugin()?.handle(messages, turn).await
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        self.plugin()?.provide(turn).await
    }

    async fn save(&mut self) -> Result<Bytes, Failure> {
        self.plugin()?.save().await
    }

    async fn load(&mut self, snapshot: Bytes) -> Result<(), Failure> {
        self.plugin()?.load(snapshot).await
    }

    async fn stop(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        self.plugin()?.stop(turn).await
    }
}

/// A plug-in that handles each event by itself and waits for nothing.
pub trait HandlesEach: Send {
    /// Handles one.
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure>;
}

/// Makes a worker of a plug-in that [`HandlesEach`](crate::plugins::author::HandlesEach) event, so that many cost one future and
/// not one each. Whoever uses it has the crates `async_trait` and `kernel`, and [`Incoming`], [`Turn`] and [`Failure`] at hand.
#[macro_export]
macro_rules! handles_each {
    ($plugin:ty) => {
        #[async_trait::async_trait]
        impl kernel::worker::Worker for $plugin {
            async fn receive(
                &mut self,
                message: &Incoming,
                turn: &mut Turn,
            ) -> Result<(), Failure> {
                self.each(message, turn)
            }

            async fn handle(
                &mut self,
                messages: &[Incoming],
                turn: &mut Turn,
            ) -> Result<(), Failure> {
                messages
                    .iter()
                    .try_for_each(|message| self.each(message, turn))
            }
        }
    };
}

pub(super) use crate::handles_each;

/// The name of the output for what plug-ins give.
pub const OUT: &str = "out";

/// The name of the output for what could not be handled.
pub const REFUSED: &str = "refused";

/// What comes out at [`REFUSED`].
pub const REFUSED_OUTPUT: (&str, &str) = (
    REFUSED,
    "Events that could not be handled, as `event` beside the `reason`, if `on_error` is `refused`.",
);

/// What an expression sees of a message.
pub fn variables<'a>(event: &'a Event, message: &'a Incoming) -> Variables<'a> {
    Variables::of(event.data()).with_headers(&message.message.headers)
}

/// Emits an event.
pub fn emit(turn: &mut Turn, output: &str, data: Data) -> Result<(), Failure> {
    turn.emit_value(output, Arc::new(Event::new(data)))
}

/// Emits an event that was made because of another one, whose [hold](Event::held_like) it has, too.
pub fn emit_for(cause: &Event, turn: &mut Turn, output: &str, data: Data) -> Result<(), Failure> {
    turn.emit_value(output, Arc::new(Event::new(data).held_like(cause)))
}

impl OnError {
    /// What is done about an event that could not be handled for this reason.
    pub(super) fn refuse(
        self,
        event: &Event,
        reason: Failure,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        match self {
            Self::Fail => Err(reason),
            Self::Refused => refuse(event, reason.reason, turn),
        }
    }
}

/// Emits an event to [`REFUSED`].
pub fn refuse(event: &Event, reason: String, turn: &mut Turn) -> Result<(), Failure> {
    let refused = [("event", event.data().clone()), ("reason", reason.into())];
    emit_for(event, turn, REFUSED, Data::record(refused))
}
