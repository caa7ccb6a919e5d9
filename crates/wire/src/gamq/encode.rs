//! Commands and deliveries to bytes.

use memchr::memchr_iter;
use thiserror::Error;

use super::DELIVERY_END;

/// Why something cannot be said in gamq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The name is empty or holds white space, which ends a name.
    #[error("a gamq name must not be empty and not hold white space")]
    BadName,
    /// The body holds a line that is a single full stop, which ends a body.
    #[error("a gamq body must not hold a line that is a single full stop; send it over STOMP")]
    BodyHoldsEndLine,
}

/// Appends a publish. A body that does not end in a line feed gets one, for it must end before the
/// line with the final full stop; subscribers receive it too.
///
/// # Errors
///
/// The name or the body cannot be sent; `out` is left as it was.
pub fn encode_publish(out: &mut Vec<u8>, name: &str, body: &[u8]) -> Result<(), EncodeError> {
    if holds_end_line(body) {
        return Err(EncodeError::BodyHoldsEndLine);
    }
    encode_named(out, "PUB", name)?;
    out.extend_from_slice(body);
    if !body.is_empty() && !body.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.extend_from_slice(b".\r\n");
    Ok(())
}

/// Appends a subscribe.
///
/// # Errors
///
/// The name cannot be sent; `out` is left as it was.
pub fn encode_subscribe(out: &mut Vec<u8>, name: &str) -> Result<(), EncodeError> {
    encode_named(out, "SUB", name)
}

/// Appends a close.
///
/// # Errors
///
/// The name cannot be sent; `out` is left as it was.
pub fn encode_close(out: &mut Vec<u8>, name: &str) -> Result<(), EncodeError> {
    encode_named(out, "CLOSE", name)
}

/// Appends a command that turns the answer to each publish on or off.
pub fn encode_set_ack(out: &mut Vec<u8>, on: bool) {
    let line = if on {
        "SETACK on\r\n"
    } else {
        "SETACK off\r\n"
    };
    out.extend_from_slice(line.as_bytes());
}

/// Appends a body on its way to a subscriber. One that [`holds_end_line`], as may come in by other
/// protocols, would be read as two: do not deliver it.
#[inline]
pub fn encode_delivery(out: &mut Vec<u8>, body: &[u8]) {
    out.reserve(body.len() + DELIVERY_END.len());
    out.extend_from_slice(body);
    out.extend_from_slice(DELIVERY_END);
}

/// True if some line of the body is a single full stop, so that gamq cannot carry it.
///
/// ```
/// use wire::gamq::holds_end_line;
///
/// assert!(holds_end_line(b"one\n.\ntwo\n"));
/// assert!(!holds_end_line(b"one.\n..\n"));
/// ```
pub fn holds_end_line(body: &[u8]) -> bool {
    is_end_line(body)
        || memchr_iter(b'\n', body).any(|line_feed| is_end_line(&body[line_feed + 1..]))
}

/// True if `rest` starts with a line that is a full stop; the line may be the last, without an end.
fn is_end_line(rest: &[u8]) -> bool {
    matches!(
        rest,
        [b'.'] | [b'.', b'\r'] | [b'.', b'\n', ..] | [b'.', b'\r', b'\n', ..]
    )
}

fn encode_named(out: &mut Vec<u8>, command: &str, name: &str) -> Result<(), EncodeError> {
    if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return Err(EncodeError::BadName);
    }
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\r\n");
    Ok(())
}
