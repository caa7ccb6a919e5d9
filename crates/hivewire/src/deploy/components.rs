//! The bytes of components, each under its digest in a folder of the data folder.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::source::{Component, digest_of};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const DIGEST_DIGITS: usize = 64;
/// What was uploaded and not deployed is kept that long.
const UNUSED_KEPT_FOR: Duration = Duration::from_secs(3_600);

/// Why a component cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum ComponentsError {
    /// The disk says no.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is none with this digest.
    #[error("there is no component {digest} here: upload it with PUT /api/v1/components")]
    Missing {
        /// The digest.
        digest: String,
    },
    /// What lies there is something else.
    #[error("the component in {} is damaged: its digest is another one; deploy it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// This is no digest.
    #[error("{text:?} is no digest: it has {DIGEST_DIGITS} hexadecimal digits")]
    Digest {
        /// The text.
        text: String,
    },
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> ComponentsError + 'a {
    move |source| ComponentsError::Io {
        what,
        path: path.to_path_buf(),
        source,
    }
}

/// The folder with the components. All calls block.
#[derive(Debug)]
pub(super) struct Components {
    folder: PathBuf,
    next: AtomicU64,
}

impl Components {
    /// Makes the folder, if it is not there.
    pub fn open(data: &Path) -> Result<Self, ComponentsError> {
        let folder = data.join("components");
        match DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", &folder)(error));
            }
            _ => sync_folder(data)?,
        }
        Ok(Self {
            folder,
            next: AtomicU64::new(0),
        })
    }

    fn path(&self, digest: &str) -> Result<PathBuf, ComponentsError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digest.len() != DIGEST_DIGITS || !digest.bytes().all(is_digit) {
            return Err(ComponentsError::Digest {
                text: digest.chars().take(2 * DIGEST_DIGITS).collect(),
            });
        }
        Ok(self.folder.join(format!("{digest}.wasm")))
    }

    /// Keeps a component. It is on disk when this returns.
    pub fn save(&self, component: &Component) -> Result<(), ComponentsError> {
        let path = self.path(&component.digest)?;
        if fs::metadata(&path).is_ok_and(|found| found.len() == component.bytes.len() as u64) {
            // It is in use again from now on.
            if let Ok(file) = File::options().append(true).open(&path) {
                let _ = file.set_modified(std::time::SystemTime::now());
            }
            return Ok(());
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let beside = self
            .folder
            .join(format!("{}.{number}.new", component.digest));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            let mut file = options.mode(FILE_MODE).open(&beside)?;
            file.write_all(&component.bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        };
        write().map_err(failed("write", &path))?;
        sync_folder(&self.folder)
    }

    /// Reads a component back.
    pub fn load(&self, digest: &str) -> Result<Component, ComponentsError> {
        let path = self.path(digest)?;
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ComponentsError::Missing {
                digest: digest.to_owned(),
            },
            _ => failed("read", &path)(source),
        })?;
        if digest_of(&bytes) != digest {
            return Err(ComponentsError::Damaged { path });
        }
        Ok(Component {
            bytes: Bytes::from(bytes),
            digest: digest.to_owned(),
            etag: None,
        })
    }

    /// Removes what nobody uses and nobody uploaded lately.
    pub fn sweep(&self, used: &HashSet<String>) -> Result<usize, ComponentsError> {
        let files = fs::read_dir(&self.folder).map_err(failed("list", &self.folder))?;
        let mut removed = 0;
        for file in files.filter_map(Result::ok) {
            let path = file.path();
            let is_used = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .is_some_and(|digest| used.contains(digest));
            let is_old = || {
                let modified = file.metadata().and_then(|found| found.modified());
                modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNUSED_KEPT_FOR))
            };
            if !is_used && is_old() && fs::remove_file(&path).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn sync_folder(folder: &Path) -> Result<(), ComponentsError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("sync", folder))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn components_are_kept_by_digest_and_damage_is_seen() {
        let data = tempfile::tempdir().unwrap();
        let components = Components::open(data.path()).unwrap();
        let component = Component::new(&b"bytes"[..]);
        components.save(&component).unwrap();
        components.save(&component).unwrap();
        let back = Components::open(data.path()).unwrap();
        let loaded = back.load(&component.digest).unwrap();
        assert_eq!(loaded.bytes, component.bytes);
        fs::write(back.path(&component.digest).unwrap(), "other").unwrap();
        let damaged = back.load(&component.digest);
        assert!(matches!(damaged, Err(ComponentsError::Damaged { .. })));
        let missing = back.load(&digest_of(b"x"));
        assert!(matches!(missing, Err(ComponentsError::Missing { .. })));
        for text in ["", "../../token", &"A".repeat(64)] {
            let refused = back.load(text);
            assert!(matches!(refused, Err(ComponentsError::Digest { .. })));
        }
    }

    #[test]
    fn what_nobody_uses_is_removed_after_a_while() {
        let data = tempfile::tempdir().unwrap();
        let components = Components::open(data.path()).unwrap();
        let [used, unused, fresh] = [&b"used"[..], b"unused", b"fresh"].map(Component::new);
        for component in [&used, &unused, &fresh] {
            components.save(component).unwrap();
        }
        let long_ago = SystemTime::now() - 2 * UNUSED_KEPT_FOR;
        for component in [&used, &unused] {
            let path = components.path(&component.digest).unwrap();
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        let in_use = HashSet::from([used.digest.clone()]);
        assert_eq!(components.sweep(&in_use).unwrap(), 1);
        assert!(components.load(&unused.digest).is_err());
        assert!(components.load(&used.digest).is_ok() && components.load(&fresh.digest).is_ok());
    }
}
