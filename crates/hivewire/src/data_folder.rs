//! The data folder: the journal and the token lie here.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use journal::{DiskStorage, StorageError};

use crate::secret::Secret;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const TOKEN_RANDOM_BYTES: usize = 32;
/// A token that somebody chose must not be guessable.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 256;

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another process has it.
    #[error(
        "the data folder {} is in use{}: stop that process, or name another folder with --data",
        .folder.display(), .pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process, if known.
        pid: Option<u32>,
    },
    /// Something in it cannot be read or written.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal's folder cannot be opened.
    #[error(transparent)]
    Storage(StorageError),
    /// The token file holds no token.
    #[error(
        "{} holds no token: write {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} printable characters into it, or delete it to get a new one",
        .path.display()
    )]
    BadToken {
        /// The file.
        path: PathBuf,
    },
    /// There is no source of random numbers.
    #[error("cannot make a token: {0}")]
    Random(String),
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> DataError + 'a {
    move |source| DataError::Io {
        what,
        path: path.to_path_buf(),
        source,
    }
}

/// Where the token lies in a data folder.
pub fn token_path(folder: &Path) -> PathBuf {
    folder.join("token")
}

/// Where state lies that memory has no room for. It belongs to the journal.
pub fn state_path(folder: &Path) -> PathBuf {
    folder.join("state")
}

/// The data folder of this name that has a token: here, or in the nearest folder above. If there is
/// none, the one here.
pub fn find(folder: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    here.ancestors()
        .map(|above| above.join(folder))
        .find(|candidate| token_path(candidate).is_file())
        .unwrap_or_else(|| folder.to_path_buf())
}

/// Makes the folder if it is not there, and takes its journal for this process alone.
pub fn open(folder: &Path) -> Result<DiskStorage, DataError> {
    make(folder)?;
    DiskStorage::open(folder.join("journal")).map_err(|error| match error {
        StorageError::Locked { pid, .. } => DataError::InUse {
            folder: folder.to_path_buf(),
            pid,
        },
        other => DataError::Storage(other),
    })
}

/// Makes missing folders one by one and syncs each one's parent: otherwise loss of power could
/// take the whole folder away, with all that was acknowledged.
fn make(folder: &Path) -> Result<(), DataError> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make(parent)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        // Another process was faster; the lock decides which of us goes on.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("make", folder)(error));
        }
        _ => {}
    }
    sync_folder(parent)
}

fn sync_folder(folder: &Path) -> Result<(), DataError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("sync", folder))
}

/// The token of this folder, made if there is none. Only the holder of the folder may call this.
pub fn token(folder: &Path) -> Result<Secret, DataError> {
    let path = token_path(folder);
    if !path.exists() {
        make_token(&path)?;
    }
    restrict(&path)?;
    read_token(&path)
}

/// Reads a token that is there already.
pub fn read_token(path: &Path) -> Result<Secret, DataError> {
    let file = File::open(path).map_err(failed("read", path))?;
    let mut text = String::new();
    file.take(TOKEN_BYTES_MAX as u64 + 2)
        .read_to_string(&mut text)
        .map_err(failed("read", path))?;
    let token = text.trim();
    let lengths = TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX;
    if !lengths.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(DataError::BadToken {
            path: path.to_path_buf(),
        });
    }
    Ok(Secret::new(token))
}

/// Writes a new token.
fn make_token(path: &Path) -> Result<(), DataError> {
    let mut random = [0_u8; TOKEN_RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|error| DataError::Random(error.to_string()))?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    replace(path, format!("{token}\n").as_bytes())
}

/// Writes a file that only its owner may read, beside its place, and renames it, so that no crash leaves half
/// of it. It is on the disk when this returns.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let beside = path.with_added_extension("new");
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = options.mode(FILE_MODE).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(failed("write", path))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

fn restrict(path: &Path) -> Result<(), DataError> {
    let mode = fs::metadata(path)
        .map_err(failed("look at", path))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read the token; now only its owner may");
        fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
            .map_err(failed("restrict", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_token_is_made_once_and_only_its_owner_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("deeper/data");
        let _storage = open(&folder).unwrap();
        let first = token(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&token_path(&folder)), 0o600);
        fs::set_permissions(token_path(&folder), Permissions::from_mode(0o644)).unwrap();
        assert!(token(&folder).unwrap().is(first.reveal().as_bytes()));
        assert_eq!(mode(&token_path(&folder)), 0o600);
        assert_eq!(first.reveal().len(), 2 * TOKEN_RANDOM_BYTES);
    }

    #[test]
    fn an_empty_or_short_token_is_refused_without_being_shown() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["", "short-one", "0123456789abcdef with spaces"] {
            fs::write(token_path(directory.path()), text).unwrap();
            let error = token(directory.path()).unwrap_err().to_string();
            assert!(error.contains("holds no token"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_folder_in_use_names_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let _held = open(directory.path()).unwrap();
        let error = open(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        assert!(
            error.contains(&directory.path().display().to_string()),
            "{error}"
        );
    }
}
