//! What the broker writes into the journal: each record is a list of operations that hold
//! together or not at all.
//!
//! All numbers are little-endian. A message is known by its queue's name and its id, so a record
//! that is written again at another position means the same message.

use bytes::Bytes;
use kernel::{Headers, Message, Name, Timestamp};

const PUBLISH: u8 = 1;
const SETTLE: u8 = 2;
const TRIES: u8 = 3;
const STATE_SET: u8 = 4;
const STATE_REMOVE: u8 = 5;
const EPOCH: u8 = 6;
const STATE_MOVED: u8 = 7;

/// How much of other things a message read from a record may keep in memory.
const SHARED_BYTES_MAX: usize = 512;

/// One operation, read in place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    /// A message entered a queue.
    Publish(StoredMessage<'a>),
    /// These messages of a queue are done.
    Settle { queue: &'a str, ids: Ids<'a> },
    /// A message was tried without success this many times.
    Tries { queue: &'a str, id: u64, tries: u32 },
    /// A key of a bucket has a new value.
    StateSet {
        bucket: &'a str,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// A key of a bucket is gone.
    StateRemove { bucket: &'a str, key: &'a [u8] },
    /// A bucket has a new owner.
    Epoch { bucket: &'a str, epoch: u64 },
    /// State was moved into a store on disk, so many times.
    StateMoved { store: u64, generation: u64 },
}

/// A message as it stands in a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage<'a> {
    pub queue: &'a str,
    pub id: u64,
    /// Whether it is to survive a restart; what was only moved out of memory is not.
    pub durable: bool,
    pub tries: u32,
    pub published_at: Timestamp,
    pub headers: &'a [u8],
    pub body: &'a [u8],
}

impl StoredMessage<'_> {
    /// The message, as slices of the record that `self` was read from.
    pub(crate) fn to_message(&self, record: &Bytes) -> Option<Message> {
        // A small message must not keep a large record, with many others in it, in memory.
        let is_alone = record.len() <= 2 * self.len_bytes() + SHARED_BYTES_MAX;
        let part = |bytes| match is_alone {
            true => record.slice_ref(bytes),
            false => Bytes::copy_from_slice(bytes),
        };
        let headers = Headers::from_encoded(part(self.headers)).ok()?;
        let body = part(self.body);
        Some(
            Message::new(body)
                .with_headers(headers)
                .published_at(self.published_at),
        )
    }

    /// Bytes that the message counts for.
    pub(crate) fn len_bytes(&self) -> usize {
        self.headers.len() + self.body.len()
    }
}

/// Ids in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids<'a>(&'a [u8]);

impl Iterator for Ids<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }
}

/// Writes operations one after another into a record.
pub(crate) struct RecordWriter<'a>(pub &'a mut Vec<u8>);

impl RecordWriter<'_> {
    pub(crate) fn publish(
        &mut self,
        queue: &Name,
        id: u64,
        durable: bool,
        tries: u32,
        message: &Message,
    ) {
        let headers = message.headers.as_encoded();
        self.0.push(PUBLISH);
        self.0.push(u8::from(durable));
        self.name(queue);
        self.0.extend_from_slice(&id.to_le_bytes());
        self.0.extend_from_slice(&tries.to_le_bytes());
        self.0
            .extend_from_slice(&message.published_at.as_micros().to_le_bytes());
        self.bytes(headers);
        self.bytes(&message.body);
    }

    pub(crate) fn settle(&mut self, queue: &Name, ids: impl ExactSizeIterator<Item = u64>) {
        self.0.push(SETTLE);
        self.name(queue);
        self.0
            .extend_from_slice(&(ids.len() as u32 * 8).to_le_bytes());
        for id in ids {
            self.0.extend_from_slice(&id.to_le_bytes());
        }
    }

    pub(crate) fn tries(&mut self, queue: &Name, id: u64, tries: u32) {
        self.0.push(TRIES);
        self.name(queue);
        self.0.extend_from_slice(&id.to_le_bytes());
        self.0.extend_from_slice(&tries.to_le_bytes());
    }

    pub(crate) fn state_set(&mut self, bucket: &Name, key: &[u8], value: &[u8]) {
        self.0.push(STATE_SET);
        self.name(bucket);
        self.bytes(key);
        self.bytes(value);
    }

    pub(crate) fn state_remove(&mut self, bucket: &Name, key: &[u8]) {
        self.0.push(STATE_REMOVE);
        self.name(bucket);
        self.bytes(key);
    }

    pub(crate) fn epoch(&mut self, bucket: &Name, epoch: u64) {
        self.0.push(EPOCH);
        self.name(bucket);
        self.0.extend_from_slice(&epoch.to_le_bytes());
    }

    pub(crate) fn state_moved(&mut self, store: u64, generation: u64) {
        self.0.push(STATE_MOVED);
        self.0.extend_from_slice(&store.to_le_bytes());
        self.0.extend_from_slice(&generation.to_le_bytes());
    }

    fn name(&mut self, name: &Name) {
        let text = name.as_str().as_bytes();
        self.0.push(text.len() as u8);
        self.0.extend_from_slice(text);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

/// Bytes that a published message takes in a record, at most.
pub(crate) fn publish_bytes(queue: &Name, message: &Message) -> usize {
    32 + queue.as_str().len() + message.len_bytes()
}

/// Reads the operations of a record; ends early with `None` inside if one is not understood.
pub(crate) fn read_ops(record: &[u8]) -> impl Iterator<Item = Option<Op<'_>>> {
    let mut rest = Reader(record);
    let mut broken = false;
    std::iter::from_fn(move || {
        if rest.0.is_empty() || broken {
            return None;
        }
        let op = rest.op();
        broken = op.is_none();
        Some(op)
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn op(&mut self) -> Option<Op<'a>> {
        match self.byte()? {
            PUBLISH => self.publish(),
            SETTLE => Some(Op::Settle {
                queue: self.name()?,
                ids: Ids(self.bytes()?),
            }),
            TRIES => Some(Op::Tries {
                queue: self.name()?,
                id: self.u64()?,
                tries: self.u32()?,
            }),
            STATE_SET => Some(Op::StateSet {
                bucket: self.name()?,
                key: self.bytes()?,
                value: self.bytes()?,
            }),
            STATE_REMOVE => Some(Op::StateRemove {
                bucket: self.name()?,
                key: self.bytes()?,
            }),
            EPOCH => Some(Op::Epoch {
                bucket: self.name()?,
                epoch: self.u64()?,
            }),
            STATE_MOVED => Some(Op::StateMoved {
                store: self.u64()?,
                generation: self.u64()?,
            }),
            _ => None,
        }
    }

    fn publish(&mut self) -> Option<Op<'a>> {
        Some(Op::Publish(StoredMessage {
            durable: self.byte()? == 1,
            queue: self.name()?,
            id: self.u64()?,
            tries: self.u32()?,
            published_at: Timestamp::from_micros(self.u64()?),
            headers: self.bytes()?,
            body: self.bytes()?,
        }))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn name(&mut self) -> Option<&'a str> {
        let length = self.byte()? as usize;
        str::from_utf8(self.take(length)?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let name = Name::new("orders").unwrap();
        let headers = Headers::from_pairs([("a", "b")]).unwrap();
        let message = Message::new("body")
            .with_headers(headers)
            .published_at(Timestamp::from_micros(7));
        let mut record = Vec::new();
        let mut writer = RecordWriter(&mut record);
        writer.publish(&name, 3, true, 2, &message);
        writer.settle(&name, [1, 2].into_iter());
        writer.tries(&name, 3, 9);
        writer.state_set(&name, b"key", b"value");
        writer.state_remove(&name, b"key");
        writer.epoch(&name, 5);
        writer.state_moved(8, 9);
        record
    }

    #[test]
    fn operations_come_back_as_written() {
        let record = Bytes::from(sample());
        let ops: Vec<_> = read_ops(&record).map(Option::unwrap).collect();
        assert_eq!(ops.len(), 7);
        let Op::Publish(stored) = &ops[0] else {
            panic!("{:?}", ops[0])
        };
        let message = stored.to_message(&record).unwrap();
        assert_eq!(&message.body[..], b"body");
        assert_eq!(message.headers.get("a"), Some("b"));
        assert_eq!((stored.id, stored.tries, stored.durable), (3, 2, true));
        let Op::Settle { ids, .. } = &ops[1] else {
            panic!("{:?}", ops[1])
        };
        assert_eq!(ids.clone().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            ops[5],
            Op::Epoch {
                bucket: "orders",
                epoch: 5
            }
        );
        let (store, generation) = (8, 9);
        assert_eq!(ops[6], Op::StateMoved { store, generation });
    }

    #[test]
    fn a_cut_record_is_never_read_as_whole() {
        let record = sample();
        let whole = read_ops(&record).count();
        for cut in 1..record.len() {
            let ops: Vec<_> = read_ops(&record[..cut]).collect();
            assert!(
                ops.len() < whole || ops.last().unwrap().is_none(),
                "cut at {cut}"
            );
        }
    }
}
