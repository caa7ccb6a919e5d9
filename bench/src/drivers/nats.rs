//! NATS core: `PUB` and `SUB`, not durable, never confirmed.

use super::{Body, Client, Confirmation, Connection, Frame, LoadError, Result, Step};

/// The NATS driver.
#[derive(Debug, Clone, Default)]
pub struct Nats;

impl Client for Nats {
    fn open(&self, connection: &mut Connection) -> Result<()> {
        connection.wait_for("waiting for INFO", |bytes| {
            Ok(line(bytes).map_or(Step::Incomplete, |(length, text)| {
                Step::Done(length, text.starts_with(b"INFO ").then_some(()))
            }))
        })?;
        connection.write(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")?;
        synchronise(connection)
    }

    fn subscribe(&self, connection: &mut Connection, destination: &str) -> Result<()> {
        connection.write(format!("SUB {destination} 1\r\n").as_bytes())?;
        synchronise(connection)
    }

    fn prepare_to_publish(&self, _: &mut Connection, confirmed: bool) -> Result<()> {
        if confirmed {
            return Err(LoadError::Refused("NATS core confirms nothing".to_owned()));
        }
        Ok(())
    }

    fn frame(&self, destination: &str, body: &Body, _confirmed: bool) -> Frame {
        let mut bytes = format!("PUB {destination} {}\r\n", body.bytes().len()).into_bytes();
        let sequence_at = bytes.len();
        bytes.extend_from_slice(body.bytes());
        bytes.extend_from_slice(b"\r\n");
        Frame {
            bytes,
            sequence_at,
            confirmation_at: None,
        }
    }

    fn read_message<'a>(&self, bytes: &'a [u8], replies: &mut Vec<u8>) -> Result<Step<&'a [u8]>> {
        let Some((head, text)) = line(bytes) else {
            return Ok(Step::Incomplete);
        };
        if text == b"PING" {
            replies.extend_from_slice(b"PONG\r\n");
            return Ok(Step::Done(head, None));
        }
        let Some(body_bytes) = body_bytes(text) else {
            return Err(LoadError::refused(text));
        };
        let length = head + body_bytes + 2;
        if bytes.len() < length {
            return Ok(Step::Incomplete);
        }
        Ok(Step::Done(length, Some(&bytes[head..head + body_bytes])))
    }

    fn read_confirmation(&self, bytes: &[u8]) -> Result<Step<Confirmation>> {
        Err(LoadError::refused(bytes))
    }
}

/// Sends a ping and waits for its answer: all commands before it have then been handled.
fn synchronise(connection: &mut Connection) -> Result<()> {
    connection.write(b"PING\r\n")?;
    connection.wait_for("waiting for PONG", |bytes| {
        let Some((length, text)) = line(bytes) else {
            return Ok(Step::Incomplete);
        };
        match text {
            b"PONG" => Ok(Step::Done(length, Some(()))),
            b"PING" => Ok(Step::Done(length, None)),
            other => Err(LoadError::refused(other)),
        }
    })
}

/// The first line and how long it is with its end.
fn line(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    Some((end + 1, bytes[..end].strip_suffix(b"\r")?))
}

/// The last word of `MSG <subject> <id> [reply] <bytes>`.
fn body_bytes(text: &[u8]) -> Option<usize> {
    let text = text.strip_prefix(b"MSG ")?;
    let word = &text[memchr::memrchr(b' ', text)? + 1..];
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::check_pieces;
    use super::*;

    #[test]
    fn a_frame_names_subject_and_length() {
        let mut out = Vec::new();
        Nats.frame("q", &Body::new(12), false).append(7, &mut out);
        assert_eq!(out, b"PUB q 12\r\n0000000007k\n\r\n");
    }

    #[test]
    fn messages_are_read_in_any_pieces() {
        check_pieces(&Nats, b"MSG q 1 3\r\na\r\n\r\n", b"a\r\n");
        check_pieces(&Nats, b"MSG q 1 reply.to 2\r\nab\r\n", b"ab");
    }

    #[test]
    fn a_ping_is_answered_and_an_error_is_shown() {
        let mut replies = Vec::new();
        let step = Nats.read_message(b"PING\r\nMSG", &mut replies);
        assert_eq!(step.expect("ping is fine"), Step::Done(6, None));
        assert_eq!(replies, b"PONG\r\n");
        let error = Nats.read_message(b"-ERR 'Slow Consumer'\r\n", &mut replies);
        assert!(error.unwrap_err().to_string().contains("Slow Consumer"));
    }
}
