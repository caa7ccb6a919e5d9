//! STOMP 1.2, the very same for every broker that speaks it.

use super::body::{DIGITS, parse_digits};
use super::{Body, Client, Confirmation, Connection, Frame, LoadError, Result, Step};

/// How the consumer acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// The server takes delivery for acknowledgement.
    Auto,
    /// Each message by its own frame, with at most so many unacknowledged.
    ClientIndividual {
        /// How many messages may be on their way or unacknowledged.
        prefetch_count: u32,
    },
}

/// The STOMP driver. Destinations are plain names; they become `/queue/NAME`, unless they start
/// with a slash.
#[derive(Debug, Clone)]
pub struct Stomp {
    /// How the consumer acknowledges.
    pub acknowledge: Acknowledge,
    /// Whether messages are to survive the server.
    pub persistent: bool,
}

impl Stomp {
    /// Messages in memory, taken as acknowledged on delivery.
    pub fn transient() -> Self {
        Self {
            acknowledge: Acknowledge::Auto,
            persistent: false,
        }
    }

    /// Messages that survive the server, taken as acknowledged on delivery.
    pub fn durable() -> Self {
        Self {
            acknowledge: Acknowledge::Auto,
            persistent: true,
        }
    }

    /// Reads a message that is acknowledged later.
    pub fn read_received(bytes: &[u8]) -> Result<Step<Received<'_>>> {
        let Some((length, frame)) = parse(bytes)? else {
            return Ok(Step::Incomplete);
        };
        match (frame.command, frame.header(b"ack")) {
            (b"", _) => Ok(Step::Done(length, None)),
            (b"MESSAGE", Some(id)) => {
                let body = frame.body;
                Ok(Step::Done(length, Some(Received { id, body })))
            }
            _ => Err(LoadError::refused(bytes)),
        }
    }

    fn acknowledge_header(&self) -> String {
        match self.acknowledge {
            Acknowledge::Auto => "ack:auto\n".to_owned(),
            Acknowledge::ClientIndividual { prefetch_count } => {
                format!("ack:client-individual\nprefetch-count:{prefetch_count}\n")
            }
        }
    }
}

/// A message that is acknowledged later.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// How the acknowledgement names it.
    pub id: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// Appends the acknowledgement of the message with this id.
pub fn acknowledgement(id: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"ACK\nid:");
    out.extend_from_slice(id);
    out.extend_from_slice(b"\n\n\0");
}

impl Client for Stomp {
    fn open(&self, connection: &mut Connection) -> Result<()> {
        connection.write(
            b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:0,0\nlogin:guest\npasscode:guest\n\n\0",
        )?;
        connection.wait_for("waiting for CONNECTED", |bytes| {
            answer(bytes, |frame| frame.command == b"CONNECTED")
        })
    }

    fn subscribe(&self, connection: &mut Connection, destination: &str) -> Result<()> {
        // RabbitMQ reads the first two headers, Hivewire the third; both ignore the other's.
        let kind = if self.persistent {
            "durable:true\nauto-delete:false\npersistent:true\n"
        } else {
            ""
        };
        let frame = format!(
            "SUBSCRIBE\nid:0\ndestination:{}\n{}{kind}receipt:subscribed\n\n\0",
            address(destination),
            self.acknowledge_header()
        );
        connection.write(frame.as_bytes())?;
        connection.wait_for("waiting for the receipt of SUBSCRIBE", |bytes| {
            answer(bytes, |frame| {
                frame.command == b"RECEIPT" && frame.header(b"receipt-id") == Some(b"subscribed")
            })
        })
    }

    fn prepare_to_publish(&self, _: &mut Connection, _confirmed: bool) -> Result<()> {
        Ok(())
    }

    fn frame(&self, destination: &str, body: &Body, confirmed: bool) -> Frame {
        let mut head = format!(
            "SEND\ndestination:{}\ncontent-length:{}\n",
            address(destination),
            body.bytes().len()
        );
        if self.persistent {
            head.push_str("persistent:true\n");
        }
        let mut confirmation_at = None;
        if confirmed {
            head.push_str("receipt:");
            confirmation_at = Some(head.len());
            head.push_str(&"0".repeat(DIGITS));
            head.push('\n');
        }
        head.push('\n');
        let sequence_at = head.len();
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.bytes());
        bytes.push(0);
        Frame {
            bytes,
            sequence_at,
            confirmation_at,
        }
    }

    fn read_message<'a>(&self, bytes: &'a [u8], replies: &mut Vec<u8>) -> Result<Step<&'a [u8]>> {
        let Some((length, frame)) = parse(bytes)? else {
            return Ok(Step::Incomplete);
        };
        match frame.command {
            b"" => Ok(Step::Done(length, None)),
            b"MESSAGE" => {
                if self.acknowledge != Acknowledge::Auto {
                    let id = frame
                        .header(b"ack")
                        .ok_or_else(|| LoadError::refused(bytes))?;
                    acknowledgement(id, replies);
                }
                Ok(Step::Done(length, Some(frame.body)))
            }
            _ => Err(LoadError::refused(bytes)),
        }
    }

    fn read_confirmation(&self, bytes: &[u8]) -> Result<Step<Confirmation>> {
        let Some((length, frame)) = parse(bytes)? else {
            return Ok(Step::Incomplete);
        };
        match frame.command {
            b"" => Ok(Step::Done(length, None)),
            b"RECEIPT" => frame
                .header(b"receipt-id")
                .and_then(parse_digits)
                .map(|number| Step::Done(length, Some(Confirmation::Numbered(number))))
                .ok_or_else(|| LoadError::refused(bytes)),
            _ => Err(LoadError::refused(bytes)),
        }
    }
}

fn address(destination: &str) -> String {
    if destination.starts_with('/') {
        destination.to_owned()
    } else {
        format!("/queue/{destination}")
    }
}

/// Reads one frame and fails unless it is the one hoped for.
fn answer(bytes: &[u8], hoped: impl Fn(&Parsed<'_>) -> bool) -> Result<Step<()>> {
    match parse(bytes)? {
        None => Ok(Step::Incomplete),
        Some((length, frame)) if frame.command.is_empty() => Ok(Step::Done(length, None)),
        Some((length, frame)) if hoped(&frame) => Ok(Step::Done(length, Some(()))),
        Some(_) => Err(LoadError::refused(bytes)),
    }
}

/// A frame, or a heart-beat if the command is empty.
struct Parsed<'a> {
    command: &'a [u8],
    headers: &'a [u8],
    body: &'a [u8],
}

impl<'a> Parsed<'a> {
    /// The first header of this name, as the standard asks.
    fn header(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut rest = self.headers;
        while let Some((line, after)) = split_line(rest) {
            if let Some(value) = line
                .strip_prefix(name)
                .and_then(|value| value.strip_prefix(b":"))
            {
                return Some(value);
            }
            rest = after;
        }
        None
    }
}

/// Reads one frame and how long it is, or nothing if it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Parsed<'_>)>> {
    let Some((command, mut rest)) = split_line(bytes) else {
        return Ok(None);
    };
    if command.is_empty() {
        let length = bytes.len() - rest.len();
        let heart_beat = Parsed {
            command,
            headers: b"",
            body: b"",
        };
        return Ok(Some((length, heart_beat)));
    }
    let headers_start = bytes.len() - rest.len();
    let mut content_length = None;
    loop {
        let Some((line, after)) = split_line(rest) else {
            return Ok(None);
        };
        let line_start = bytes.len() - rest.len();
        rest = after;
        if line.is_empty() {
            let headers = &bytes[headers_start..line_start];
            return finish(bytes, command, headers, rest, content_length);
        }
        if let Some(value) = line.strip_prefix(b"content-length:") {
            content_length = Some(parse_number(value).ok_or_else(|| LoadError::refused(bytes))?);
        }
    }
}

/// Takes the body and the NUL after it.
fn finish<'a>(
    bytes: &'a [u8],
    command: &'a [u8],
    headers: &'a [u8],
    rest: &'a [u8],
    content_length: Option<usize>,
) -> Result<Option<(usize, Parsed<'a>)>> {
    let Some(body_bytes) = content_length.or_else(|| memchr::memchr(0, rest)) else {
        return Ok(None);
    };
    match rest.get(body_bytes) {
        None => Ok(None),
        Some(0) => {
            let length = bytes.len() - rest.len() + body_bytes + 1;
            let body = &rest[..body_bytes];
            let frame = Parsed {
                command,
                headers,
                body,
            };
            Ok(Some((length, frame)))
        }
        Some(_) => Err(LoadError::refused(bytes)),
    }
}

/// The first line without its end, and what follows.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

fn parse_number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::check_pieces;
    use super::*;

    #[test]
    fn a_frame_carries_what_was_asked_for() {
        let mut out = Vec::new();
        let body = Body::new(12);
        Stomp::transient()
            .frame("q", &body, false)
            .append(7, &mut out);
        assert_eq!(
            out,
            b"SEND\ndestination:/queue/q\ncontent-length:12\n\n0000000007k\n\0"
        );
        out.clear();
        Stomp::durable()
            .frame("/topic/t", &body, true)
            .append(7, &mut out);
        assert_eq!(
            out,
            b"SEND\ndestination:/topic/t\ncontent-length:12\npersistent:true\nreceipt:0000000007\n\n0000000007k\n\0"
        );
    }

    #[test]
    fn messages_are_read_in_any_pieces() {
        let stomp = Stomp::transient();
        check_pieces(&stomp, b"MESSAGE\nsubscription:0\n\nab\0", b"ab");
        check_pieces(
            &stomp,
            b"MESSAGE\r\ncontent-length:3\r\nack:1\r\n\r\na\0b\0",
            b"a\0b",
        );
    }

    #[test]
    fn heart_beats_are_skipped() {
        let step = Stomp::transient().read_message(b"\nMESS", &mut Vec::new());
        assert_eq!(step.expect("a heart-beat"), Step::Done(1, None));
    }

    #[test]
    fn individual_acknowledgement_repeats_the_id() {
        let stomp = Stomp {
            acknowledge: Acknowledge::ClientIndividual {
                prefetch_count: 100,
            },
            persistent: false,
        };
        let mut replies = Vec::new();
        stomp
            .read_message(b"MESSAGE\nack:T_0@@x\n\n\0", &mut replies)
            .expect("a message");
        assert_eq!(replies, b"ACK\nid:T_0@@x\n\n\0");
    }

    #[test]
    fn a_message_can_be_acknowledged_later_and_sent_on_with_its_body() {
        let message = b"MESSAGE\nack:7\n\n0000000007k\n\0";
        let step = Stomp::read_received(message).expect("a message");
        let body = b"0000000007k\n".as_slice();
        let received = Received { id: b"7", body };
        assert_eq!(step, Step::Done(message.len(), Some(received)));
        assert!(Stomp::read_received(b"MESSAGE\n\n\0").is_err(), "no id");
        let mut out = Vec::new();
        let frame = Stomp::durable().frame("q", &Body::new(12), true);
        frame.append_body(3, body, &mut out);
        let expected = b"SEND\ndestination:/queue/q\ncontent-length:12\npersistent:true\nreceipt:0000000003\n\n0000000007k\n\0";
        assert_eq!(out, expected);
    }

    #[test]
    fn receipts_are_read_and_errors_are_shown() {
        let stomp = Stomp::durable();
        let step = stomp.read_confirmation(b"RECEIPT\nreceipt-id:0000000012\n\n\0\n");
        assert_eq!(
            step.expect("a receipt"),
            Step::Done(32, Some(Confirmation::Numbered(12)))
        );
        let error = stomp.read_confirmation(b"ERROR\nmessage:no room\n\n\0");
        assert!(error.unwrap_err().to_string().contains("no room"));
    }

    #[test]
    fn a_body_longer_than_it_says_is_an_error() {
        let wrong = b"MESSAGE\ncontent-length:1\n\nab\0";
        assert!(
            Stomp::transient()
                .read_message(wrong, &mut Vec::new())
                .is_err()
        );
    }
}
