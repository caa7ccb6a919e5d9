//! `merge`: several inputs become one.

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, handles_each};
use super::{Environment, Outputs, ParameterError};
use crate::event::Event;

/// `merge` has no parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {}

pub(super) struct Merge;

impl Plugin for Merge {
    const ID: &'static str = "merge";
    const DESCRIPTION: &'static str = "Passes every event on, so that several inputs become one.\n\n\
        The events of each input keep their order; those of different inputs come as they come.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "Every event.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[("It has nothing to set", "{}")];
    type Parameters = Parameters;

    fn new(_: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self)
    }
}

impl HandlesEach for Merge {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        turn.emit_value(OUT, Event::of(message)?)
    }
}

handles_each!(Merge);
