//! Parameters of built-in plug-ins: how they are read, and what is said if they are wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use crate::expression::{Expression, ExpressionError};

/// What is wrong with the parameters of a plug-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    field: String,
    problem: String,
}

impl ParameterError {
    /// This is wrong with this parameter.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// This is wrong, whatever the parameters are.
    pub fn general(problem: impl Into<String>) -> Self {
        Self::new("", problem)
    }

    /// The parameter, with dots where one lies within another; empty if it is none in particular.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.is_empty() {
            true => f.write_str(&self.problem),
            false => write!(f, "the parameter {}: {}", self.field, self.problem),
        }
    }
}

impl std::error::Error for ParameterError {}

/// Reads parameters, which are JSON; nothing at all stands for no parameters.
pub(super) fn read<P: DeserializeOwned>(arguments: &[u8]) -> Result<P, ParameterError> {
    let arguments = if arguments.is_empty() {
        b"{}"
    } else {
        arguments
    };
    if arguments.trim_ascii_start().first() != Some(&b'{') {
        return Err(ParameterError::general(
            "parameters are a JSON object: write { and } around them",
        ));
    }
    let reader = &mut serde_json::Deserializer::from_slice(arguments);
    let read = serde_path_to_error::deserialize(reader);
    read.map_err(|error| {
        let path = error.path().to_string();
        let problem = without_position(&error.into_inner().to_string());
        let field = match path.as_str() {
            "." => named_field(&problem).unwrap_or_default(),
            path => path.trim_start_matches('.').to_owned(),
        };
        ParameterError::new(field, problem)
    })
}

/// The line and column in what was made from a document help nobody.
fn without_position(problem: &str) -> String {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = |text: &str| {
        let place = text.split_once(" column ");
        place.is_some_and(|(line, column)| is_number(line) && is_number(column))
    };
    match problem.rsplit_once(" at line ") {
        Some((said, place)) if is_place(place) => said.to_owned(),
        _ => problem.to_owned(),
    }
}

/// The field that a message of serde names, such as one that is missing.
fn named_field(problem: &str) -> Option<String> {
    let mut quoted = problem.split('`');
    quoted.next()?;
    quoted.next().map(str::to_owned)
}

/// A length of time, written as in `"500ms"`, `"10s"`, `"5m"`, `"1h"` or `"2d"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

const UNITS_MS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// About a hundred years.
const PERIOD_MS_MAX: u64 = 36_500 * 86_400_000;

impl Period {
    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// In milliseconds.
    pub fn as_millis(self) -> i64 {
        self.0.as_millis() as i64
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, unit) = text.split_at(digits);
        let (_, millis) = UNITS_MS.iter().find(|(name, _)| *name == unit)?;
        let millis = number.parse::<u64>().ok()?.checked_mul(*millis)?;
        (millis <= PERIOD_MS_MAX).then(|| Self::from_millis(millis))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis() as u64;
        let fits = |(_, unit): &&(&str, u64)| millis.is_multiple_of(*unit) && millis >= *unit;
        let (name, unit) = UNITS_MS.iter().rev().find(fits).unwrap_or(&UNITS_MS[0]);
        write!(f, "{}{name}", millis / unit)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let text = String::deserialize(reader)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no length of time: write a whole number with its unit, such as 500ms, 10s, 5m, 1h or 2d"
            ))
        })
    }
}

impl JsonSchema for Period {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Period".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" })
    }
}

/// An expression in parameters, compiled as it is read. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Formula(Arc<Expression>);

impl std::ops::Deref for Formula {
    type Target = Expression;

    fn deref(&self) -> &Expression {
        &self.0
    }
}

impl Formula {
    /// Compiles it with these variables besides the usual ones.
    pub(super) fn compile(text: &str, more: &[&'static str]) -> Result<Self, ExpressionError> {
        Expression::compile_with(text, more).map(|expression| Self(Arc::new(expression)))
    }
}

impl<'de> Deserialize<'de> for Formula {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let text = String::deserialize(reader)?;
        Self::compile(&text, &[]).map_err(D::Error::custom)
    }
}

impl JsonSchema for Formula {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Expression".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "cel" })
    }
}

/// What happens with an event that an expression cannot be evaluated for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It is tried again as often as the stage allows and then goes to the dead letters, with the reason.
    #[default]
    Fail,
    /// It goes to the output `refused`, as `event` beside the `reason`. If that output leads nowhere it is dropped,
    /// and counted as such by the stage.
    Refused,
}
