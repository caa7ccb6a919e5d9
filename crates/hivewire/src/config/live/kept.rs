//! Changes as they lie in the data folder: what holds now, and who changed what. Both stand in one file, which
//! is replaced as a whole, so that neither is ever there without the other.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data_folder::{self, DataError};

const FILE: &str = "config.json";
/// So many changes are remembered.
const HISTORY_MAX: usize = 500;

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// Counted from one.
    pub number: u64,
    pub at_ms: u64,
    pub key: String,
    /// What held before.
    pub old: Value,
    /// What held afterwards.
    pub new: Value,
    /// Whether the key went back to what is configured.
    pub unset: bool,
    #[serde(flatten)]
    pub by: By,
}

/// Who changed something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct By {
    pub who: String,
    /// The address that the request came from.
    pub from: Option<String>,
    /// The node that was asked.
    pub via: Option<String>,
}

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub changes: BTreeMap<String, Value>,
    /// The oldest first.
    pub history: VecDeque<Change>,
}

/// Why changes cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file is not ours.
    #[error(
        "{} cannot be understood ({reason}): mend it, or delete it to forget what was changed while the node ran",
        .path.display()
    )]
    Strange {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Kept {
    /// What lies in this data folder.
    pub fn read(data: &Path) -> Result<Self, KeepError> {
        let path = data.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                let what = "read";
                return Err(DataError::Io { what, path, source }.into());
            }
        };
        serde_json::from_slice(&bytes).map_err(|error| KeepError::Strange {
            path,
            reason: error.to_string(),
        })
    }

    /// Keeps it: it is on the disk when this returns. Blocks.
    pub fn write(&self, data: &Path) -> Result<(), KeepError> {
        let path = data.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| KeepError::Strange {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        Ok(data_folder::replace(&path, &bytes)?)
    }

    /// Adds a change to what is remembered.
    pub fn remember(&mut self, mut change: Change) {
        change.number = self.history.back().map_or(0, |last| last.number) + 1;
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(change);
    }
}
