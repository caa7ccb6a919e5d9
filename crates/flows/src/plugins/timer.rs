//! `timer`: an event every so often.

use async_trait::async_trait;
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::state;
use super::worker::{OUT, emit};
use super::{Environment, Outputs, ParameterError, Period};
use crate::event::Data;

/// Parameters of `timer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How long after the one before each event comes.
    every: Period,
    /// How many there are; without it, they never end.
    count: Option<u64>,
}

pub(super) struct Timer(Parameters);

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Position {
    /// The number of the next event.
    n: u64,
    /// When it is due.
    due_ms: u64,
}

const POSITION: &[u8] = b"n";

impl Plugin for Timer {
    const ID: &'static str = "timer";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Gives an event every so often.\n\n\
        The event is a record with its number `n`, which begins with 0, and the time `at` in milliseconds since 1970. \
        Events whose time passed while nothing ran are left out.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "Records `n`, `at`.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("Every minute", r#"{"every": "1m"}"#)];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        Ok(Self(parameters))
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    match parameters.every.as_millis() {
        0 => Err(ParameterError::new(
            "every",
            "write a time above nothing, such as 1s",
        )),
        _ => Ok(()),
    }
}

#[async_trait]
impl Worker for Timer {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a timer has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let now = turn.now().as_millis();
        let every = self.0.every.as_millis() as u64;
        let stored: Option<Position> = state::load(turn, POSITION).await?;
        let mut position = stored.unwrap_or(Position { n: 0, due_ms: now });
        if self.0.count.is_some_and(|count| position.n >= count) {
            return Ok(Provided::Done);
        }
        if now >= position.due_ms {
            emit(
                turn,
                OUT,
                Data::record([("at", Data::from(now)), ("n", position.n.into())]),
            )?;
            let missed = (now - position.due_ms) / every;
            position = Position {
                n: position.n + 1,
                due_ms: position.due_ms + (missed + 1) * every,
            };
            state::store(turn, POSITION.to_vec(), &position)?;
        }
        Ok(
            match self.0.count.is_some_and(|count| position.n >= count) {
                true => Provided::Done,
                false => Provided::After(std::time::Duration::from_millis(position.due_ms - now)),
            },
        )
    }
}
