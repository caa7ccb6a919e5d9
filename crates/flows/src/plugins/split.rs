//! `split`: each event goes where it belongs.

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `split`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Outputs with what is true for the events that go there, in the order in which they are tried.
    outputs: Vec<Branch>,
    /// The output for events for which nothing is true.
    #[serde(default = "other")]
    otherwise: String,
    /// Whether an event goes to every output whose condition is true, not only to the first.
    #[serde(default)]
    all: bool,
    /// What happens with an event for which that cannot be told.
    #[serde(default)]
    on_error: OnError,
}

/// One output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// Its name.
    name: String,
    /// What is true for the events that go there.
    r#where: Formula,
}

fn other() -> String {
    "other".to_owned()
}

const BRANCHES_MAX: usize = 100;

pub(super) struct Split(Parameters);

impl Plugin for Split {
    const ID: &'static str = "split";
    const DESCRIPTION: &'static str = "Sends each event to the first output whose condition is true for it.\n\n\
        The outputs are those that the parameters name, one for what fits nowhere, and `refused`.";
    const OUTPUTS: Outputs = Outputs::OfParameters;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Orders by size",
        r#"{"outputs": [{"name": "large", "where": "event.total >= 1000"}, {"name": "small", "where": "event.total >= 0"}], "otherwise": "strange"}"#,
    )];
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
    let outputs = &parameters.outputs;
    if outputs.is_empty() || outputs.len() > BRANCHES_MAX {
        return Err(ParameterError::new(
            "outputs",
            format!("name 1 to {BRANCHES_MAX} outputs"),
        ));
    }
    match outputs.iter().find(|branch| branch.name.is_empty()) {
        Some(_) => Err(ParameterError::new("outputs", "each output has a name")),
        None => Ok(()),
    }
}

impl HandlesEach for Split {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let variables = variables(&event, message);
        let mut chosen = Vec::new();
        for branch in &self.0.outputs {
            match branch.r#where.is_true(&variables) {
                Ok(true) => chosen.push(branch.name.as_str()),
                Ok(false) => continue,
                Err(error) => return self.0.on_error.refuse(&event, error.into(), turn),
            }
            if !self.0.all {
                break;
            }
        }
        if chosen.is_empty() {
            chosen.push(&self.0.otherwise);
        }
        chosen
            .into_iter()
            .try_for_each(|output| turn.emit_value(output, event.clone()))
    }
}

handles_each!(Split);
