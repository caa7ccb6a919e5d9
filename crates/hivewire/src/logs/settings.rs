//! What the user can set about logs.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use crate::rotation::{FILE_BYTES_LIMIT, Limits};

const FILE_BYTES_MIN: u64 = 64 << 10;
const FILES_LIMIT: usize = 1_000;
const WAITING_BYTES_MIN: usize = 64 << 10;
const WAITING_BYTES_LIMIT: usize = 256 << 20;

/// What is logged, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// What the node logs about itself.
    pub filter: String,
    /// Whether logs are kept in files.
    pub files: bool,
    /// How large a file may become.
    pub file_bytes_max: u64,
    /// How many files there are; the oldest goes first.
    pub files_max: usize,
    /// How many bytes of lines may be on their way to the disk; what is beyond is lost and counted.
    pub waiting_bytes_max: usize,
    /// How many lines of this node those who follow from elsewhere get in a second.
    pub followed_lines_per_second_max: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            files: true,
            file_bytes_max: 8 << 20,
            files_max: 8,
            waiting_bytes_max: 4 << 20,
            followed_lines_per_second_max: 1_000,
        }
    }
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`logs.{key}` {problem}")]
pub struct LogError {
    /// The key.
    pub key: &'static str,
    /// What is wrong, and what would do.
    pub problem: String,
}

impl LogSettings {
    /// Whether all of it makes sense.
    pub fn check(&self) -> Result<(), LogError> {
        let wrong = |key, problem: String| Err(LogError { key, problem });
        if let Err(error) = filter_of(&self.filter) {
            return wrong("filter", error);
        }
        if !(FILE_BYTES_MIN..=FILE_BYTES_LIMIT).contains(&self.file_bytes_max) {
            let problem = format!("is between {FILE_BYTES_MIN} and {FILE_BYTES_LIMIT}");
            return wrong("file_bytes_max", problem);
        }
        if !(1..=FILES_LIMIT).contains(&self.files_max) {
            return wrong("files_max", format!("is between 1 and {FILES_LIMIT}"));
        }
        if !(WAITING_BYTES_MIN..=WAITING_BYTES_LIMIT).contains(&self.waiting_bytes_max) {
            let problem = format!("is between {WAITING_BYTES_MIN} and {WAITING_BYTES_LIMIT}");
            return wrong("waiting_bytes_max", problem);
        }
        if self.followed_lines_per_second_max == 0 {
            return wrong("followed_lines_per_second_max", "is at least 1".to_owned());
        }
        Ok(())
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            file_bytes_max: self.file_bytes_max,
            files_max: self.files_max,
        }
    }
}

/// A filter as it is written.
pub(crate) fn filter_of(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(text)
        .map_err(|_| format!("{text:?} is no log filter: try `info` or `warn,broker=debug`"))
}
