//! Events: what flows between the native stages of a flow, without bytes.
//!
//! An [`Event`] is immutable JSON. Its parts are the very values that expressions work on, so looking at a
//! field, evaluating an expression and finding a key convert nothing.
//!
//! ```
//! use flows::Event;
//! use kernel::worker::Value;
//!
//! let event = Event::parse(br#"{"word": "hive", "n": 2}"#)?;
//! assert_eq!(event.data().get("word").and_then(|word| word.as_text()), Some("hive"));
//! // Names are sorted, so equal events have equal bodies.
//! assert_eq!(&event.encode()[..], br#"{"n":2,"word":"hive"}"#);
//! # Ok::<(), flows::EventError>(())
//! ```

mod data;
mod json;
mod values;

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use kernel::limits::BODY_BYTES_MAX;
use kernel::worker::{Failure, Incoming, KeyAt, Value};

pub use data::{Data, List, Record, Text};
pub(crate) use values::data_of;

/// How deep an event may be nested. Readers of JSON that are common follow 127 levels; what plug-ins put around
/// an event has to fit as well.
pub const EVENT_DEPTH_MAX: usize = 100;

/// An immutable event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    data: Data,
    /// About as many bytes as its body has.
    len_bytes: usize,
}

/// Why a body is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It is neither JSON nor text.
    #[error(
        "the body is neither JSON nor text: byte {at} is not UTF-8; send JSON or text, or handle it in a component"
    )]
    NotText {
        /// The first byte that is wrong.
        at: usize,
    },
    /// It is too large.
    #[error("an event has at most {BODY_BYTES_MAX} bytes, this one has {bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is nested too deep.
    #[error("an event is nested at most {EVENT_DEPTH_MAX} levels deep, this one is deeper")]
    TooDeep,
    /// It holds a number that JSON cannot write.
    #[error("{number} is no number that JSON can write")]
    NotFinite {
        /// The number.
        number: String,
    },
}

impl Event {
    /// An event that holds this.
    pub fn new(data: Data) -> Self {
        let len_bytes = data.len_bytes();
        Self { data, len_bytes }
    }

    /// Reads a body: JSON, or else text, which becomes a string.
    pub fn parse(body: &[u8]) -> Result<Self, EventError> {
        let data = json::parse(body)?;
        Ok(Self {
            data,
            len_bytes: body.len(),
        })
    }

    /// What it holds.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// What it holds, without copying if nobody else has the event.
    pub fn into_data(event: Arc<Self>) -> Data {
        match Arc::try_unwrap(event) {
            Ok(event) => event.data,
            Err(event) => event.data.clone(),
        }
    }

    /// The event in a message, shared if it came as one.
    pub fn of(message: &Incoming) -> Result<Arc<Self>, Failure> {
        if let Some(value) = &message.value {
            let value: Arc<dyn Any + Send + Sync> = value.clone();
            if let Ok(event) = value.downcast() {
                return Ok(event);
            }
        }
        let event = match &message.value {
            Some(value) => Self::parse(&value.encode()),
            None => Self::parse(&message.message.body),
        };
        Ok(Arc::new(event?))
    }
}

impl From<Data> for Event {
    fn from(data: Data) -> Self {
        Self::new(data)
    }
}

impl Value for Event {
    fn encode(&self) -> Bytes {
        let mut body = Vec::with_capacity(self.len_bytes);
        json::write(&self.data, &mut body);
        body.into()
    }

    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn key_at(&self, pointer: &[Box<str>]) -> KeyAt<'_> {
        let mut at = &self.data;
        for part in pointer {
            let next = match at {
                Data::Record(record) => record.get(part),
                Data::List(list) => json::index(part).and_then(|index| list.get(index)),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => return KeyAt::Nothing,
            }
        }
        match at {
            Data::Null => KeyAt::Nothing,
            other => KeyAt::Text(other.key_text()),
        }
    }
}

impl Data {
    /// As a key: a string is its own text, everything else its canonical JSON.
    pub fn key_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.inner()),
            Self::Bool(value) => Cow::Borrowed(if *value.inner() { "true" } else { "false" }),
            other => Cow::Owned(json::canonical(other)),
        }
    }
}

#[cfg(test)]
mod tests;
