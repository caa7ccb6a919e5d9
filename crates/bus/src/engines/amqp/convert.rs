//! Messages to AMQP properties and back, without loss.
//!
//! Headers become AMQP headers and the properties of the same meaning, so that other clients of the
//! server read them. AMQP keeps neither the order nor doubles; headers that would come out
//! otherwise travel in their stored form as well. The id that a commit gave to what it sends is a
//! property and nothing else: it is on every message between stages, and a table costs the server
//! time.

use bytes::Bytes;
use kernel::{Headers, HeadersBuilder, Message, Timestamp};
use lapin::BasicProperties;
use lapin::message::Delivery as Arrived;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::delivery::{Delivery, MESSAGE_ID, Receipt};
use crate::store::MessageId;

/// Written to disk where the queue allows it.
const PERSISTENT: u8 = 2;

/// Headers of ours, which never reach a receiver.
const STORED_HEADERS: &str = "hivewire-headers";
const TRIES: &str = "hivewire-tries";
const PUBLISHED_AT: &str = "hivewire-published-at";

/// Headers larger than this travel in their stored form only: all of them have to fit into one
/// frame.
const NATIVE_HEADERS_BYTES_MAX: usize = 16 * 1024;

const CONTENT_TYPE: &str = "content-type";
const CORRELATION_ID: &str = "correlation-id";

/// The properties of a message that was tried that often.
pub(super) fn to_properties(message: &Message, id: &str, tries: u32) -> BasicProperties {
    let mut properties = native(&message.headers);
    if let Ok(id) = ShortString::try_new(id) {
        properties = properties.with_message_id(id);
    }
    let mut table = match properties.headers() {
        Some(table) => table.clone(),
        None => FieldTable::default(),
    };
    if from_native(&properties) != message.headers {
        let stored = AMQPValue::LongString(message.headers.as_encoded().to_vec().into());
        table.insert(STORED_HEADERS.into(), stored);
    }
    if tries > 0 {
        table.insert(TRIES.into(), AMQPValue::LongLongInt(i64::from(tries)));
    }
    if message.published_at != Timestamp::default() {
        let micros = message.published_at.as_micros() as i64;
        table.insert(PUBLISHED_AT.into(), AMQPValue::LongLongInt(micros));
    }
    if !table.inner().is_empty() {
        properties = properties.with_headers(table);
    }
    properties.with_delivery_mode(PERSISTENT)
}

/// Headers as other clients expect them, as far as AMQP can hold them.
fn native(headers: &Headers) -> BasicProperties {
    let mut properties = BasicProperties::default();
    if headers.len_bytes() > NATIVE_HEADERS_BYTES_MAX {
        return properties;
    }
    let mut table = FieldTable::default();
    for (name, value) in headers.iter() {
        let short = ShortString::try_new(value);
        match (name, short) {
            (CONTENT_TYPE, Ok(value)) if properties.content_type().is_none() => {
                properties = properties.with_content_type(value);
            }
            (CORRELATION_ID, Ok(value)) if properties.correlation_id().is_none() => {
                properties = properties.with_correlation_id(value);
            }
            (Message::REPLY_TO, Ok(value)) if properties.reply_to().is_none() => {
                properties = properties.with_reply_to(value);
            }
            // It is the property already.
            (MESSAGE_ID, Ok(_)) if MessageId::is_of_commit(value) => {}
            _ => {
                if let Ok(name) = ShortString::try_new(name)
                    && !table.contains_key(name.as_str())
                {
                    table.insert(name, AMQPValue::LongString(value.into()));
                }
            }
        }
    }
    if table.inner().is_empty() {
        return properties;
    }
    properties.with_headers(table)
}

fn from_native(properties: &BasicProperties) -> Headers {
    let mut builder = HeadersBuilder::default();
    let named = [
        (CONTENT_TYPE, properties.content_type()),
        (CORRELATION_ID, properties.correlation_id()),
        (Message::REPLY_TO, properties.reply_to()),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            push(&mut builder, name, value.as_str());
        }
    }
    for (name, value) in properties.headers().iter().flat_map(|table| table.inner()) {
        let name = name.as_str();
        if [STORED_HEADERS, TRIES, PUBLISHED_AT].contains(&name) {
            continue;
        }
        if let Some(text) = to_text(value) {
            push(&mut builder, name, &text);
        }
    }
    if let Some(id) = properties.message_id()
        && MessageId::is_of_commit(id.as_str())
    {
        push(&mut builder, MESSAGE_ID, id.as_str());
    }
    builder.build()
}

/// Headers of foreign senders can be more than we carry; the message matters more.
fn push(builder: &mut HeadersBuilder, name: &str, value: &str) {
    if let Err(error) = builder.push(name, value) {
        tracing::warn!(name, "a header is left out: {error}");
    }
}

fn to_text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::Float(value) => Some(value.to_string()),
        AMQPValue::Double(value) => Some(value.to_string()),
        other => to_integer(other).map(|integer| integer.to_string()),
    }
}

fn to_integer(value: &AMQPValue) -> Option<i64> {
    match value {
        AMQPValue::ShortShortInt(value) => Some(i64::from(*value)),
        AMQPValue::ShortShortUInt(value) => Some(i64::from(*value)),
        AMQPValue::ShortInt(value) => Some(i64::from(*value)),
        AMQPValue::ShortUInt(value) => Some(i64::from(*value)),
        AMQPValue::LongInt(value) => Some(i64::from(*value)),
        AMQPValue::LongUInt(value) => Some(i64::from(*value)),
        AMQPValue::LongLongInt(value) => Some(*value),
        _ => None,
    }
}

/// What arrived, as the contract wants it.
pub(super) fn to_delivery(arrived: Arrived, generation: u32) -> Delivery {
    let properties = arrived.properties;
    let ours = |name: &str| properties.headers().as_ref()?.inner().get(name);
    let stored = match ours(STORED_HEADERS) {
        Some(AMQPValue::LongString(bytes)) => {
            Headers::from_encoded(Bytes::copy_from_slice(bytes.as_bytes())).ok()
        }
        _ => None,
    };
    let number = |name| ours(name).and_then(to_integer);
    let tries = number(TRIES).map_or(0, |tries| u32::try_from(tries).unwrap_or(0));
    let seconds = || properties.timestamp().map(|s| s.saturating_mul(1_000_000));
    let micros = number(PUBLISHED_AT).map(|micros| micros as u64);
    Delivery {
        message: Message {
            headers: stored.unwrap_or_else(|| from_native(&properties)),
            body: arrived.data.into(),
            published_at: Timestamp::from_micros(micros.or_else(seconds).unwrap_or(0)),
        },
        receipt: Receipt {
            number: arrived.delivery_tag,
            generation,
        },
        tries,
        redelivered: arrived.redelivered || tries > 0,
        engine_id: properties
            .message_id()
            .as_ref()
            .map(|id| id.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(headers: Headers) -> (Delivery, BasicProperties) {
        let message = Message::new(vec![0, 255])
            .with_headers(headers)
            .published_at(Timestamp::from_micros(77));
        let id = message.headers.get(MESSAGE_ID).unwrap_or("an id");
        let properties = to_properties(&message, id, 3);
        let mut arrived = Arrived::mock(9, "".into(), "q".into(), false, vec![0, 255]);
        arrived.properties = properties.clone();
        let delivery = to_delivery(arrived, 4);
        assert_eq!(delivery.message, message);
        (delivery, properties)
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let long = "x".repeat(300);
        let many = "y".repeat(60_000);
        let cases: [&[(&str, &str)]; 11] = [
            &[],
            &[("message-id", "mine"), ("z", "1")],
            &[("a", "1"), ("message-id", "hw:b.1.2.3")],
            &[("message-id", "hw:b.1.2.3"), ("a", "1")],
            &[("message-id", "hw:b.1.2.3"), ("message-id", "hw:b.1.2.4")],
            &[("a", "1"), ("b", "2")],
            &[("b", "2"), ("a", "1")],
            &[("a", "1"), ("a", "2")],
            &[
                ("reply-to", "/queue/answers"),
                ("content-type", "text/plain"),
            ],
            &[(&long, &long), ("reply-to", &long), ("hivewire-tries", "9")],
            &[("a", &many)],
        ];
        for pairs in cases {
            let headers = Headers::from_pairs(pairs.iter().copied()).unwrap();
            let (delivery, _) = round_trip(headers.clone());
            assert_eq!(delivery.tries, 3);
            assert!(delivery.redelivered);
            let id = headers.get(MESSAGE_ID).unwrap_or("an id");
            assert_eq!(delivery.message_id(), Some(id));
        }
    }

    #[test]
    fn the_id_of_a_commit_is_a_property_alone() {
        let headers = Headers::from_pairs([(MESSAGE_ID, "hw:b.1.2.3")]).unwrap();
        let message = Message::new("x").with_headers(headers);
        let properties = to_properties(&message, "hw:b.1.2.3", 0);
        assert_eq!(properties.message_id(), &Some("hw:b.1.2.3".into()));
        assert_eq!(properties.headers(), &None);
        // A message that had no such header gets none.
        let properties = to_properties(&Message::new("x"), "hw:b.1.2.3", 0);
        let table = properties.headers().clone().unwrap();
        assert!(table.contains_key(STORED_HEADERS));
    }

    #[test]
    fn other_clients_find_headers_where_they_expect_them() {
        let headers = Headers::from_pairs([("reply-to", "answers"), ("colour", "red")]).unwrap();
        let (_, properties) = round_trip(headers);
        assert_eq!(properties.reply_to(), &Some("answers".into()));
        let table = properties.headers().clone().unwrap();
        let red = AMQPValue::LongString("red".into());
        assert_eq!(table.inner().get("colour"), Some(&red));
        assert!(!table.contains_key(STORED_HEADERS));
    }
}
