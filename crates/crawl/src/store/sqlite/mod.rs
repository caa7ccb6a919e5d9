//! A store in a folder: an SQLite database.
//!
//! Pages and what they contain are two tables, so that going through all pages does not read all texts.

mod read;
mod schema;
mod words;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

pub(super) use read::Reader;
pub(super) use write::Writer;

use super::StoreError;

/// The file in the folder.
const FILE: &str = "crawl.db";

/// A database and where it is.
struct Database {
    connection: Connection,
    file: PathBuf,
}

impl Database {
    /// What SQLite says, with what can be done about it.
    fn problem(&self, error: &rusqlite::Error) -> StoreError {
        problem(&self.file, error)
    }
}

fn problem(file: &Path, error: &rusqlite::Error) -> StoreError {
    let place = file.display().to_string();
    let problem = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { place, problem }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unusable {
            place,
            problem: format!("{problem}; another program is writing it, end that or wait"),
        },
        Some(ErrorCode::DiskFull) => StoreError::Unusable {
            place,
            problem: format!("{problem}; make room on the disk"),
        },
        _ => StoreError::Unusable { place, problem },
    }
}

/// The time for which another writer is waited for. It is kept short beside what a turn of a flow may take.
const BUSY_TIMEOUT_MAX: Duration = Duration::from_millis(800);

/// An integer as SQLite keeps it.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
