//! One subscriber of a queue or topic: what it may still get, and what it has not acknowledged.

use super::unacked::Unacked;
use crate::delivery::{AckMode, Delivery, Entry, Sink};

/// How much a subscriber takes before it must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// How many messages may be unacknowledged; with [`AckMode::Auto`], unsent.
    pub messages: u32,
    /// How many bytes may wait to be sent; the message that passes it is still let through.
    pub unsent_bytes: u32,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            messages: u32::MAX,
            unsent_bytes: 512 * 1024,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Subscriber<S> {
    /// The session's number of the subscription, which stands on each delivery.
    pub token: u32,
    pub mode: AckMode,
    messages_left: u32,
    bytes_left: i64,
    pub unacked: Unacked,
    /// Deliveries of an `Auto` subscriber that are not yet written.
    pub unsent: usize,
    /// Whether it stands in the line of those to serve.
    pub in_line: bool,
    /// Its queue was closed: it gets nothing more, and what it had no longer counts.
    expelled: bool,
    /// Bytes of what it has: unacknowledged or, with `Auto`, unsent.
    held_bytes: usize,
    /// Beyond it nothing more is delivered: this is memory that only the subscriber can free.
    held_bytes_max: usize,
    sink: S,
}

impl<S: Sink> Subscriber<S> {
    pub fn new(token: u32, mode: AckMode, credit: Credit, held_bytes_max: usize, sink: S) -> Self {
        Self {
            token,
            mode,
            messages_left: credit.messages,
            bytes_left: i64::from(credit.unsent_bytes),
            unacked: Unacked::default(),
            unsent: 0,
            in_line: false,
            expelled: false,
            held_bytes: 0,
            held_bytes_max: held_bytes_max.max(1),
            sink,
        }
    }

    pub fn has_credit(&self) -> bool {
        let is_allowed = self.messages_left > 0 && self.bytes_left > 0;
        is_allowed && self.held_bytes < self.held_bytes_max && !self.expelled
    }

    pub fn is_expelled(&self) -> bool {
        self.expelled
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Ends service for good; gives what was unacknowledged or, with `Auto`, what `unsent` gets
    /// out of the sink.
    pub fn expel(&mut self, unsent: impl FnOnce(u32, &S) -> Vec<Entry>) -> Vec<Entry> {
        self.expelled = true;
        self.in_line = false;
        self.unsent = 0;
        self.held_bytes = 0;
        let in_sink = unsent(self.token, &self.sink);
        match self.mode {
            AckMode::Auto => in_sink,
            AckMode::Client | AckMode::Individual => {
                std::mem::take(&mut self.unacked).into_entries()
            }
        }
    }

    /// Delivers up to `limit` entries that `next` gives, as far as the credit goes.
    pub fn serve(&mut self, limit: usize, mut next: impl FnMut() -> Option<Entry>) -> usize {
        let mut count = 0;
        let Self {
            token,
            mode,
            messages_left,
            bytes_left,
            unacked,
            unsent,
            held_bytes,
            held_bytes_max,
            sink,
            ..
        } = self;
        sink.fill(|deliveries| {
            while count < limit
                && *messages_left > 0
                && *bytes_left > 0
                && held_bytes < held_bytes_max
            {
                let Some(entry) = next() else { break };
                let size_bytes = entry.size_bytes();
                *messages_left -= 1;
                *bytes_left -= size_bytes as i64;
                *held_bytes += size_bytes;
                match mode {
                    AckMode::Auto => *unsent += 1,
                    AckMode::Client | AckMode::Individual => unacked.push(entry.clone()),
                }
                deliveries.push(Delivery {
                    subscription: *token,
                    entry,
                });
                count += 1;
            }
        });
        count
    }

    /// These many deliveries left the outbox. Gives what that makes done: with `Auto`, all of it,
    /// as far as it was there.
    pub fn left_outbox(&mut self, messages: usize, bytes: usize) -> (usize, usize) {
        self.bytes_left += bytes as i64;
        if self.mode != AckMode::Auto {
            return (0, 0);
        }
        let messages = messages.min(self.unsent);
        let bytes = bytes.min(self.held_bytes);
        self.unsent -= messages;
        self.held_bytes -= bytes;
        self.return_messages(messages);
        (messages, bytes)
    }

    fn return_messages(&mut self, messages: usize) {
        self.messages_left = self.messages_left.saturating_add(messages as u32);
    }

    /// Takes out what an acknowledgement of `id` covers; nothing if it is not unacknowledged.
    pub fn take_unacked(&mut self, id: u64, through: bool, taken: &mut Vec<Entry>) {
        let before = taken.len();
        self.unacked.take(id, through, taken);
        let covered = &taken[before..];
        self.held_bytes -= covered.iter().map(Entry::size_bytes).sum::<usize>();
        self.return_messages(covered.len());
    }

    /// What an acknowledgement of `id` covers.
    pub fn covers(&self, id: u64, through: bool) -> impl Iterator<Item = &Entry> {
        self.unacked.covers(id, through)
    }
}
