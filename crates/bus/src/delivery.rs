//! What a subscriber gets, and how it answers.

use kernel::Message;

/// The header under which a sender gives a message an id of its own. An engine that has to repeat
/// a publish repeats it under the same id, so that receivers can tell.
pub const MESSAGE_ID: &str = "message-id";

/// The header under which an engine's own id travels over a broker that knows nothing of it.
pub(crate) const ENGINE_ID: &str = "hivewire-id";

/// A message in a subscriber's hands.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message as it was sent.
    pub message: Message,
    /// What to acknowledge or reject it by.
    pub receipt: Receipt,
    /// How often it was tried before without success.
    pub tries: u32,
    /// Whether somebody may have got it before.
    pub redelivered: bool,
    /// The id that the engine gave it, where the sender gave none.
    pub(crate) engine_id: Option<Box<str>>,
}

impl Delivery {
    /// The id under which the message was sent, and sent again if its publish was in doubt.
    pub fn message_id(&self) -> Option<&str> {
        let given = self.message.headers.get(MESSAGE_ID);
        let given = given.or(self.engine_id.as_deref());
        given.or_else(|| self.message.headers.get(ENGINE_ID))
    }
}

/// All of a delivery but its message, for those who hand the message on and settle it later.
#[derive(Clone, Debug)]
pub struct Tag {
    /// What to acknowledge it by.
    pub receipt: Receipt,
    /// How often it was tried before without success.
    pub tries: u32,
    /// Whether somebody may have got it before.
    pub redelivered: bool,
    engine_id: Option<Box<str>>,
}

impl Delivery {
    /// The message, and all that is needed to settle it.
    pub fn split(self) -> (Message, Tag) {
        let tag = Tag {
            receipt: self.receipt,
            tries: self.tries,
            redelivered: self.redelivered,
            engine_id: self.engine_id,
        };
        (self.message, tag)
    }
}

impl Tag {
    /// The delivery as it was, given its message.
    pub fn join(&self, message: Message) -> Delivery {
        Delivery {
            message,
            receipt: self.receipt,
            tries: self.tries,
            redelivered: self.redelivered,
            engine_id: self.engine_id.clone(),
        }
    }
}

/// Names one delivery to the subscription that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub(crate) number: u64,
    /// Numbers the connections of a subscription: what an older one delivered is no longer held.
    pub(crate) generation: u32,
}

/// How a subscriber turns a message down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Try again until the tries of the queue are used up; then to the dead letters.
    Retry {
        /// What went wrong, for the dead letters.
        reason: String,
    },
    /// Straight to the dead letters.
    Dead {
        /// What went wrong.
        reason: String,
    },
}

impl Reject {
    /// What went wrong.
    pub fn reason(&self) -> &str {
        match self {
            Self::Retry { reason } | Self::Dead { reason } => reason,
        }
    }
}
