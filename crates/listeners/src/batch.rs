//! Gathers the messages of one read into batches, one for each run of messages to the same place.
//!
//! Bodies are copied out of the read buffer into one piece of memory per batch. So a message that
//! waits long keeps alive only its own batch and not a whole read buffer, and the read buffer can be
//! used again at once.

use broker::{Channel, Publication, Published};
use bytes::Bytes;
use kernel::{Headers, Message, Timestamp};

struct Part {
    end: usize,
    headers: Headers,
    durable: bool,
}

/// Messages on their way to one queue or topic.
#[derive(Default)]
pub(crate) struct Batch {
    bodies: Vec<u8>,
    parts: Vec<Part>,
    publications: Vec<Publication>,
}

impl Batch {
    /// Adds a message; `more_bytes` says how much may still come, so that memory is taken once.
    pub fn push(&mut self, body: &[u8], headers: Headers, durable: bool, more_bytes: usize) {
        if self.bodies.is_empty() {
            self.bodies.reserve_exact(more_bytes.max(body.len()));
        }
        self.bodies.extend_from_slice(body);
        self.parts.push(Part {
            end: self.bodies.len(),
            headers,
            durable,
        });
    }

    pub fn len(&self) -> usize {
        self.parts.len() + self.publications.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Publishes what was gathered, in order. What was not accepted stays here.
    pub fn publish(&mut self, channel: &Channel, now: Timestamp) -> Published {
        let bodies = Bytes::from(std::mem::take(&mut self.bodies));
        let mut start = 0;
        for part in self.parts.drain(..) {
            let message = Message::new(bodies.slice(start..part.end))
                .with_headers(part.headers)
                .published_at(now);
            start = part.end;
            self.publications.push(Publication {
                message,
                durable: part.durable,
            });
        }
        drop(bodies);
        channel.publish(&mut self.publications)
    }

    /// Takes out the first message that was not accepted.
    pub fn drop_first(&mut self) {
        if !self.publications.is_empty() {
            self.publications.remove(0);
        }
    }
}
