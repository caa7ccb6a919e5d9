//! `map`: each event becomes another.

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, emit_for, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `map`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The event that comes out, such as `{'name': event.name, 'total': event.price * event.count}`.
    to: Formula,
    /// What happens with an event for which that cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

pub(super) struct Map(Parameters);

impl Plugin for Map {
    const ID: &'static str = "map";
    const DESCRIPTION: &'static str = "Makes another event of each event.\n\n\
        The new event is what the expression `to` gives: a record, or any other value.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The new events."), REFUSED_OUTPUT]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "The total of an order",
        r#"{"to": "{'order': event.id, 'total': event.price * event.count}"}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

impl HandlesEach for Map {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        if self.0.to.is_event() {
            return turn.emit_value(OUT, event);
        }
        match self.0.to.evaluate(&variables(&event, message)) {
            Ok(data) => emit_for(&event, turn, OUT, data),
            Err(error) => self.0.on_error.refuse(&event, error.into(), turn),
        }
    }
}

handles_each!(Map);
