//! How much a callback of a request can harm others.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What a callback does with shared state. The strongest class of its callbacks is that of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It takes no state: it runs beside everything.
    Stateless,
    /// It reads state: it runs beside others that read.
    Shared,
    /// It writes state: it runs beside those that take other state.
    Exclusive,
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Stateless => "stateless",
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}
