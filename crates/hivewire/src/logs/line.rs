//! One line of a log: of the node itself, or of a worker.

use std::fmt;
use std::str::FromStr;

use kernel::worker::LogLevel;
use kernel::{StageAddress, WorkerAddress};
use runtime::LogLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How important a line is, the least important first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const ALL: [(&'static str, Self); 5] = [
        ("trace", Self::Trace),
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("warn", Self::Warn),
        ("error", Self::Error),
    ];
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, level)| *level)
            .ok_or_else(|| format!("{text:?} is no level: it is trace, debug, info, warn or error"))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, level)| level == self);
        formatter.write_str(found.map_or("", |(name, _)| name))
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::TRACE => Self::Trace,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::INFO => Self::Info,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::ERROR => Self::Error,
        }
    }
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Debug => Self::Debug,
            LogLevel::Info => Self::Info,
            LogLevel::Warn => Self::Warn,
            LogLevel::Error => Self::Error,
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace | Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

/// A line as it is kept and sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Line {
    /// Larger than that of all lines of this node before.
    pub id: u64,
    pub at_ms: u64,
    pub level: Level,
    /// Which part of the node wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The worker that wrote it, and its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageAddress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerAddress>,
    pub line: String,
}

impl Line {
    /// What a worker wrote.
    pub fn of_worker(id: u64, line: &LogLine) -> Self {
        Self {
            id,
            at_ms: line.at_ms,
            level: line.level.into(),
            target: None,
            stage: Some(line.worker.stage().clone()),
            worker: Some(line.worker.clone()),
            line: line.line.clone(),
        }
    }

    /// The same as a line of its stage, if a worker wrote it. It has no number, for numbers begin anew
    /// with each start of the node.
    pub fn into_stage_line(self) -> Option<LogLine> {
        Some(LogLine {
            number: 0,
            at_ms: self.at_ms,
            worker: self.worker?,
            level: self.level.into(),
            line: self.line,
        })
    }
}

/// Which lines somebody wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Filter {
    /// At least so important.
    #[serde(default)]
    pub level: Option<Level>,
    /// Only what workers of this stage wrote.
    #[serde(default)]
    pub stage: Option<StageAddress>,
    /// Not older than this, by the clock of the node that wrote it.
    #[serde(default)]
    pub since_ms: Option<u64>,
}

impl Filter {
    pub fn wants(&self, line: &Line) -> bool {
        self.level.is_none_or(|level| line.level >= level)
            && (self.stage.is_none() || self.stage == line.stage)
            && self.since_ms.is_none_or(|since| line.at_ms >= since)
    }
}
