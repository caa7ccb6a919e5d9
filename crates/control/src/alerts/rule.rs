//! What is looked at, and when it is wrong.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody should look at it.
    Warning,
    /// Somebody must look at it now.
    Critical,
}

impl Severity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Condition {
    /// A node that was heard is dead and was not told to stop, or this node is cut off from the others.
    NodeGone,
    /// The workers of a stage were restarted more often than this.
    StageRestarts {
        /// So many restarts are fine.
        more_than: u64,
        /// Within this time.
        within_seconds: u64,
    },
    /// A stage gave up, or could not be loaded.
    StageFailed,
    /// A stage stands still: what it made, or what is meant for it, finds no room.
    StageStands,
    /// More messages than this went to the dead letters.
    DeadLetters {
        /// So many are fine.
        more_than: u64,
        /// Within this time.
        within_seconds: u64,
    },
    /// The oldest message of a queue has waited for longer than this.
    QueueAge {
        /// The name of a queue; a `*` at its end stands for any rest.
        queues: String,
        /// So old is fine.
        older_than_seconds: u64,
    },
    /// The disk of the data folder has less room than this.
    Disk {
        /// Hundredths of the disk.
        free_percent_min: f64,
    },
    /// The journal is full or has failed.
    Journal,
    /// An expression over metrics is true.
    Expression {
        /// As it was written.
        expression: String,
    },
}

/// A rule: what is wrong, for how long until somebody is told, and how bad it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rule {
    /// Its name. No two have the same.
    pub name: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    #[serde(flatten)]
    pub condition: Condition,
    /// How long that has to hold before the alert fires.
    pub for_seconds: u64,
}

impl Rule {
    /// How long the condition has to hold before the alert fires.
    pub const fn pending_for(&self) -> Duration {
        Duration::from_secs(self.for_seconds)
    }
}

/// Whether a name fits a pattern; a `*` at the end of that stands for any rest.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}
