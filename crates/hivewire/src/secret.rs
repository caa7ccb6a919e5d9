//! Text that must not be seen.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;

/// A secret. It can be compared and shown on purpose, but never by formatting something around it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a text as a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Whoever calls this must keep it out of logs and errors.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the secret, in a time that does not tell how much of it was right.
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// What is written out may be read by anybody, so it is not the secret.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_and_never_formatted() {
        let secret = Secret::new("tell nobody");
        assert!(secret.is(b"tell nobody"));
        assert!(!secret.is(b"tell nobodY") && !secret.is(b"") && !secret.is(b"tell nobody!"));
        assert!(!format!("{secret:?}").contains("tell"));
        assert!(!serde_json::to_string(&secret).unwrap().contains("tell"));
        let read: Secret = serde_json::from_str("\"tell nobody\"").unwrap();
        assert!(read.is(b"tell nobody"));
    }
}
