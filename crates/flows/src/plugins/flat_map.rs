//! `flat-map`: each event becomes any number of others.

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, emit_for, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::{Data, Event};

/// Parameters of `flat-map`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// A list of the events that come out, such as `event.items` or `event.text.words().map(w, {'word': w})`.
    to: Formula,
    /// What happens with an event for which that cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

pub(super) struct FlatMap(Parameters);

impl Plugin for FlatMap {
    const ID: &'static str = "flat-map";
    const DESCRIPTION: &'static str = "Makes any number of events of each event.\n\n\
        The expression `to` gives a list, and each value in it comes out as an event, in order.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The new events."), REFUSED_OUTPUT]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "The words of a text",
        r#"{"to": "event.text.lower().words().map(w, {'word': w})"}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

impl HandlesEach for FlatMap {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let events = self
            .0
            .to
            .evaluate(&variables(&event, message))
            .map_err(Failure::from);
        let events = events.and_then(|data| match data {
            Data::List(list) => Ok(list),
            other => Err(Failure::new(format!(
                "{:?} must give a list, but gives {}",
                self.0.to.text(),
                other.kind()
            ))),
        });
        match events {
            Ok(list) => list
                .into_values()
                .into_iter()
                .try_for_each(|data| emit_for(&event, turn, OUT, data)),
            Err(failure) => self.0.on_error.refuse(&event, failure, turn),
        }
    }
}

handles_each!(FlatMap);
