//! What is wrong with a parameter.

use flows::plugins::ParameterError;

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct WrongParameter {
    /// Its name, with the position in it if it is a list, such as `deny[2]`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl WrongParameter {
    /// This one, for that reason.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

impl From<WrongParameter> for ParameterError {
    fn from(wrong: WrongParameter) -> Self {
        Self::new(wrong.field, wrong.reason)
    }
}
