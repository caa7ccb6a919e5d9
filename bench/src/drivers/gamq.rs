//! gamq's text protocol over TCP.

use memchr::memmem;

use super::{Body, Client, Confirmation, Connection, Frame, LoadError, Result, Step};

/// What ends a delivered message.
const DELIVERY_END: &[u8] = b"\r\n.\r\n";
/// The answer to a publish when acknowledgements are on.
pub(super) const ACKNOWLEDGEMENT: &[u8] = b"PUBACK\n\n";
const PING_ANSWER: &[u8] = b"PINGRESP\n";

/// The gamq driver.
#[derive(Debug, Clone, Default)]
pub struct Gamq;

impl Client for Gamq {
    fn open(&self, connection: &mut Connection) -> Result<()> {
        synchronise(connection)
    }

    fn subscribe(&self, connection: &mut Connection, destination: &str) -> Result<()> {
        connection.write(format!("SUB {destination}\n").as_bytes())?;
        synchronise(connection)
    }

    fn prepare_to_publish(&self, connection: &mut Connection, confirmed: bool) -> Result<()> {
        let wish = if confirmed { "on" } else { "off" };
        connection.write(format!("SETACK {wish}\n").as_bytes())?;
        synchronise(connection)
    }

    fn frame(&self, destination: &str, body: &Body, _confirmed: bool) -> Frame {
        let mut bytes = format!("PUB {destination}\n").into_bytes();
        let sequence_at = bytes.len();
        bytes.extend_from_slice(body.bytes());
        bytes.extend_from_slice(b".\r\n");
        Frame {
            bytes,
            sequence_at,
            confirmation_at: None,
        }
    }

    fn read_message<'a>(&self, bytes: &'a [u8], _: &mut Vec<u8>) -> Result<Step<&'a [u8]>> {
        Ok(match find_delivery_end(bytes) {
            None => Step::Incomplete,
            Some(end) => Step::Done(end + DELIVERY_END.len(), Some(&bytes[..end])),
        })
    }

    fn read_confirmation(&self, bytes: &[u8]) -> Result<Step<Confirmation>> {
        let step = expect_exactly(bytes, ACKNOWLEDGEMENT)?;
        Ok(match step {
            Step::Incomplete => Step::Incomplete,
            Step::Done(length, _) => Step::Done(length, Some(Confirmation::Unnumbered)),
        })
    }
}

/// Finds the end by its carriage returns, which our bodies do not hold: one fast scan a message.
fn find_delivery_end(bytes: &[u8]) -> Option<usize> {
    let first = memchr::memchr(b'\r', bytes)?;
    if bytes[first..].starts_with(DELIVERY_END) {
        return Some(first);
    }
    memmem::find(&bytes[first..], DELIVERY_END).map(|offset| first + offset)
}

/// Sends a ping and waits for its answer: all commands before it have then been handled.
fn synchronise(connection: &mut Connection) -> Result<()> {
    connection.write(b"PINGREQ\n")?;
    connection.wait_for("waiting for PINGRESP", |bytes| {
        expect_exactly(bytes, PING_ANSWER)
    })
}

fn expect_exactly(bytes: &[u8], expected: &[u8]) -> Result<Step<()>> {
    if bytes.starts_with(expected) {
        return Ok(Step::Done(expected.len(), Some(())));
    }
    if expected.starts_with(bytes) {
        return Ok(Step::Incomplete);
    }
    Err(LoadError::refused(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::check_pieces;
    use super::*;

    #[test]
    fn a_frame_is_command_body_and_full_stop() {
        let mut out = Vec::new();
        Gamq.frame("q", &Body::new(12), false).append(7, &mut out);
        assert_eq!(out, b"PUB q\n0000000007k\n.\r\n");
    }

    #[test]
    fn deliveries_are_read_in_any_pieces() {
        check_pieces(&Gamq, b"0\n\r\n.\r\n", b"0\n");
        check_pieces(&Gamq, b"a\r\nb\r\n.\r\n", b"a\r\nb");
    }

    #[test]
    fn only_the_acknowledgement_confirms() {
        let read = |bytes| Gamq.read_confirmation(bytes);
        assert_eq!(read(b"PUBA").expect("begun"), Step::Incomplete);
        assert_eq!(
            read(b"PUBACK\n\nPU").expect("whole"),
            Step::Done(8, Some(Confirmation::Unnumbered))
        );
        assert!(read(b"Unrecognised command\n").is_err());
    }
}
