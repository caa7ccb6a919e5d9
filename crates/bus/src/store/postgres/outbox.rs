//! The outbox of a commit as one value: one row, however many messages.

use bytes::{Buf, BufMut, Bytes};
use kernel::{Destination, Headers, Message, Name, Timestamp};

use crate::store::OutboxEntry;

/// Begins every value; a later form would have another one.
const FORM: u8 = 1;

const QUEUE: u8 = 0;
const TOPIC: u8 = 1;

/// What the length of everything but name, headers and body takes.
const FIXED_BYTES: usize = 1 + 2 + 4 + 8 + 4;

/// The value of these entries.
pub(super) fn encode(entries: &[OutboxEntry]) -> Vec<u8> {
    let one = |e: &OutboxEntry| FIXED_BYTES + e.to.name().as_str().len() + e.message.len_bytes();
    let mut value = Vec::with_capacity(1 + entries.iter().map(one).sum::<usize>());
    value.put_u8(FORM);
    for OutboxEntry { to, message } in entries {
        value.put_u8(match to {
            Destination::Queue(_) => QUEUE,
            Destination::Topic(_) => TOPIC,
        });
        let name = to.name().as_str().as_bytes();
        value.put_u16(name.len() as u16);
        value.put_slice(name);
        value.put_u32(message.headers.len_bytes() as u32);
        value.put_slice(message.headers.as_encoded());
        value.put_u64(message.published_at.as_micros());
        value.put_u32(message.body.len() as u32);
        value.put_slice(&message.body);
    }
    value
}

/// The entries of a value; none if it is damaged or of another form.
pub(super) fn decode(mut value: Bytes) -> Option<Vec<OutboxEntry>> {
    if value.try_get_u8().ok()? != FORM {
        return None;
    }
    let mut entries = Vec::new();
    while value.has_remaining() {
        let kind = value.try_get_u8().ok()?;
        let name_bytes = value.try_get_u16().ok()?;
        let name = take(&mut value, usize::from(name_bytes))?;
        let name = Name::new(str::from_utf8(&name).ok()?).ok()?;
        let headers_bytes = value.try_get_u32().ok()?;
        let headers = Headers::from_encoded(take(&mut value, headers_bytes as usize)?).ok()?;
        let published_at = Timestamp::from_micros(value.try_get_u64().ok()?);
        let body_bytes = value.try_get_u32().ok()?;
        let body = take(&mut value, body_bytes as usize)?;
        let to = match kind {
            QUEUE => Destination::Queue(name),
            TOPIC => Destination::Topic(name),
            _ => return None,
        };
        let message = Message {
            headers,
            body,
            published_at,
        };
        entries.push(OutboxEntry { to, message });
    }
    Some(entries)
}

fn take(value: &mut Bytes, bytes: usize) -> Option<Bytes> {
    (value.remaining() >= bytes).then(|| value.split_to(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_damage_is_noticed() {
        let name = |text| Name::new(text).unwrap();
        let headers = Headers::from_pairs([("a", "1"), ("a", "2")]).unwrap();
        let entries = vec![
            OutboxEntry {
                to: Destination::Queue(name("orders")),
                message: Message::new(vec![0, 255]).with_headers(headers),
            },
            OutboxEntry {
                to: Destination::Topic(name("news")),
                message: Message::new("").published_at(Timestamp::from_micros(7)),
            },
        ];
        let value = encode(&entries);
        assert_eq!(decode(value.clone().into()), Some(entries));
        assert_eq!(decode(encode(&[]).into()), Some(vec![]));
        let half = Bytes::copy_from_slice(&value[..value.len() - 1]);
        assert_eq!(decode(half), None);
        let mut other = value;
        other[0] = 9;
        assert_eq!(decode(other.into()), None);
        assert_eq!(decode(Bytes::new()), None);
    }
}
