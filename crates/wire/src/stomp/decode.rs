//! Bytes to frames.

use memchr::{memchr, memchr_iter};

use super::frame::{HeaderBlock, HeaderIndex};
use super::{Command, DecodeError, Frame, Version};
use crate::{http, printable};

/// A first line that is longer than this is no command: the longest one has 11 letters.
const COMMAND_LINE_BYTES_MAX: usize = 16;

/// How large a frame may be. A frame beyond a limit is refused as soon as that is certain, so a
/// reader never has to hold more than about `headers_bytes_max + body_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one header line, without its line feed.
    pub header_line_bytes_max: usize,
    /// Headers in one frame.
    pub headers_max: usize,
    /// Bytes of all header lines of a frame together.
    pub headers_bytes_max: usize,
    /// Bytes of a body.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_line_bytes_max: 8 * 1024,
            headers_max: 128,
            headers_bytes_max: 64 * 1024,
            body_bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// What the bytes at the start of the input are.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// Not yet a whole frame: read more and call again with all of it.
    Incomplete,
    /// Line ends between frames, which say no more than that the peer is alive.
    HeartBeat {
        /// How many bytes to drop from the input.
        consumed: usize,
    },
    /// A frame.
    Frame {
        /// The frame, borrowed from the input.
        frame: Frame<'a>,
        /// How many bytes to drop from the input.
        consumed: usize,
    },
}

/// Reads frames from a stream of bytes, in place.
///
/// Call [`decode`](Self::decode) with the unconsumed bytes, always from the start of the current
/// frame. How the stream was cut into reads makes no difference to the frames, and what was looked
/// at in one call is not looked at again in the next, so a large frame that arrives slowly costs
/// no more than one that arrives at once.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    version: Version,
    progress: Progress,
}

/// How far the current frame has been read. Offsets count from its first byte.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Command,
    Headers(Head),
    Body(Head, Body),
}

/// The command and the header lines seen so far.
#[derive(Clone, Copy, Debug)]
struct Head {
    command: Command,
    headers_start: usize,
    /// Where the first line starts that is not complete yet; at last, where the block ends.
    line_start: usize,
    /// No line ends between `line_start` and here.
    scanned: usize,
    headers: usize,
    content_length: Option<usize>,
    index: HeaderIndex,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    start: usize,
    /// There is no NUL between `start` and here.
    scanned: usize,
    escaped: bool,
}

impl Head {
    fn block<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[self.headers_start..self.line_start]
    }
}

impl Decoder {
    /// A decoder for a new connection. Until [`set_version`](Self::set_version) is called it goes by
    /// the rules of 1.2, the only ones that allow for every way to end a line.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            version: Version::V1_2,
            progress: Progress::Command,
        }
    }

    /// Goes by another version from the next frame on. Call it after the CONNECT or CONNECTED frame
    /// and before decoding what follows it.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// The version whose rules apply.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Reads one frame from the start of `input`, which must start with the bytes that earlier calls
    /// found incomplete, if any.
    ///
    /// # Errors
    ///
    /// The bytes are no frame, or one beyond the limits. Close the connection: where the next frame
    /// would start is unknown.
    ///
    /// # Panics
    ///
    /// `input` is shorter than what an earlier call found incomplete.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, DecodeError> {
        let progress = std::mem::replace(&mut self.progress, Progress::Command);
        match progress {
            Progress::Command => self.decode_start(input),
            Progress::Headers(head) => self.decode_headers(input, head),
            Progress::Body(head, body) => {
                let text = std::str::from_utf8(head.block(input)).ok();
                self.decode_body(input, &head, body, text)
            }
        }
    }

    fn decode_start<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, DecodeError> {
        let consumed = line_ends_at_start(input);
        if consumed > 0 {
            return Ok(Decoded::HeartBeat { consumed });
        }
        match self.read_command(input)? {
            Some((command, headers_start)) => {
                let head = Head {
                    command,
                    headers_start,
                    line_start: headers_start,
                    scanned: headers_start,
                    headers: 0,
                    content_length: None,
                    index: HeaderIndex::default(),
                };
                self.decode_headers(input, head)
            }
            None => Ok(Decoded::Incomplete),
        }
    }

    /// The command and where the line after it starts; `None` if its line is not complete.
    fn read_command(&self, input: &[u8]) -> Result<Option<(Command, usize)>, DecodeError> {
        let window = &input[..input.len().min(COMMAND_LINE_BYTES_MAX)];
        let line_end = window.iter().position(|byte| *byte == b'\n');
        let line = self.without_carriage_return(&window[..line_end.unwrap_or(window.len())]);
        if let Some(line_end) = line_end
            && let Some(command) = Command::from_bytes(line)
        {
            return Ok(Some((command, line_end + 1)));
        }
        if http::is_request(input) {
            return Err(DecodeError::HttpRequest);
        }
        if line_end.is_none() && window.len() < COMMAND_LINE_BYTES_MAX {
            return Ok(None);
        }
        Err(DecodeError::UnknownCommand {
            shown: printable(line),
        })
    }

    fn decode_headers<'a>(
        &mut self,
        input: &'a [u8],
        mut head: Head,
    ) -> Result<Decoded<'a>, DecodeError> {
        loop {
            let Some(found) = memchr(b'\n', &input[head.scanned..]) else {
                self.check_line_length(&head, input.len())?;
                head.scanned = input.len();
                self.progress = Progress::Headers(head);
                return Ok(Decoded::Incomplete);
            };
            let line_end = head.scanned + found;
            self.check_line_length(&head, line_end)?;
            let line = self.without_carriage_return(&input[head.line_start..line_end]);
            if line.is_empty() {
                let (body, text) = self.start_body(input, &head, line_end + 1)?;
                return self.decode_body(input, &head, body, text);
            }
            self.read_header(line, &input[head.line_start..], &mut head)?;
            head.line_start = line_end + 1;
            head.scanned = line_end + 1;
        }
    }

    /// Of the two limits that the line may cross, the one that it crosses first is reported, so that
    /// the error does not depend on how much of the line has arrived.
    fn check_line_length(&self, head: &Head, line_end: usize) -> Result<(), DecodeError> {
        let offset = head.line_start;
        let line_bytes = line_end - offset;
        let header_line_bytes_max = self.limits.header_line_bytes_max;
        let headers_bytes_max = self.limits.headers_bytes_max;
        let room = headers_bytes_max.saturating_sub(offset - head.headers_start);
        if line_bytes <= header_line_bytes_max.min(room) {
            return Ok(());
        }
        Err(if header_line_bytes_max <= room {
            DecodeError::HeaderLineTooLong {
                offset,
                header_line_bytes_max,
            }
        } else {
            DecodeError::HeadersTooLarge {
                offset,
                headers_bytes_max,
            }
        })
    }

    /// Reads the header on `line`; `rest` is the input from the start of that line on.
    #[inline]
    fn read_header(&self, line: &[u8], rest: &[u8], head: &mut Head) -> Result<(), DecodeError> {
        let offset = head.line_start;
        let headers_max = self.limits.headers_max;
        if head.headers == headers_max {
            return Err(DecodeError::TooManyHeaders {
                offset,
                headers_max,
            });
        }
        head.headers += 1;
        if head.content_length.is_none()
            && let Some(value) = line.strip_prefix(b"content-length:")
        {
            head.content_length = Some(parse_content_length(value, offset)?);
        }
        // A search in all of the rest is faster than one in a short line, and goes beyond the line
        // at most once, since that ends in an error.
        let Some(colon) = memchr(b':', rest).filter(|colon| *colon < line.len()) else {
            return Err(DecodeError::HeaderWithoutColon {
                offset,
                shown: printable(line),
            });
        };
        let start = offset - head.headers_start;
        head.index.note(start, start + colon, start + line.len());
        Ok(())
    }

    /// Checks, once, what can only be checked when all headers are there.
    fn start_body<'a>(
        &self,
        input: &'a [u8],
        head: &Head,
        start: usize,
    ) -> Result<(Body, Option<&'a str>), DecodeError> {
        let block = head.block(input);
        let escaped = self.escapes(head.command) && self.check_escapes(block, head)?;
        let text = match std::str::from_utf8(block) {
            Ok(text) => Some(text),
            Err(_) if self.version == Version::V1_0 => None,
            Err(error) => {
                let offset = head.headers_start + error.valid_up_to();
                return Err(DecodeError::NotUtf8 { offset });
            }
        };
        let length = head.content_length.unwrap_or(0);
        if length > self.limits.body_bytes_max {
            return Err(self.body_too_large(start));
        }
        let scanned = start;
        let body = Body {
            start,
            scanned,
            escaped,
        };
        Ok((body, text))
    }

    /// True if the block holds an escape, an error if it holds an undefined one.
    fn check_escapes(&self, block: &[u8], head: &Head) -> Result<bool, DecodeError> {
        let mut next_allowed = 0;
        for backslash in memchr_iter(b'\\', block) {
            if backslash < next_allowed {
                continue;
            }
            let defined = match block.get(backslash + 1) {
                Some(b'n' | b'c' | b'\\') => true,
                Some(b'r') => self.version >= Version::V1_2,
                _ => false,
            };
            if !defined {
                let offset = head.headers_start + backslash;
                return Err(DecodeError::BadEscape { offset });
            }
            next_allowed = backslash + 2;
        }
        Ok(next_allowed > 0)
    }

    fn decode_body<'a>(
        &mut self,
        input: &'a [u8],
        head: &Head,
        mut body: Body,
        text: Option<&'a str>,
    ) -> Result<Decoded<'a>, DecodeError> {
        let end = match head.content_length {
            Some(length) => end_by_length(input, body.start, length)?,
            None => self.end_by_nul(input, &mut body)?,
        };
        let Some(end) = end else {
            self.progress = Progress::Body(*head, body);
            return Ok(Decoded::Incomplete);
        };
        let frame = Frame {
            command: head.command,
            body: &input[body.start..end],
            headers: HeaderBlock {
                bytes: head.block(input),
                text,
                escaped: body.escaped,
                carriage_returns: self.carriage_returns(),
                index: head.index,
            },
        };
        let consumed = end + 1;
        Ok(Decoded::Frame { frame, consumed })
    }

    fn end_by_nul(&self, input: &[u8], body: &mut Body) -> Result<Option<usize>, DecodeError> {
        let found = memchr(0, &input[body.scanned..]).map(|found| body.scanned + found);
        body.scanned = found.unwrap_or(input.len());
        if body.scanned - body.start > self.limits.body_bytes_max {
            return Err(self.body_too_large(body.start));
        }
        Ok(found)
    }

    fn body_too_large(&self, offset: usize) -> DecodeError {
        DecodeError::BodyTooLarge {
            offset,
            body_bytes_max: self.limits.body_bytes_max,
        }
    }

    fn escapes(&self, command: Command) -> bool {
        self.version > Version::V1_0 && !command.precedes_version()
    }

    fn carriage_returns(&self) -> bool {
        self.version >= Version::V1_2
    }

    fn without_carriage_return<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        match line {
            [rest @ .., b'\r'] if self.carriage_returns() => rest,
            _ => line,
        }
    }
}

/// How many bytes of line ends the input starts with. Between frames every version takes both kinds.
fn line_ends_at_start(input: &[u8]) -> usize {
    let mut consumed = 0;
    loop {
        consumed += match input[consumed..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return consumed,
        };
    }
}

/// Where the body ends, if the NUL after it has arrived.
fn end_by_length(input: &[u8], start: usize, length: usize) -> Result<Option<usize>, DecodeError> {
    let end = start.saturating_add(length);
    match input.get(end) {
        None => Ok(None),
        Some(0) => Ok(Some(end)),
        Some(_) => Err(DecodeError::MissingNul { offset: end }),
    }
}

fn parse_content_length(value: &[u8], offset: usize) -> Result<usize, DecodeError> {
    let digits = value.iter().try_fold(0_usize, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    match digits {
        Some(number) if !value.is_empty() => Ok(number),
        _ => Err(DecodeError::BadContentLength {
            offset,
            shown: printable(value),
        }),
    }
}
