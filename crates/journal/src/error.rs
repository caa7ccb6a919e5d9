//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::position::Position;

/// The journal could not be opened. Nothing was changed on disk unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A part of the journal that had been synced is broken or missing.
    #[error(
        "the journal is damaged: {what} (file {file}, byte {offset}). Nothing was changed. Restore the folder \
         from a backup; or, to go on without the records in it, move all files of the folder elsewhere and start again"
    )]
    Damaged {
        /// The file that is broken or missing.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// The files were written by another version of the program.
    #[error(
        "{file} has journal format {found}, this program reads format {supported}: start the version that wrote it"
    )]
    UnsupportedFormat {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// What this program reads.
        supported: u32,
    },
    /// An operation of the storage failed.
    #[error(
        "{operation} of {file} failed: {source}. Check the disk and the permissions of the folder"
    )]
    Storage {
        /// What was tried.
        operation: &'static str,
        /// The file, or the folder.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// The options contradict each other.
    #[error("the journal's options do not work: {problem}")]
    Options {
        /// Which one, and its bounds.
        problem: String,
    },
}

/// A folder could not be taken as storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another process has it.
    #[error("the folder {} is in use{}: stop that process, or choose another folder", .folder.display(), holder(.pid))]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The process that holds it, if known.
        pid: Option<u32>,
    },
    /// An operation failed.
    #[error("{operation} {} failed: {source}", .path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn holder(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}"))
        .unwrap_or_default()
}

/// The journal has stopped for good; only a restart helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal has stopped: {reason}")]
pub struct JournalFailed {
    /// What happened, and what to do.
    pub reason: Arc<str>,
}

impl JournalFailed {
    pub(crate) fn closed() -> Self {
        Self {
            reason: "it was shut down".into(),
        }
    }

    pub(crate) fn after(operation: &str, file: &str, error: &io::Error) -> Self {
        let reason = format!(
            "{operation} of {file} failed: {error}. Nothing is acknowledged any more; check the disk and restart"
        );
        Self {
            reason: reason.into(),
        }
    }
}

/// A record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The journal has stopped for good.
    #[error(transparent)]
    Failed(#[from] JournalFailed),
    /// There is no space for another segment. The journal resumes by itself when there is.
    #[error(
        "the disk is full: {reason}. Free some space or consume messages; the journal resumes by itself"
    )]
    DiskFull {
        /// What the storage said.
        reason: Arc<str>,
    },
    /// The next segment is not prepared yet.
    #[error("the journal is still preparing its next segment: wait for ready() before appending")]
    NotReady,
    /// The record is longer than the options allow.
    #[error("a record of {bytes} bytes is longer than record_bytes_max = {record_bytes_max}")]
    TooLarge {
        /// Length of the record.
        bytes: u64,
        /// The limit.
        record_bytes_max: u32,
    },
}

/// A record could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The segment of this position was deleted or never existed.
    #[error("there is no record at {position}: its segment is gone or was never written")]
    Gone {
        /// The position asked for.
        position: Position,
    },
    /// The bytes at this position are not a record: damage, or a wrong position.
    #[error(
        "no intact record at {position} in {file}: the disk damaged it, or the position is wrong"
    )]
    Damaged {
        /// The position asked for.
        position: Position,
        /// The file.
        file: String,
    },
    /// The storage failed.
    #[error("reading {file} at {position} failed: {source}")]
    Storage {
        /// The position asked for.
        position: Position,
        /// The file.
        file: String,
        /// The reason.
        source: io::Error,
    },
}
