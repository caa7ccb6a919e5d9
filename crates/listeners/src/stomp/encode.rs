//! Frames that the server sends.

use broker::Entry;
use kernel::Headers;
use wire::stomp::additions::{ACK_LEVEL, SENDERS_MESSAGE_ID, TRIES};
use wire::stomp::{self, Command, Version};

use super::node::Verdict;

/// The header under which a sender gives a message an id of its own; in frames it is the server's.
pub(super) const MESSAGE_ID: &str = "message-id";

/// How much a receipt is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckLevel {
    /// What was sent is in memory.
    Memory,
    /// What was sent is on disk.
    Synced,
}

impl AckLevel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Synced => "synced",
        }
    }
}

pub(super) fn receipt(out: &mut Vec<u8>, version: Version, id: &str, level: Option<AckLevel>) {
    stomp::begin(out, Command::Receipt);
    stomp::header(out, version, "receipt-id", id);
    if let Some(level) = level {
        stomp::header_raw(out, ACK_LEVEL, level.as_str().as_bytes());
    }
    stomp::finish(out, b"");
}

/// What came of a node's commit.
pub(super) fn node_receipt(
    out: &mut Vec<u8>,
    version: Version,
    id: &str,
    verdict: &Verdict,
    level: Option<AckLevel>,
) {
    stomp::begin(out, Command::Receipt);
    stomp::header(out, version, "receipt-id", id);
    verdict_headers(out, version, verdict);
    if let Some(level) = level {
        stomp::header_raw(out, "ack-level", level.as_str().as_bytes());
    }
    stomp::finish(out, b"");
}

/// The answer to a node's request.
pub(super) fn answer(
    out: &mut Vec<u8>,
    version: Version,
    id: &str,
    request: &str,
    verdict: &Verdict,
    body: &[u8],
) {
    stomp::begin(out, Command::Message);
    stomp::header_raw(out, "subscription", b"hivewire");
    stomp::header_raw(out, "destination", b"/hivewire/answer");
    stomp::header_raw(out, "message-id", id.as_bytes());
    stomp::header(out, version, "request", request);
    verdict_headers(out, version, verdict);
    stomp::header_number(out, "content-length", body.len() as u64);
    stomp::finish(out, body);
}

fn verdict_headers(out: &mut Vec<u8>, version: Version, verdict: &Verdict) {
    stomp::header_raw(out, "outcome", verdict.outcome.as_bytes());
    if let Some((name, value)) = &verdict.header {
        stomp::header(out, version, name, value);
    }
}

/// An ERROR frame: a short message in the header and what to do about it in the body.
pub(super) fn error(out: &mut Vec<u8>, version: Version, message: &str, receipt: Option<&str>) {
    let (short, _) = message.split_once(": ").unwrap_or((message, ""));
    stomp::begin(out, Command::Error);
    stomp::header(out, version, "message", short);
    if let Some(receipt) = receipt {
        stomp::header(out, version, "receipt-id", receipt);
    }
    // Besides saying how to read it, the charset keeps stompit 1.0 from its special way with plain
    // text, in which it throws an error that no program can catch.
    stomp::header_raw(out, "content-type", b"text/plain;charset=utf-8");
    stomp::header_number(out, "content-length", message.len() as u64);
    stomp::finish(out, message.as_bytes());
}

/// The part of a MESSAGE frame that is the same for every message of a subscription.
pub(super) fn message_start(version: Version, subscription: &str, destination: &str) -> Vec<u8> {
    let mut start = Vec::new();
    stomp::begin(&mut start, Command::Message);
    stomp::header(&mut start, version, "subscription", subscription);
    stomp::header(&mut start, version, "destination", destination);
    start
}

/// A MESSAGE frame. Its id is the number of the message in its queue and that of the subscription,
/// which together say what an acknowledgement means.
pub(super) fn message(
    out: &mut Vec<u8>,
    version: Version,
    start: &[u8],
    token: u32,
    acknowledged: bool,
    entry: &Entry,
) {
    out.extend_from_slice(start);
    let mut id = MessageId::default();
    id.set(entry.id, token);
    stomp::header_raw(out, "message-id", id.as_bytes());
    if acknowledged && version == Version::V1_2 {
        stomp::header_raw(out, "ack", id.as_bytes());
    }
    if entry.redelivered {
        stomp::header_raw(out, "redelivered", b"true");
    }
    if entry.tries > 0 {
        stomp::header_number(out, TRIES, u64::from(entry.tries));
    }
    user_headers(out, version, &entry.message.headers);
    stomp::header_number(out, "content-length", entry.message.body.len() as u64);
    stomp::finish(out, &entry.message.body);
}

fn user_headers(out: &mut Vec<u8>, version: Version, headers: &Headers) {
    if !headers.is_empty() {
        for (name, value) in headers.iter() {
            let name = if name == MESSAGE_ID {
                SENDERS_MESSAGE_ID
            } else {
                name
            };
            stomp::header(out, version, name, value);
        }
    }
}

/// `<number in the queue>-<number of the subscription>`, written without allocating.
struct MessageId {
    digits: [u8; 32],
    start: usize,
}

impl Default for MessageId {
    fn default() -> Self {
        Self {
            digits: [0; 32],
            start: 32,
        }
    }
}

impl MessageId {
    fn set(&mut self, id: u64, token: u32) {
        self.start = self.digits.len();
        self.number(u64::from(token));
        self.push(b'-');
        self.number(id);
    }

    fn number(&mut self, mut rest: u64) {
        loop {
            self.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }

    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.digits[self.start] = byte;
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// Reads a message id back: the number in the queue, and that of the subscription.
pub(super) fn parse_message_id(text: &str) -> Option<(u64, u32)> {
    let (id, token) = text.split_once('-')?;
    Some((id.parse().ok()?, token.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_come_back() {
        for (id, token) in [(0, 0), (1, 7), (u64::MAX, u32::MAX)] {
            let mut text = MessageId::default();
            text.set(id, token);
            let text = str::from_utf8(text.as_bytes()).unwrap();
            assert_eq!(parse_message_id(text), Some((id, token)));
        }
        assert_eq!(parse_message_id("12"), None);
        assert_eq!(parse_message_id("a-b"), None);
    }
}
