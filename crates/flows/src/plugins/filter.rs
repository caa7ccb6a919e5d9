//! `filter`: only some events pass.

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `filter`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What is true for the events that pass, such as `event.price > 10`.
    r#where: Formula,
    /// What happens with an event for which that cannot be told.
    #[serde(default)]
    on_error: OnError,
}

pub(super) struct Filter(Parameters);

const REJECTED: &str = "rejected";

impl Plugin for Filter {
    const ID: &'static str = "filter";
    const DESCRIPTION: &'static str = "Lets those events pass for which an expression is true.\n\n\
        The others go to the output `rejected`; if that leads nowhere, they are dropped, and counted as such by the stage.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Events for which `where` is true."),
        (REJECTED, "Events for which it is false."),
        REFUSED_OUTPUT,
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Only large orders of known customers",
        r#"{"where": "event.total > 100 && has(event.customer)"}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

impl HandlesEach for Filter {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        match self.0.r#where.is_true(&variables(&event, message)) {
            Ok(true) => turn.emit_value(OUT, event),
            Ok(false) => turn.emit_value(REJECTED, event),
            Err(error) => self.0.on_error.refuse(&event, error.into(), turn),
        }
    }
}

handles_each!(Filter);
