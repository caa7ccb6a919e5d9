//! Alerts as people see them, and what they are told.

use kernel::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observation::Labels;
use super::rule::Severity;

/// How an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// The condition holds, but not for long enough yet.
    Pending,
    /// Something is wrong.
    Firing,
    /// Something is wrong, or may be soon, and somebody said that nobody is to be told.
    Silenced,
    /// It was wrong.
    Recovered,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// The rule.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// How it is.
    pub state: AlertState,
    /// What it is about.
    pub labels: Labels,
    /// The number that was looked at.
    pub value: f64,
    /// What is wrong, for people.
    pub detail: String,
    /// Since when the condition has held, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it began to fire.
    pub fired_at_ms: Option<u64>,
    /// When somebody was told last, by this node.
    pub told_at_ms: Option<u64>,
    /// The node that tells of it, if that is another one.
    pub told_by: Option<String>,
    /// When the condition ended.
    pub recovered_at_ms: Option<u64>,
    /// The silence that it is under.
    pub silence: Option<u64>,
}

/// Something to tell: alerts of one rule that fire, and those that have recovered.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Counts the notices of this process.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// The rule.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// Whether everything in it was told before and nothing has changed.
    pub is_repeat: bool,
    /// What fires.
    pub firing: Vec<Alert>,
    /// What has recovered.
    pub recovered: Vec<Alert>,
    /// How much more is wrong by this rule than there is room for.
    pub left_out: usize,
}
