//! Messages to SEND frames, and MESSAGE frames back to messages, without loss.
//!
//! Headers become STOMP headers, so that other clients of the server read them. Servers other than
//! ours lose their order and doubles, and every server keeps some names to itself. Headers that
//! would come out otherwise travel in their stored form as well: in a header, or, if they are
//! large, in front of the body.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use kernel::{Headers, HeadersBuilder, Message, Timestamp};
use wire::stomp::additions::{SENDERS_MESSAGE_ID, TRIES};
use wire::stomp::{self, Command, Frame, Version};

use super::chunks::Chunks;
use super::dialect::Dialect;
use super::unanswered::AckId;
use crate::delivery::{Delivery, ENGINE_ID, MESSAGE_ID, Receipt};
use crate::store::MessageId;

/// Headers of ours, which never reach a receiver.
const OURS: &str = "hivewire-";
const PUBLISHED_AT: &str = "hivewire-published-at";
/// Headers in their stored form, as text.
const STORED: &str = "hivewire-headers";
/// How many bytes of headers in their stored form stand in front of the body.
const STORED_BYTES: &str = "hivewire-headers-bytes";

/// Stored headers up to this size travel in a header: servers limit the length of a line.
const STORED_IN_HEADER_BYTES_MAX: usize = 4 * 1024;
/// Headers larger than this in all travel in front of the body only.
const NATIVE_BYTES_MAX: usize = 12 * 1024;
/// More headers than this travel in their stored form only.
const NATIVE_HEADERS_MAX: usize = 64;
/// On servers other than ours, longer headers than this travel in their stored form only. Escapes
/// may double the length, and one of them takes lines of 10 KiB at most.
const NATIVE_LINE_BYTES_MAX: usize = 4 * 1024;
/// Beyond it AMQP, which one server translates to, has no room for names and some values.
const SHORT_BYTES_MAX: usize = 255;

/// What frames are about, so a sender's header of that name is never sent as such.
const RESERVED: &[&str] = &[
    "ack",
    "content-length",
    "destination",
    "persistent",
    "receipt",
    "redelivered",
    "subscription",
    "transaction",
];

/// The same, on servers other than ours.
const RESERVED_ELSEWHERE: &[&str] = &[
    "amqp-message-id",
    "app-id",
    "auto-delete",
    "browser",
    "content-encoding",
    "durable",
    "exclusive",
    "expiration",
    "expires",
    "id",
    "original-destination",
    "priority",
    "selector",
    "timestamp",
    "transformation",
    "type",
    "user-id",
];

/// What servers add to a message.
const ADDED: &[&str] = &["content-length", "destination", "subscription"];

/// What servers other than ours add to a message, or leave on it.
const ADDED_ELSEWHERE: &[&str] = &[
    "auto-delete",
    "durable",
    "exclusive",
    "expires",
    "persistent",
    "priority",
    "receipt",
    "timestamp",
    "transaction",
    "x-queue-type",
];

/// Headers that AMQP gives a place of their own.
const SHORT: &[&str] = &["content-type", "correlation-id", Message::REPLY_TO];

/// How temporary queues begin; a server replaces a reply address that is one.
const TEMPORARY: &str = "/temp-queue/";

/// A message on its way, under the id that it keeps however often it is sent.
pub(super) struct Outgoing {
    pub message: Message,
    pub id: Id,
    pub tries: u32,
    pub confirmed: bool,
}

/// The id of a message.
#[derive(Clone, Debug)]
pub(super) enum Id {
    /// The sender's own, which stands among the headers.
    Sender,
    /// A number of this process.
    Number(u64),
    /// The one that it came with.
    Kept(Box<str>),
}

/// What the frames of one call have in common.
pub(super) struct Sending<'a> {
    pub dialect: &'static dyn Dialect,
    /// The command, the destination and what follows from it.
    pub start: &'a [u8],
    /// What the numbers of this process begin with.
    pub id_start: &'a str,
    pub transaction: Option<u64>,
}

/// What every SEND to a destination begins with.
pub(super) fn send_start(destination: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut start = Vec::new();
    stomp::begin(&mut start, Command::Send);
    stomp::header(&mut start, Version::V1_2, "destination", destination);
    for (name, value) in headers {
        stomp::header_raw(&mut start, name, value.as_bytes());
    }
    start
}

impl Sending<'_> {
    /// Appends a SEND frame.
    pub fn frame(&self, chunks: &mut Chunks, outgoing: &Outgoing, receipt: Option<u64>) {
        let message = &outgoing.message;
        let out = chunks.bytes();
        out.extend_from_slice(self.start);
        if let Some(transaction) = self.transaction {
            stomp::header_number(out, "transaction", transaction);
        }
        if let Some(receipt) = receipt {
            stomp::header_number(out, "receipt", receipt);
        }
        match &outgoing.id {
            Id::Sender => {}
            Id::Number(number) => {
                // Writing to memory does not fail.
                let _ = writeln!(out, "{ENGINE_ID}:{}-{number}", self.id_start);
            }
            Id::Kept(id) => stomp::header(out, Version::V1_2, ENGINE_ID, id),
        }
        if outgoing.tries > 0 {
            stomp::header_number(out, TRIES, u64::from(outgoing.tries));
        }
        if message.published_at != Timestamp::default() {
            stomp::header_number(out, PUBLISHED_AT, message.published_at.as_micros());
        }
        let before = self.headers(out, &message.headers);
        let length = before.len() + message.body.len();
        stomp::header_number(out, "content-length", length as u64);
        chunks.finish(before, &message.body);
    }

    /// Appends the sender's headers; gives what of them has to stand in front of the body.
    fn headers<'m>(&self, out: &mut Vec<u8>, headers: &'m Headers) -> &'m [u8] {
        if headers.is_empty() {
            return &[];
        }
        let is_plain = self.is_plain(headers);
        if headers.len_bytes() <= NATIVE_BYTES_MAX {
            let mut seen: Vec<&str> = Vec::new();
            for (name, value) in headers.iter().take(NATIVE_HEADERS_MAX) {
                // Where the first of a name counts, the others are in the stored form.
                let is_double = !is_plain && seen.contains(&name);
                if is_double || !self.is_native(name, value) {
                    continue;
                }
                if !is_plain {
                    seen.push(name);
                }
                let name = match name {
                    MESSAGE_ID if MessageId::is_of_commit(value) => self.dialect.commit_id_header(),
                    MESSAGE_ID => SENDERS_MESSAGE_ID,
                    _ => name,
                };
                stomp::header(out, Version::V1_2, name, value);
            }
        }
        let stored = headers.as_encoded();
        if is_plain {
            &[]
        } else if stored.len() <= STORED_IN_HEADER_BYTES_MAX {
            stomp::header_raw(out, STORED, BASE64.encode(stored).as_bytes());
            &[]
        } else {
            stomp::header_number(out, STORED_BYTES, stored.len() as u64);
            stored
        }
    }

    /// Whether the headers come out of the server as they go in.
    fn is_plain(&self, headers: &Headers) -> bool {
        let mut last: Option<&str> = None;
        let mut count = 0;
        headers.len_bytes() <= NATIVE_BYTES_MAX
            && headers.iter().all(|(name, value)| {
                count += 1;
                let is_in_order = last.replace(name).is_none_or(|last| last < name);
                let is_kept = self.dialect.is_ours()
                    || (is_in_order && is_kept(value) && name != Message::REPLY_TO);
                count <= NATIVE_HEADERS_MAX && is_kept && self.is_native(name, value)
            })
    }

    /// Whether a header can be sent as such.
    fn is_native(&self, name: &str, value: &str) -> bool {
        if name == MESSAGE_ID {
            return self.dialect.is_ours() || value.len() <= SHORT_BYTES_MAX;
        }
        let is_temporary = name == Message::REPLY_TO && value.starts_with(TEMPORARY);
        if name.is_empty() || is_temporary || name.starts_with(OURS) || RESERVED.contains(&name) {
            return false;
        }
        self.dialect.is_ours() || is_native_elsewhere(name, value)
    }
}

/// Whether a server other than ours takes a header.
fn is_native_elsewhere(name: &str, value: &str) -> bool {
    let is_simple = |byte: u8| byte.is_ascii_graphic() && byte != b':' && byte != b'\\';
    let means_more = ["x-", "JMS", "activemq."];
    name.len() <= SHORT_BYTES_MAX
        && name.len() + value.len() <= NATIVE_LINE_BYTES_MAX
        && name.bytes().all(is_simple)
        && !RESERVED_ELSEWHERE.contains(&name)
        && !means_more.iter().any(|start| name.starts_with(start))
        && (value.len() <= SHORT_BYTES_MAX || !SHORT.contains(&name))
}

/// Whether a server other than ours keeps a value as it is.
fn is_kept(value: &str) -> bool {
    !value.is_empty() && !value.contains('\r') && value.trim().len() == value.len()
}

/// Appends BEGIN, COMMIT or ABORT.
pub(super) fn transact(
    out: &mut Vec<u8>,
    command: Command,
    transaction: u64,
    receipt: Option<u64>,
) {
    stomp::begin(out, command);
    stomp::header_number(out, "transaction", transaction);
    if let Some(receipt) = receipt {
        stomp::header_number(out, "receipt", receipt);
    }
    stomp::finish(out, b"");
}

/// A message that arrived, and by what it is acknowledged.
pub(super) struct Arrived {
    pub delivery: Delivery,
    pub ack: AckId,
}

/// What a MESSAGE frame carries. Its receipt gets its number later.
pub(super) fn to_delivery(dialect: &dyn Dialect, frame: &Frame<'_>) -> Arrived {
    let mut builder = HeadersBuilder::default();
    // Servers that give no order get one here, and senders use it.
    let mut unordered = Vec::new();
    let mut arrived = Ours::default();
    for (name, value) in frame.headers() {
        match &*name {
            "ack" => arrived.ack = Some(AckId::new(&value)),
            "message-id" if arrived.ack.is_none() => arrived.ack = Some(AckId::new(&value)),
            "message-id" => {}
            "redelivered" => arrived.redelivered = &*value == "true",
            SENDERS_MESSAGE_ID if dialect.is_ours() => push(&mut builder, MESSAGE_ID, &value),
            SENDERS_MESSAGE_ID => unordered.push((MESSAGE_ID.into(), value)),
            name if name == dialect.commit_id_header() && MessageId::is_of_commit(&value) => {
                unordered.push((MESSAGE_ID.into(), value));
            }
            name if name.starts_with(OURS) => arrived.take(name, &value),
            "amqp-message-id" if !dialect.is_ours() => arrived.take(ENGINE_ID, &value),
            name if ADDED.contains(&name) => {}
            name if dialect.is_ours() => push(&mut builder, name, &value),
            name if ADDED_ELSEWHERE.contains(&name) => {}
            _ => unordered.push((name, value)),
        }
    }
    unordered.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, value) in &unordered {
        push(&mut builder, name, value);
    }
    let (stored, body) = arrived.split(frame.body);
    let native = builder.build();
    let headers = match stored {
        Some(stored) => with_death(stored, &native),
        None => native,
    };
    Arrived {
        delivery: Delivery {
            message: Message {
                headers,
                body: Bytes::copy_from_slice(body),
                published_at: Timestamp::from_micros(arrived.published_at),
            },
            receipt: Receipt {
                number: 0,
                generation: 0,
            },
            tries: arrived.tries,
            redelivered: arrived.redelivered || arrived.tries > 0,
            engine_id: arrived.id,
        },
        ack: arrived.ack.unwrap_or_else(|| AckId::new("")),
    }
}

/// What the headers of ours say.
#[derive(Default)]
struct Ours {
    ack: Option<AckId>,
    redelivered: bool,
    tries: u32,
    id: Option<Box<str>>,
    published_at: u64,
    stored: Option<Headers>,
    stored_bytes: usize,
}

impl Ours {
    fn take(&mut self, name: &str, value: &str) {
        match name {
            TRIES => self.tries = value.parse().unwrap_or(0),
            ENGINE_ID => self.id = Some(value.into()),
            PUBLISHED_AT => self.published_at = value.parse().unwrap_or(0),
            STORED => {
                let decoded = BASE64.decode(value).ok();
                self.stored = decoded.and_then(|bytes| Headers::from_encoded(bytes.into()).ok());
            }
            STORED_BYTES => self.stored_bytes = value.parse().unwrap_or(0),
            _ => {}
        }
    }

    /// The stored headers, and the body without them.
    fn split<'a>(&mut self, body: &'a [u8]) -> (Option<Headers>, &'a [u8]) {
        if self.stored_bytes == 0 || self.stored_bytes > body.len() {
            return (self.stored.take(), body);
        }
        let (stored, rest) = body.split_at(self.stored_bytes);
        match Headers::from_encoded(Bytes::copy_from_slice(stored)) {
            Ok(headers) => (Some(headers), rest),
            Err(_) => (None, body),
        }
    }
}

/// Headers of foreign senders can be more than we carry; the message matters more.
fn push(builder: &mut HeadersBuilder, name: &str, value: &str) {
    if let Err(error) = builder.push(name, value) {
        tracing::warn!(name, "a header is left out: {error}");
    }
}

/// The headers with what the server wrote on a dead letter since.
fn with_death(stored: Headers, native: &Headers) -> Headers {
    let death = [
        Message::DEAD_QUEUE,
        Message::DEAD_TOPIC,
        Message::DEAD_REASON,
        Message::DEAD_TRIES,
        Message::DEAD_AT,
    ];
    let told: Vec<(&str, &str)> = death
        .iter()
        .filter_map(|name| Some((*name, native.get(name)?)))
        .filter(|(name, value)| stored.get(name) != Some(value))
        .collect();
    if told.is_empty() {
        return stored;
    }
    stored.with(told).unwrap_or(stored)
}

#[cfg(test)]
mod tests {
    use wire::stomp::{Decoded, Decoder, Limits};

    use super::super::dialect::named;
    use super::*;

    fn round_trip(dialect: &str, headers: &Headers, tries: u32) -> (Delivery, Vec<u8>) {
        let dialect = named(dialect).unwrap();
        let message = Message::new(vec![0, 255, 10])
            .with_headers(headers.clone())
            .published_at(Timestamp::from_micros(77));
        let outgoing = Outgoing {
            message,
            id: Id::Number(17),
            tries,
            confirmed: false,
        };
        // Our server keeps to itself what is for the server; the others leave it on the message.
        let for_server: &[(&str, &str)] = match dialect.is_ours() {
            true => &[],
            false => &[("persistent", "true")],
        };
        let start = send_start("/queue/a:b", for_server);
        let sending = Sending {
            dialect,
            start: &start,
            id_start: "abc",
            transaction: None,
        };
        let mut chunks = Chunks::default();
        sending.frame(&mut chunks, &outgoing, (!dialect.is_ours()).then_some(3));
        let bytes = std::mem::take(chunks.bytes());
        let mut decoder = Decoder::new(Limits::default());
        let Ok(Decoded::Frame { frame, consumed }) = decoder.decode(&bytes) else {
            panic!("no frame in {:?}", String::from_utf8_lossy(&bytes));
        };
        assert_eq!(consumed, bytes.len());
        let delivery = to_delivery(dialect, &frame).delivery;
        assert_eq!(delivery.message, outgoing.message);
        (delivery, bytes)
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let long = "x".repeat(5_000);
        let huge = "y".repeat(50_000);
        let cases: [&[(&str, &str)]; 12] = [
            &[],
            &[("message-id", "hw:b.1.2.3")],
            &[("a", "1"), ("message-id", "hw:b.1.2.3"), ("z", "2")],
            &[("z", "1"), ("message-id", "hw:b.1.2.3")],
            &[("a", "1"), ("b", "2")],
            &[("b", "2"), ("a", "1")],
            &[("a", "1"), ("a", "2")],
            &[("z", ""), ("a", " äöü \r\n:\\ 漢")],
            &[
                ("reply-to", "/temp-queue/answers"),
                ("content-type", "text/plain"),
                ("message-id", "mine"),
            ],
            &[("destination", "x"), ("hivewire-tries", "9"), ("x-y", "1")],
            &[("long", &long)],
            &[("huge", &huge), ("ack", "no")],
        ];
        for dialect in ["hivewire", "rabbitmq", "activemq"] {
            for pairs in cases {
                let headers = Headers::from_pairs(pairs.iter().copied()).unwrap();
                let (delivery, _) = round_trip(dialect, &headers, 3);
                assert_eq!(delivery.tries, 3);
                assert!(delivery.redelivered);
                let id = headers.get(MESSAGE_ID).unwrap_or("abc-17");
                assert_eq!(delivery.message_id(), Some(id));
            }
        }
    }

    #[test]
    fn other_clients_find_headers_where_they_expect_them() {
        let headers = Headers::from_pairs([("colour", "red"), ("message-id", "7")]).unwrap();
        for dialect in ["hivewire", "rabbitmq", "activemq"] {
            let (_, bytes) = round_trip(dialect, &headers, 0);
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains("\ncolour:red\n"), "{text}");
            assert!(text.contains("\nhivewire-message-id:7\n"), "{text}");
            assert!(!text.contains(STORED), "{text}");
        }
    }

    #[test]
    fn the_id_of_a_commit_stands_where_it_costs_the_server_least() {
        let headers = Headers::from_pairs([("message-id", "hw:b.1.2.3")]).unwrap();
        for (dialect, name) in [
            ("hivewire", "hivewire-message-id"),
            ("rabbitmq", "amqp-message-id"),
            ("activemq", "hivewire-message-id"),
        ] {
            let (_, bytes) = round_trip(dialect, &headers, 0);
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains(&format!("\n{name}:hw\\cb.1.2.3\n")), "{text}");
        }
    }

    #[test]
    fn what_the_server_writes_on_a_dead_letter_counts() {
        let stored = Headers::from_pairs([("a", "1"), ("dead-reason", "old")]).unwrap();
        let native = Headers::from_pairs([("dead-reason", "new"), ("b", "2")]).unwrap();
        let headers = with_death(stored.clone(), &native);
        assert_eq!(headers.get("dead-reason"), Some("new"));
        assert_eq!(headers.get("b"), None);
        assert_eq!(with_death(stored.clone(), &Headers::new()), stored);
    }
}
