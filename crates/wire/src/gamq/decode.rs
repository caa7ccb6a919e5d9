//! Bytes to commands.

use memchr::{memchr, memmem};
use thiserror::Error;

use super::command::{self, Command};
use crate::http;

/// The longest end of a body: a full stop and a line end.
const END_LINE_BYTES_MAX: usize = 3;

/// How large a command may be. What goes beyond is refused as soon as that is certain, so a reader
/// never has to hold more than about `line_bytes_max + body_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a command line, without its line feed.
    pub line_bytes_max: usize,
    /// Bytes of a name.
    pub name_bytes_max: usize,
    /// Bytes of a body.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 4 * 1024,
            name_bytes_max: 255,
            body_bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// Why bytes cannot be read as gamq. The stream cannot be read any further: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The peer speaks HTTP.
    #[error(
        "byte 0: this is an HTTP request, but this port speaks gamq; use a gamq client or the HTTP port"
    )]
    HttpRequest,
    /// A command line is longer than allowed.
    #[error(
        "byte 0: command line is longer than {line_bytes_max} bytes; shorten it or raise the limit"
    )]
    LineTooLong {
        /// The limit.
        line_bytes_max: usize,
    },
    /// A body is longer than allowed.
    #[error(
        "byte {offset}: body is longer than {body_bytes_max} bytes; end it with a line that is a \
         full stop, send less, or raise the limit"
    )]
    BodyTooLarge {
        /// Where the body starts, counted from the start of its command.
        offset: usize,
        /// The limit.
        body_bytes_max: usize,
    },
}

/// What the bytes at the start of the input are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Not yet a whole command: read more and call again with all of it.
    Incomplete,
    /// A command.
    Command {
        /// The command, borrowed from the input.
        command: Command<'a>,
        /// How many bytes to drop from the input.
        consumed: usize,
    },
}

/// Reads a client's commands from a stream of bytes, in place.
///
/// Call [`decode`](Self::decode) with the unconsumed bytes, always from the start of the current
/// command. How the stream was cut into reads makes no difference to the commands, and what was
/// looked at in one call is not looked at again in the next.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    progress: Progress,
    /// No command has been read yet, so the peer may still turn out to speak HTTP.
    first_line: bool,
    body_end: memmem::Finder<'static>,
}

/// How far the current command has been read. Offsets count from its first byte.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// No line ends before `scanned`.
    Line { scanned: usize },
    /// The body does not end before `scanned`.
    Body { start: usize, scanned: usize },
}

/// Where the parts of a command stand in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) line_end: usize,
    pub(super) body_start: usize,
    pub(super) body_end: usize,
    pub(super) consumed: usize,
}

impl Decoder {
    /// A decoder for a new connection.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            progress: Progress::Line { scanned: 0 },
            first_line: true,
            body_end: memmem::Finder::new(b"\n."),
        }
    }

    /// Reads one command from the start of `input`, which must start with the bytes that earlier
    /// calls found incomplete, if any.
    ///
    /// # Errors
    ///
    /// The bytes are HTTP, or beyond the limits. Close the connection: where the next command would
    /// start is unknown.
    ///
    /// # Panics
    ///
    /// `input` is shorter than what an earlier call found incomplete.
    #[inline]
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, DecodeError> {
        Ok(match self.find_extent(input)? {
            None => Decoded::Incomplete,
            Some(extent) => Decoded::Command {
                command: self.parse(input, extent),
                consumed: extent.consumed,
            },
        })
    }

    /// True in the middle of a publish: its line has been read, its body has not ended.
    pub fn in_body(&self) -> bool {
        matches!(self.progress, Progress::Body { .. })
    }

    pub(super) fn parse<'a>(&self, input: &'a [u8], extent: Extent) -> Command<'a> {
        let body = &input[extent.body_start..extent.body_end];
        command::parse(&input[..extent.line_end], body, self.limits.name_bytes_max)
    }

    /// Where the current command stands, once all of it is there.
    #[inline]
    pub(super) fn find_extent(&mut self, input: &[u8]) -> Result<Option<Extent>, DecodeError> {
        match self.progress {
            Progress::Line { scanned } => self.read_line(input, scanned),
            Progress::Body { start, scanned } => self.read_body(input, start, scanned),
        }
    }

    fn read_line(&mut self, input: &[u8], scanned: usize) -> Result<Option<Extent>, DecodeError> {
        if self.first_line && http::is_request(input) {
            return Err(DecodeError::HttpRequest);
        }
        let found = memchr(b'\n', &input[scanned..]).map(|found| scanned + found);
        let line_bytes_max = self.limits.line_bytes_max;
        if found.unwrap_or(input.len()) > line_bytes_max {
            return Err(DecodeError::LineTooLong { line_bytes_max });
        }
        let Some(line_end) = found else {
            let scanned = input.len();
            self.progress = Progress::Line { scanned };
            return Ok(None);
        };
        let next = line_end + 1;
        self.first_line = false;
        if command::is_publish(&input[..line_end]) {
            // The search starts at the line feed before the body, for the body may be empty.
            return self.read_body(input, next, line_end);
        }
        self.progress = Progress::Line { scanned: 0 };
        Ok(Some(Extent {
            line_end,
            body_start: next,
            body_end: next,
            consumed: next,
        }))
    }

    #[inline]
    fn read_body(
        &mut self,
        input: &[u8],
        start: usize,
        mut scanned: usize,
    ) -> Result<Option<Extent>, DecodeError> {
        while let Some(found) = self.body_end.find(&input[scanned..]) {
            let line_feed = scanned + found;
            match &input[line_feed + 2..] {
                [b'\n', ..] => return self.end_body(start, line_feed + 1, 2),
                [b'\r', b'\n', ..] => {
                    return self.end_body(start, line_feed + 1, END_LINE_BYTES_MAX);
                }
                [] | [b'\r'] => {
                    scanned = line_feed;
                    return self.await_body(input, start, scanned);
                }
                _ => scanned = line_feed + 2,
            }
        }
        // The last byte may be the line feed before a full stop that has not arrived.
        scanned = scanned.max(input.len() - 1);
        self.await_body(input, start, scanned)
    }

    fn await_body(
        &mut self,
        input: &[u8],
        start: usize,
        scanned: usize,
    ) -> Result<Option<Extent>, DecodeError> {
        self.progress = Progress::Body { start, scanned };
        let arrived = input.len() - start;
        if arrived
            > self
                .limits
                .body_bytes_max
                .saturating_add(END_LINE_BYTES_MAX)
        {
            return Err(self.body_too_large(start));
        }
        Ok(None)
    }

    #[inline]
    fn end_body(
        &mut self,
        body_start: usize,
        body_end: usize,
        end_line_bytes: usize,
    ) -> Result<Option<Extent>, DecodeError> {
        if body_end - body_start > self.limits.body_bytes_max {
            return Err(self.body_too_large(body_start));
        }
        self.progress = Progress::Line { scanned: 0 };
        Ok(Some(Extent {
            line_end: body_start - 1,
            body_start,
            body_end,
            consumed: body_end + end_line_bytes,
        }))
    }

    fn body_too_large(&self, offset: usize) -> DecodeError {
        DecodeError::BodyTooLarge {
            offset,
            body_bytes_max: self.limits.body_bytes_max,
        }
    }

    /// Ends a publish whose body ends with the input, whatever its last line is.
    pub(super) fn end_body_here(&mut self, input: &[u8]) -> Result<Option<Extent>, DecodeError> {
        match self.progress {
            Progress::Body { start, .. } => self.end_body(start, input.len(), 0),
            Progress::Line { .. } => Ok(None),
        }
    }
}
