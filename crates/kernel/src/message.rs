//! A message: headers and a body.

use bytes::Bytes;

use crate::{Headers, Timestamp};

/// What travels: a body of opaque bytes with headers beside it. Cloning shares both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Text beside the body: content type, reply address, whatever the sender added.
    pub headers: Headers,
    /// The content, which nobody but sender and receiver looks into.
    pub body: Bytes,
    /// When the broker took it in.
    pub published_at: Timestamp,
}

impl Message {
    /// A message without headers.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: body.into(),
            ..Self::default()
        }
    }

    /// The same message with these headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// The same message, taken in at this time.
    #[must_use]
    pub fn published_at(mut self, at: Timestamp) -> Self {
        self.published_at = at;
        self
    }

    /// Bytes that it counts for against limits: body and headers.
    pub fn len_bytes(&self) -> usize {
        self.body.len() + self.headers.len_bytes()
    }
}

/// Names of headers that have a meaning of their own in Hivewire, whatever the protocol.
impl Message {
    /// Where the receiver should send its answer.
    pub const REPLY_TO: &'static str = "reply-to";
    /// Tells the sender of a question which question an answer belongs to.
    pub const CORRELATION_ID: &'static str = "correlation-id";
    /// The queue that a dead letter came from.
    pub const DEAD_QUEUE: &'static str = "dead-queue";
    /// The topic that a dead letter came from.
    pub const DEAD_TOPIC: &'static str = "dead-topic";
    /// Why a message became a dead letter.
    pub const DEAD_REASON: &'static str = "dead-reason";
    /// How often a dead letter had been tried.
    pub const DEAD_TRIES: &'static str = "dead-tries";
    /// When a message became a dead letter, in milliseconds since 1970.
    pub const DEAD_AT: &'static str = "dead-at";
}
