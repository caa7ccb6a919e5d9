//! What reaches a worker.

use std::fmt;
use std::sync::Arc;

use super::Value;
use crate::Message;

/// Names one ask until its reply came or its time was up.
pub type Ticket = u64;

/// Takes an answer in this process.
pub trait Answer: Send + Sync {
    /// The answer. Only the first one counts.
    fn answer(&self, message: Message);

    /// An address under which the answer can be given later and from elsewhere in this process.
    fn address(self: Arc<Self>) -> String;
}

/// A message in a worker's hands.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message as it was sent.
    pub message: Message,
    /// What it holds instead of a body, if it never left the native workers of this process.
    pub value: Option<Arc<dyn Value>>,
    /// What it is about.
    pub kind: Kind,
    /// Where the answer goes.
    pub reply_to: ReplyTo,
    /// How often it was tried before without success.
    pub tries: u32,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody sent it.
    Message,
    /// It answers an ask.
    Reply(Ticket),
    /// No answer to an ask came in time.
    TimedOut(Ticket),
    /// A timer of this name went off; the body is what it was set with.
    Timer(Box<str>),
    /// A child of this name has ended; the body says why.
    ChildEnded(Box<str>),
    /// Somebody [woke](Wake) the worker, or it begins anew with timers that were set before and so may have been in the
    /// middle of something. It has no body, and several that come before the worker gets to them are one.
    Woken,
}

/// Wakes a worker from outside a turn, such as when work is done that the worker began in one.
pub trait Wake: Send + Sync {
    /// Brings one message of the kind [`Kind::Woken`] to the worker, unless one waits there already.
    fn wake(&self);
}

/// Where an answer goes.
#[derive(Clone)]
pub enum ReplyTo {
    /// To the address in the headers of the message, if there is one.
    Headers,
    /// To somebody who waits in this process.
    Waiting(Arc<dyn Answer>),
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Headers => "Headers",
            Self::Waiting(_) => "Waiting",
        })
    }
}

impl Incoming {
    /// A message that says nothing but that the worker was woken.
    pub fn woken() -> Self {
        Self {
            kind: Kind::Woken,
            ..Self::new(Message::default())
        }
    }

    /// A message that somebody sent.
    pub fn new(message: Message) -> Self {
        Self {
            message,
            value: None,
            kind: Kind::Message,
            reply_to: ReplyTo::Headers,
            tries: 0,
        }
    }

    /// The value that it holds, if it holds one of this type.
    pub fn value<T: Value>(&self) -> Option<&T> {
        self.value.as_ref()?.downcast_ref()
    }

    /// Turns the value, if it holds one, into a body.
    pub fn encode_value(&mut self) {
        if let Some(value) = self.value.take() {
            self.message.body = value.encode();
        }
    }

    /// Whether somebody waits for an answer.
    pub fn expects_reply(&self) -> bool {
        match self.reply_to {
            ReplyTo::Headers => self.message.headers.get(Message::REPLY_TO).is_some(),
            ReplyTo::Waiting(_) => true,
        }
    }

    /// The address for an answer, to be kept for later or handed to a third worker. The answer
    /// should carry the header [`Message::CORRELATION_ID`] of this message.
    pub fn reply_address(&self) -> Option<String> {
        match &self.reply_to {
            ReplyTo::Headers => self
                .message
                .headers
                .get(Message::REPLY_TO)
                .map(str::to_owned),
            ReplyTo::Waiting(answer) => Some(answer.clone().address()),
        }
    }
}
