use std::borrow::Cow;

use crate::Message;
use crate::bindings::worker::hivewire::worker::types;

/// Longer bodies are not worth another copy.
const SHORT_BYTES_MAX: usize = 1_024;

/// A message on its way out. Text and bytes become one by themselves; this adds headers:
///
/// ```
/// use hivewire_sdk::Outgoing;
///
/// let message = Outgoing::new("12.50").header("currency", "EUR");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Outgoing<'a> {
    body: Cow<'a, [u8]>,
    headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Outgoing<'a> {
    /// A message with this body.
    pub fn new(body: impl Into<Outgoing<'a>>) -> Self {
        body.into()
    }

    /// The same message with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body, if there is nothing else and it is not long.
    pub(crate) fn short_body(&self) -> Option<&[u8]> {
        (self.headers.is_empty() && self.body.len() <= SHORT_BYTES_MAX).then_some(&*self.body)
    }

    /// Lends it to the host.
    pub(crate) fn lend<T>(&self, to: impl FnOnce(types::Outgoing<'_>) -> T) -> T {
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        to(types::Outgoing {
            body: &self.body,
            headers: &headers,
        })
    }
}

/// Body and headers, to send a message on as it came.
impl<'a> From<&'a Message> for Outgoing<'a> {
    fn from(message: &'a Message) -> Self {
        let headers = message.headers.iter();
        Self {
            body: Cow::Borrowed(&message.body),
            headers: headers
                .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
                .collect(),
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Outgoing<'a> {
    fn from(body: Cow<'a, [u8]>) -> Self {
        Self {
            body,
            headers: Vec::new(),
        }
    }
}

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    fn from(body: &'a [u8]) -> Self {
        Cow::Borrowed(body).into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Outgoing<'a> {
    fn from(body: &'a [u8; N]) -> Self {
        body.as_slice().into()
    }
}

impl<'a> From<&'a str> for Outgoing<'a> {
    fn from(body: &'a str) -> Self {
        body.as_bytes().into()
    }
}

impl<'a> From<&'a Vec<u8>> for Outgoing<'a> {
    fn from(body: &'a Vec<u8>) -> Self {
        body.as_slice().into()
    }
}

impl<'a> From<&'a String> for Outgoing<'a> {
    fn from(body: &'a String) -> Self {
        body.as_bytes().into()
    }
}

impl From<Vec<u8>> for Outgoing<'_> {
    fn from(body: Vec<u8>) -> Self {
        Cow::<[u8]>::Owned(body).into()
    }
}

impl From<String> for Outgoing<'_> {
    fn from(body: String) -> Self {
        body.into_bytes().into()
    }
}
