//! Files that turns append to: what a turn wrote that was undone is taken back.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use kernel::worker::{Failure, Turn};
use serde::{Deserialize, Serialize};

use super::state;

/// A file that one worker appends to. When it is full, it is renamed, and a new one is begun.
pub struct AppendedFile {
    path: PathBuf,
    /// How it is called in what people read.
    name: String,
    file_bytes_max: u64,
    files_max: u32,
    /// The file as this instance left it. If the last commit left it otherwise, a turn was undone.
    file: Option<(Position, File)>,
}

/// How far the file was written by turns that were committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    length: u64,
    /// How often it was renamed.
    renamed: u64,
}

const POSITION: &[u8] = b"p";

impl AppendedFile {
    /// The file at this path, which people know by this name. Of those that were full so many are kept.
    pub fn new(path: PathBuf, name: &str, file_bytes_max: u64, files_max: u32) -> Self {
        Self {
            path,
            name: name.to_owned(),
            file_bytes_max,
            files_max,
            file: None,
        }
    }

    /// Begins where the file ends, if this is the first worker that appends to it. Called in the first turn of a worker.
    pub async fn init(&self, turn: &mut Turn) -> Result<(), Failure> {
        if turn.state(POSITION).await?.is_some() {
            return Ok(());
        }
        let length = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        state::store(turn, POSITION.to_vec(), &Position { length, renamed: 0 })
    }

    /// Appends this. A file that is new gets the beginning before it.
    pub async fn append(
        &mut self,
        beginning: &[u8],
        lines: &[u8],
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let stored = state::load(turn, POSITION).await?.unwrap_or_default();
        let position = self.write(beginning, lines, stored).map_err(|error| {
            self.file = None;
            let name = &self.name;
            Failure::new(format!(
                "the file {name} of the flow cannot be written: {error}"
            ))
        })?;
        state::store(turn, POSITION.to_vec(), &position)
    }

    fn write(
        &mut self,
        beginning: &[u8],
        lines: &[u8],
        stored: Position,
    ) -> std::io::Result<Position> {
        let (mut position, mut file) = self.open(stored)?;
        let is_full = position.length + lines.len() as u64 > self.file_bytes_max;
        if position.length > 0 && is_full {
            drop(file);
            self.rename(position.renamed + 1)?;
            let renamed = position.renamed + 1;
            (position, file) = self.open(Position { length: 0, renamed })?;
        }
        if position.length == 0 {
            file.write_all(beginning)?;
            position.length = beginning.len() as u64;
        }
        file.write_all(lines)?;
        position.length += lines.len() as u64;
        self.file = Some((position, file));
        Ok(position)
    }

    /// Opens the file where the last commit left it.
    fn open(&mut self, stored: Position) -> std::io::Result<(Position, File)> {
        if let Some((position, file)) = self.file.take()
            && position == stored
        {
            return Ok((position, file));
        }
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        self.undo_rename(stored)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.path)?;
        if file.try_lock().is_err() {
            let reason = "another worker writes it; give the stage one worker";
            return Err(std::io::Error::other(reason));
        }
        let mut position = stored;
        position.length = stored.length.min(file.metadata()?.len());
        // What lies beyond was written by turns that were undone.
        file.set_len(position.length)?;
        file.seek(SeekFrom::Start(position.length))?;
        Ok((position, file))
    }

    fn rename(&self, number: u64) -> std::io::Result<()> {
        std::fs::rename(&self.path, self.renamed(number))?;
        let oldest = number.checked_sub(u64::from(self.files_max));
        let oldest = oldest.filter(|oldest| *oldest > 0);
        match oldest.map(|oldest| std::fs::remove_file(self.renamed(oldest))) {
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A file that was renamed by a turn that was undone gets its name back.
    fn undo_rename(&self, stored: Position) -> std::io::Result<()> {
        let next = self.renamed(stored.renamed + 1);
        match next.exists() {
            true => std::fs::rename(next, &self.path),
            false => Ok(()),
        }
    }

    fn renamed(&self, number: u64) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}
