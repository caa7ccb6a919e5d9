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
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use kernel::limits::BODY_BYTES_MAX;
use kernel::worker::{Failure, Incoming, KeyAt, Value};

pub use data::{Data, List, Record, Text};
pub(crate) use values::data_of;

/// How deep an event may be nested. Readers of JSON that are common follow 127 levels; what plug-ins put around
/// an event has to fit as well.
pub const EVENT_DEPTH_MAX: usize = 100;

/// An immutable event.
#[derive(Clone, Debug)]
pub struct Event {
    data: Data,
    /// About as many bytes as its body has.
    len_bytes: usize,
    /// What few events have.
    more: Option<Box<More>>,
}

/// What an event may have besides its data.
#[derive(Clone, Debug, Default)]
struct More {
    body: Option<Bytes>,
    hold: Option<Hold>,
}

/// Something that is to know when all events are gone that were made because of it, by being dropped with the last of them.
#[derive(Clone)]
pub struct Hold(Arc<dyn Any + Send + Sync>);

impl Hold {
    /// Holds this.
    pub fn new<T: Any + Send + Sync>(held: Arc<T>) -> Self {
        Self(held)
    }

    /// What is held, if it is of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone().downcast().ok()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

/// The field that bytes beside the data have in JSON.
const BODY_BASE64: &str = "body_base64";

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
        Self {
            data,
            len_bytes,
            more: None,
        }
    }

    /// The same with bytes beside its data, which expressions do not see. In JSON they are the field `body_base64`.
    #[must_use]
    pub fn with_body(mut self, body: Bytes) -> Self {
        let before = self.attached().map_or(0, Bytes::len);
        self.len_bytes = self.len_bytes - before + body.len();
        self.more.get_or_insert_default().body = Some(body);
        self
    }

    /// The same with other data: body and hold stay.
    #[must_use]
    pub fn with_data(&self, data: Data) -> Self {
        Self {
            len_bytes: data.len_bytes() + self.attached().map_or(0, Bytes::len),
            data,
            more: self.more.clone(),
        }
    }

    /// The same, held by the same as another one. Whoever makes events because of others passes that on: when the last
    /// of them is gone, what began all of them is dealt with.
    #[must_use]
    pub fn held_like(mut self, cause: &Self) -> Self {
        if let Some(hold) = cause.hold() {
            self.more.get_or_insert_default().hold = Some(hold.clone());
        }
        self
    }

    /// The same, held by this.
    #[must_use]
    pub fn held_by(mut self, hold: Hold) -> Self {
        self.more.get_or_insert_default().hold = Some(hold);
        self
    }

    /// What is to know when all events are gone that were made because of it.
    pub fn hold(&self) -> Option<&Hold> {
        self.more.as_ref()?.hold.as_ref()
    }

    /// The bytes beside its data, also if it came as JSON.
    pub fn body(&self) -> Option<Bytes> {
        if let Some(body) = self.attached() {
            return Some(body.clone());
        }
        let text = self.data.get(BODY_BASE64)?.as_text()?;
        BASE64.decode(text).ok().map(Bytes::from)
    }

    fn attached(&self) -> Option<&Bytes> {
        self.more.as_ref()?.body.as_ref()
    }

    /// Reads a body: JSON, or else text, which becomes a string.
    pub fn parse(body: &[u8]) -> Result<Self, EventError> {
        let data = json::parse(body)?;
        Ok(Self {
            data,
            len_bytes: body.len(),
            more: None,
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

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data && self.attached() == other.attached()
    }
}

impl From<Data> for Event {
    fn from(data: Data) -> Self {
        Self::new(data)
    }
}

impl Value for Event {
    fn encode(&self) -> Bytes {
        let mut json = Vec::with_capacity(self.len_bytes);
        match (&self.data, self.attached()) {
            (Data::Record(record), Some(body)) => {
                let mut whole = record.clone();
                whole.set(BODY_BASE64, BASE64.encode(body).into());
                json::write(&whole.into(), &mut json);
            }
            (data, _) => json::write(data, &mut json),
        }
        json.into()
    }

    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn key_at(&self, pointer: &[Box<str>]) -> KeyAt<'_> {
        if pointer.first().is_some_and(|part| **part == *BODY_BASE64) {
            return KeyAt::Unknown;
        }
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
