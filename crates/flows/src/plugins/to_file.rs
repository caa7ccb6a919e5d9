//! `to-file`: events become lines of a file.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::appended::AppendedFile;
use super::built_in::Plugin;
use super::environment::check_file;
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
    line: Option<Formula>,
    file: AppendedFile,
}

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
        let Parameters {
            file,
            line,
            file_bytes_max,
            files_max,
        } = parameters;
        let path = environment.file("file", &file)?;
        let file = AppendedFile::new(path, &file, file_bytes_max, files_max);
        Ok(Self { line, file })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check_file("file", &parameters.file)
    }
}

#[async_trait]
impl Worker for ToFile {
    async fn init(&mut self, _args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        self.file.init(turn).await
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for message in messages {
            self.line(message, &mut lines)?;
        }
        self.file.append(b"", &lines, turn).await
    }
}

impl ToFile {
    fn line(&self, message: &Incoming, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let event = Event::of(message)?;
        match &self.line {
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
}
