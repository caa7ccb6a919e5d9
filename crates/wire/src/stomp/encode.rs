//! Frames to bytes.

use super::{Command, Version};

/// What to send when there is nothing to send but a sign of life.
pub const HEARTBEAT: &[u8] = b"\n";

const CONTENT_LENGTH: &str = "content-length";

/// Appends a whole frame. With a body it also writes `content-length`; one that is among `headers`
/// is left out, since it could contradict the body.
///
/// CONNECT, STOMP and CONNECTED frames, and all of 1.0, know no escapes. A line feed cannot be
/// sent there (nor a colon in a name, nor, in those three commands, a carriage return): it is
/// written as the two characters `\n`, which the peer will read as such. So a header can never
/// become two, nor break out of its frame.
pub fn encode<'h>(
    out: &mut Vec<u8>,
    version: Version,
    command: Command,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    body: Option<&[u8]>,
) {
    begin(out, command);
    let escapes = Escapes::of(version, command);
    for (name, value) in headers {
        if name != CONTENT_LENGTH {
            header_escaped(out, escapes, name, value);
        }
    }
    if let Some(body) = body {
        header_number(out, CONTENT_LENGTH, body.len() as u64);
    }
    finish(out, body.unwrap_or_default());
}

/// Appends the first line of a frame.
///
/// ```
/// use wire::stomp::{self, Command, Version};
///
/// let mut out = Vec::new();
/// stomp::begin(&mut out, Command::Message);
/// stomp::header_raw(&mut out, "subscription", b"0");
/// stomp::header(&mut out, Version::V1_2, "destination", "/queue/a:b");
/// stomp::header_number(&mut out, "content-length", 2);
/// stomp::finish(&mut out, b"hi");
/// assert_eq!(
///     out,
///     b"MESSAGE\nsubscription:0\ndestination:/queue/a\\cb\ncontent-length:2\n\nhi\0"
/// );
/// ```
#[inline]
pub fn begin(out: &mut Vec<u8>, command: Command) {
    out.extend_from_slice(command.as_str().as_bytes());
    out.push(b'\n');
}

/// Appends a header, escaped as `version` wants it. Not for CONNECT, STOMP and CONNECTED, which are
/// never escaped: use [`encode`] for those.
#[inline]
pub fn header(out: &mut Vec<u8>, version: Version, name: &str, value: &str) {
    header_escaped(out, Escapes::of(version, Command::Message), name, value);
}

/// Appends a header whose value is a number. The name must need no escapes.
#[inline]
pub fn header_number(out: &mut Vec<u8>, name: &str, value: u64) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    let mut rest = value;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    header_raw(out, name, &digits[first..]);
}

/// Appends a header that needs no escapes, or has been escaped already.
#[inline]
pub fn header_raw(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.reserve(name.len() + value.len() + 2);
    out.extend_from_slice(name.as_bytes());
    out.push(b':');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends the blank line, the body and the final NUL. A body that may hold a NUL needs a
/// `content-length` header before this.
#[inline]
pub fn finish(out: &mut Vec<u8>, body: &[u8]) {
    out.reserve(body.len() + 2);
    out.push(b'\n');
    out.extend_from_slice(body);
    out.push(0);
}

/// Which characters are escaped.
#[derive(Clone, Copy)]
struct Escapes {
    backslash: bool,
    colon_in_value: bool,
    carriage_return: bool,
}

impl Escapes {
    const fn of(version: Version, command: Command) -> Self {
        let defined = !matches!(version, Version::V1_0) && !command.precedes_version();
        Self {
            backslash: defined,
            colon_in_value: defined,
            // A reader of CONNECT takes a carriage return at the end of a line for part of the end.
            carriage_return: matches!(version, Version::V1_2) || command.precedes_version(),
        }
    }

    /// The letter that stands for `byte` after a backslash.
    const fn letter(self, byte: u8, colon: bool) -> Option<u8> {
        match byte {
            b'\n' => Some(b'n'),
            b':' if colon => Some(b'c'),
            b'\\' if self.backslash => Some(b'\\'),
            b'\r' if self.carriage_return => Some(b'r'),
            _ => None,
        }
    }
}

#[inline]
fn header_escaped(out: &mut Vec<u8>, escapes: Escapes, name: &str, value: &str) {
    out.reserve(name.len() + value.len() + 2);
    escape(out, escapes, name.as_bytes(), true);
    out.push(b':');
    escape(out, escapes, value.as_bytes(), escapes.colon_in_value);
    out.push(b'\n');
}

#[inline]
fn escape(out: &mut Vec<u8>, escapes: Escapes, bytes: &[u8], colon: bool) {
    if !may_need_escapes(bytes) {
        out.extend_from_slice(bytes);
        return;
    }
    for byte in bytes {
        match escapes.letter(*byte, colon) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => out.push(*byte),
        }
    }
}

/// Looks at every byte without stopping early, so that many can be looked at together.
#[inline]
fn may_need_escapes(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| {
        found | matches!(byte, b'\n' | b':' | b'\\' | b'\r')
    })
}
