//! `file-lines`: the lines of a file.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::environment::check_file;
use super::state;
use super::worker::{OUT, REFUSED, emit};
use super::{Environment, Outputs, ParameterError};
use crate::event::{Data, Event};

/// Parameters of `file-lines`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The file, in the folder of flows.
    file: String,
    /// What a line becomes.
    #[serde(default)]
    format: Format,
    /// Whether to wait for more lines at the end of the file, also if it is replaced by a shorter one.
    #[serde(default)]
    follow: bool,
    /// How long a line may be, up to 16 MiB; longer ones go to the output `refused`.
    #[serde(default = "line_bytes_max")]
    line_bytes_max: usize,
}

/// What a line becomes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// A record with the `text` and the number `line`, which begins with 1.
    #[default]
    Text,
    /// The JSON that stands in it; if it is none, its text.
    Json,
}

fn line_bytes_max() -> usize {
    1 << 20
}

pub(super) struct FileLines {
    parameters: Parameters,
    path: PathBuf,
    reader: Option<(Position, BufReader<File>)>,
}

/// Where reading goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    offset: u64,
    lines: u64,
}

/// What was found at the position.
enum Line {
    Whole(Vec<u8>),
    TooLong,
    /// There is no further line, at least not a whole one.
    End,
}

const POSITION: &[u8] = b"p";
const LINE_BYTES_MAX: usize = 16 << 20;
/// So much is read in one turn.
const LINES_MAX: usize = 500;
const TURN_BYTES_MAX: usize = 4 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Plugin for FileLines {
    const ID: &'static str = "file-lines";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Reads the lines of a file, once or as they are added.\n\n\
        The position is kept with what it sent, so that after a restart no line is lost and none comes twice.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "The lines."),
        (
            REFUSED,
            "Lines that are too long or not UTF-8: their number `line` and the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("A text", r#"{"file": "input/words.txt"}"#),
        (
            "JSON lines that are still being written",
            r#"{"file": "input/clicks.jsonl", "format": "json", "follow": true}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let path = environment.file("file", &parameters.file)?;
        Ok(Self {
            parameters,
            path,
            reader: None,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    check_file("file", &parameters.file)?;
    match (1..=LINE_BYTES_MAX).contains(&parameters.line_bytes_max) {
        true => Ok(()),
        false => Err(ParameterError::new(
            "line_bytes_max",
            format!("write 1 to {LINE_BYTES_MAX}"),
        )),
    }
}

#[async_trait]
impl Worker for FileLines {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("file-lines has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let position: Position = state::load(turn, POSITION).await?.unwrap_or_default();
        let Some(mut reader) = self.reader_at(position)? else {
            return Ok(Provided::After(LOOK_AGAIN));
        };
        let mut next = if reader.stream_position()? < position.offset {
            Position::default()
        } else {
            position
        };
        let is_at_end = self.read(&mut reader, &mut next, turn)?;
        if next != position {
            state::store(turn, POSITION.to_vec(), &next)?;
        }
        self.reader = Some((next, reader));
        Ok(match (is_at_end, self.parameters.follow) {
            (false, _) => Provided::More,
            (true, true) => {
                // The next look opens the file anew, in case it was replaced.
                self.reader = None;
                Provided::After(LOOK_AGAIN)
            }
            (true, false) => Provided::Done,
        })
    }
}

impl FileLines {
    /// A reader at this position, or at the start if the file has become shorter; none if a file that is followed is
    /// not there yet.
    fn reader_at(&mut self, position: Position) -> Result<Option<BufReader<File>>, Failure> {
        if let Some((at, reader)) = self.reader.take()
            && at == position
        {
            return Ok(Some(reader));
        }
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && self.parameters.follow => {
                return Ok(None);
            }
            Err(error) => return Err(self.failed(&error)),
        };
        let length = file.metadata().map_err(|error| self.failed(&error))?.len();
        let offset = if position.offset <= length {
            position.offset
        } else {
            0
        };
        file.seek(SeekFrom::Start(offset))
            .map_err(|error| self.failed(&error))?;
        Ok(Some(BufReader::with_capacity(256 << 10, file)))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!(
            "the file {} of the flow cannot be read: {error}",
            self.parameters.file
        ))
    }

    /// Emits some lines; true if there are no more.
    fn read(
        &self,
        reader: &mut BufReader<File>,
        next: &mut Position,
        turn: &mut Turn,
    ) -> Result<bool, Failure> {
        let start = next.offset;
        for _ in 0..LINES_MAX {
            let (line, bytes) = self.line(reader).map_err(|error| self.failed(&error))?;
            if matches!(line, Line::End) {
                return Ok(true);
            }
            next.offset += bytes;
            next.lines += 1;
            self.emit(line, next.lines, turn)?;
            if next.offset - start > TURN_BYTES_MAX as u64 {
                break;
            }
        }
        Ok(false)
    }

    /// The next line without its end, and how many bytes it took.
    fn line(&self, reader: &mut BufReader<File>) -> std::io::Result<(Line, u64)> {
        let mut line = Vec::new();
        let most = self.parameters.line_bytes_max as u64 + 1;
        let mut bytes = reader.by_ref().take(most).read_until(b'\n', &mut line)? as u64;
        if line.last() == Some(&b'\n') {
            line.pop();
            line.pop_if(|last| *last == b'\r');
            return Ok((Line::Whole(line), bytes));
        }
        if line.len() > self.parameters.line_bytes_max {
            bytes += skip_line(reader)?;
            return Ok((Line::TooLong, bytes));
        }
        match line.is_empty() || self.parameters.follow {
            true => Ok((Line::End, 0)),
            false => Ok((Line::Whole(line), bytes)),
        }
    }

    fn emit(&self, line: Line, number: u64, turn: &mut Turn) -> Result<(), Failure> {
        let refused = |reason: String, turn: &mut Turn| {
            emit(
                turn,
                REFUSED,
                Data::record([("line", Data::from(number)), ("reason", reason.into())]),
            )
        };
        let Line::Whole(line) = line else {
            let reason = format!(
                "the line has more than {} bytes",
                self.parameters.line_bytes_max
            );
            return refused(reason, turn);
        };
        match self.parameters.format {
            Format::Json => match Event::parse(&line) {
                Ok(event) => turn.emit_value(OUT, std::sync::Arc::new(event)),
                Err(error) => refused(error.to_string(), turn),
            },
            Format::Text => match String::from_utf8(line) {
                Ok(text) => emit(
                    turn,
                    OUT,
                    Data::record([("line", Data::from(number)), ("text", text.into())]),
                ),
                Err(_) => refused("the line is not UTF-8".to_owned(), turn),
            },
        }
    }
}

/// Leaves out the rest of a line; gives how many bytes it had.
fn skip_line(reader: &mut BufReader<File>) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffered = reader.fill_buf()?;
        if buffered.is_empty() {
            return Ok(skipped);
        }
        let end = memchr::memchr(b'\n', buffered);
        let bytes = end.map_or(buffered.len(), |end| end + 1);
        reader.consume(bytes);
        skipped += bytes as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}
