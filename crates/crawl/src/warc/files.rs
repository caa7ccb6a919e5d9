//! The file that is being written.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::record::time_in_name;
use super::{WarcError, WarcSettings};

/// What names of files end with.
pub(super) const ENDING: &str = ".warc.gz";

/// What names of files end with while they are written.
pub(super) const OPEN: &str = ".open";

/// A file that is being written, by nobody else.
pub(super) struct OpenFile {
    file: File,
    path: PathBuf,
    /// How long it is.
    pub length: u64,
}

impl OpenFile {
    /// Makes a file that was not there.
    pub fn create(settings: &WarcSettings, now: i64, serial: &mut u32) -> Result<Self, WarcError> {
        let folder = &settings.folder;
        std::fs::create_dir_all(folder).map_err(|error| WarcError::file(folder, error))?;
        loop {
            *serial += 1;
            let time = time_in_name(now);
            let name = format!("{}-{time}-{serial:05}{ENDING}", settings.prefix);
            let path = folder.join(format!("{name}{OPEN}"));
            if folder.join(name).exists() {
                continue;
            }
            let file = OpenOptions::new().create_new(true).write(true).open(&path);
            let file = match file {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                file => file.map_err(|error| WarcError::file(&path, error))?,
            };
            // Whoever repairs the folder leaves it alone then.
            let _ = file.try_lock();
            sync_folder(folder)?;
            return Ok(Self {
                file,
                path,
                length: 0,
            });
        }
    }

    /// What it is called when it is finished.
    pub fn final_path(&self) -> PathBuf {
        final_path(&self.path)
    }

    pub fn final_name(&self) -> String {
        let path = self.final_path();
        path.file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Appends all of it and makes it permanent. If that fails, it is taken back, as far as that is possible.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WarcError> {
        let written = self
            .file
            .write_all(bytes)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // If this fails, too, the file is repaired when the folder is looked at next.
            let _ = self.file.set_len(self.length);
            return Err(WarcError::file(&self.path, error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives it the name that it keeps, unless there is nothing in it.
    pub fn finish(self) -> Result<Option<PathBuf>, WarcError> {
        if self.length > 0 {
            return finish(&self.path).map(Some);
        }
        let removed = std::fs::remove_file(&self.path);
        removed
            .map(|()| None)
            .map_err(|error| WarcError::file(&self.path, error))
    }
}

fn final_path(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    PathBuf::from(text.strip_suffix(OPEN).unwrap_or(&text))
}

/// Gives a file that is whole the name that it keeps.
pub(super) fn finish(path: &Path) -> Result<PathBuf, WarcError> {
    let kept = final_path(path);
    std::fs::rename(path, &kept).map_err(|error| WarcError::file(path, error))?;
    if let Some(folder) = kept.parent() {
        sync_folder(folder)?;
    }
    Ok(kept)
}

/// Makes names permanent.
fn sync_folder(folder: &Path) -> Result<(), WarcError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| WarcError::file(folder, error))
}
