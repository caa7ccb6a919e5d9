//! `key-by`: gives each event a key.

use std::sync::Arc;

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::{Data, Event, Record};

/// Parameters of `key-by`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The key, such as `event.country + '/' + event.city`.
    by: Formula,
    /// The field that the key is put into. An event that is no record becomes one, with itself as `value`.
    #[serde(default = "key")]
    field: String,
    /// What happens with an event for which the key cannot be computed, or is null.
    #[serde(default)]
    on_error: OnError,
}

fn key() -> String {
    "key".to_owned()
}

pub(super) struct KeyBy(Parameters);

impl Plugin for KeyBy {
    const ID: &'static str = "key-by";
    const DESCRIPTION: &'static str = "Puts a computed key into a field of each event.\n\n\
        A stage behind it can then take its key from there: `key = \"json:/key\"`.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The events with their key."), REFUSED_OUTPUT]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "A key of two fields",
        r#"{"by": "event.country + '/' + event.city", "field": "place"}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

impl HandlesEach for KeyBy {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let key = match self.0.by.evaluate(&variables(&event, message)) {
            Ok(Data::Null) => Err(Failure::new(format!(
                "{:?} gives null, which is no key",
                self.0.by.text()
            ))),
            other => other.map_err(Failure::from),
        };
        match key {
            Ok(key) => {
                let mut record = match event.data() {
                    Data::Record(record) => record.clone(),
                    other => Record::from_iter([("value", other.clone())]),
                };
                record.set(self.0.field.clone(), key);
                turn.emit_value(OUT, Arc::new(Event::new(record.into())))
            }
            Err(failure) => self.0.on_error.refuse(&event, failure, turn),
        }
    }
}

handles_each!(KeyBy);
