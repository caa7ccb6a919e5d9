//! Requests to a node and what they lead to, as they travel between nodes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ALERTS_TIMEOUT, ANSWER_TIMEOUT, CRAWL_TIMEOUT, PROFILE_SLACK};
use crate::config::live::By;
use crate::crawls::Question;
use crate::logs::{Filter, Line, Wanted};
use crate::profile::ProfileError;

/// How many lines of a log one answer has at most.
pub(crate) const LOG_LINES_MAX: usize = 500;

/// What a node can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Lines of its log before this number, the newest first.
    Logs {
        filter: Filter,
        before: Option<u64>,
        limit: usize,
        /// Whoever goes on to follow.
        wanted: Option<Box<Wanted>>,
    },
    /// Where it spends its time.
    Profile { seconds: u32 },
    /// All keys of its configuration.
    Config,
    /// One of them.
    ConfigKey { key: String },
    /// A change of one of them; without a value, what is configured holds again.
    ConfigChange {
        key: String,
        value: Option<Value>,
        by: By,
    },
    /// Who changed what, the newest first.
    ConfigHistory { before: Option<u64>, limit: usize },
    /// What is wrong, as it sees it, and whom it tells.
    Alerts,
    /// What it has of a crawl.
    Crawl(Question),
}

impl Request {
    /// How long another node may take.
    pub fn timeout(&self) -> Duration {
        match self {
            Self::Profile { seconds } => Duration::from_secs((*seconds).into()) + PROFILE_SLACK,
            Self::Alerts => ALERTS_TIMEOUT,
            Self::Crawl(_) => CRAWL_TIMEOUT,
            _ => ANSWER_TIMEOUT,
        }
    }
}

/// Lines of a log, the newest first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogPage {
    pub lines: Vec<Line>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RefusalKind {
    /// What was asked makes no sense.
    Bad,
    /// There is no such thing.
    Unknown,
    /// It cannot be done here.
    Conflict,
    /// Not now.
    Busy,
    /// No answer came in time.
    Late,
    /// It went wrong.
    Failed,
}

/// Why a node does not do what it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Refusal {
    pub kind: RefusalKind,
    pub detail: String,
}

impl Refusal {
    fn new(kind: RefusalKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail }
    }

    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Bad, detail)
    }

    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Unknown, detail)
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, detail)
    }

    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Busy, detail)
    }

    pub fn late(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Late, detail)
    }

    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Failed, detail)
    }
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        let text = error.to_string();
        match error {
            ProfileError::Busy => Self::conflict(text),
            ProfileError::Seconds => Self::bad(text),
            ProfileError::Failed(_) => Self::failed(text),
        }
    }
}
