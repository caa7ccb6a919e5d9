//! Why a turn failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a turn failed, with all that helps its author to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened, in one line.
    pub reason: String,
    /// Where in the worker's code, if that is known.
    pub backtrace: Option<String>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The worker said so. Its instance is sound and could go on.
    Error,
    /// The code broke off: a trap or a panic.
    Trap,
    /// A call took longer than it may.
    Deadline,
    /// It wanted more memory, stack, host calls or messages than it may have.
    Limit,
    /// It did what it was not granted.
    Denied,
    /// The host could not do its part; the worker is not to blame.
    Host,
}

impl Failure {
    /// The worker itself says that the message cannot be handled.
    pub fn new(reason: impl Into<String>) -> Self {
        Self::of(FailureKind::Error, reason)
    }

    /// A failure of this kind.
    pub fn of(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            backtrace: None,
        }
    }

    /// The same failure with the place in the code.
    #[must_use]
    pub fn with_backtrace(mut self, backtrace: impl Into<String>) -> Self {
        self.backtrace = Some(backtrace.into());
        self
    }

    /// Whether the instance can be called again.
    pub fn leaves_instance_sound(&self) -> bool {
        matches!(self.kind, FailureKind::Error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Any error can end a turn with `?`.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
