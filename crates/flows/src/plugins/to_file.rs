//! `to-file`: events become lines of a file.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::environment::check_file;
use super::state;
use super::worker::variables;
use super::{Environment, Formula, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `to-file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The file, in the folder of flows. Its folder is made if need be.
    file: String,
    /// The text of a line; without it, the event as JSON.
    line: Option<Formula>,
    /// How large the file may become. Then it is renamed, with `.1` at its end, and a new one is begun.
    #[serde(default = "file_bytes_max")]
    file_bytes_max: u64,
    /// How many renamed files are kept; the oldest is removed.
    #[serde(default = "files_max")]
    files_max: u32,
}

fn file_bytes_max() -> u64 {
    1 << 30
}

fn files_max() -> u32 {
    10
}

pub(super) struct ToFile {
    parameters: Parameters,
    path: PathBuf,
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

impl Plugin for ToFile {
    const ID: &'static str = "to-file";
    const DESCRIPTION: &'static str = "Appends each event to a file, as a line.\n\n\
        What a turn wrote that was undone is taken back, so each event stands there once. One worker writes a file: give the stage one worker, \
        and let nobody else write it.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("JSON lines", r#"{"file": "output/alerts.jsonl"}"#),
        (
            "Lines of one's own",
            r#"{"file": "output/words.txt", "line": "event.key + ' ' + string(event.count)", "file_bytes_max": 1000000}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let path = environment.file("file", &parameters.file)?;
        Ok(Self {
            parameters,
            path,
            file: None,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check_file("file", &parameters.file)
    }
}

#[async_trait]
impl Worker for ToFile {
    async fn init(&mut self, _args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        if turn.state(POSITION).await?.is_some() {
            return Ok(());
        }
        let length = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        state::store(turn, POSITION.to_vec(), &Position { length, renamed: 0 })
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for message in messages {
            self.line(message, &mut lines)?;
        }
        let stored = state::load(turn, POSITION).await?.unwrap_or_default();
        let position = self.write(&lines, stored).map_err(|error| {
            self.file = None;
            Failure::new(format!(
                "the file {} of the flow cannot be written: {error}",
                self.parameters.file
            ))
        })?;
        state::store(turn, POSITION.to_vec(), &position)
    }
}

impl ToFile {
    fn line(&self, message: &Incoming, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let event = Event::of(message)?;
        match &self.parameters.line {
            None => lines.extend_from_slice(&event.encode()),
            Some(line) => {
                let text = line.evaluate(&variables(&event, message))?;
                // A line is one line.
                lines.extend(
                    text.key_text()
                        .bytes()
                        .map(|byte| if byte == b'\n' { b' ' } else { byte }),
                );
            }
        }
        lines.push(b'\n');
        Ok(())
    }

    fn write(&mut self, lines: &[u8], stored: Position) -> std::io::Result<Position> {
        let (mut position, mut file) = self.open(stored)?;
        let is_full = position.length + lines.len() as u64 > self.parameters.file_bytes_max;
        if position.length > 0 && is_full {
            drop(file);
            self.rename(position.renamed + 1)?;
            let renamed = position.renamed + 1;
            (position, file) = self.open(Position { length: 0, renamed })?;
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
        let oldest = number.checked_sub(u64::from(self.parameters.files_max));
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
