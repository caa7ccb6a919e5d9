//! Headers of a message, kept in one buffer so that they cost one allocation, or none.

use std::fmt;

use bytes::{Buf, Bytes};

use crate::limits::{HEADER_NAME_BYTES_MAX, HEADERS_BYTES_MAX};

/// An ordered list of name–value pairs, both text. No headers at all need no memory.
///
/// They are stored one after another as: length of the name (2 bytes), length of the value
/// (4 bytes), name, value; all numbers little-endian.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Bytes);

const LENGTHS_BYTES: usize = 6;

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Bytes::new())
    }

    /// Headers from pairs, in their order.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, HeadersError> {
        let mut builder = HeadersBuilder::default();
        for (name, value) in pairs {
            builder.push(name, value)?;
        }
        Ok(builder.build())
    }

    /// Headers from their stored form, which is checked.
    pub fn from_encoded(encoded: Bytes) -> Result<Self, HeadersError> {
        if encoded.len() > HEADERS_BYTES_MAX {
            return Err(HeadersError::TooLarge {
                bytes: encoded.len(),
            });
        }
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            if split_first(&mut rest).is_none() {
                let offset = encoded.len() - rest.len();
                return Err(HeadersError::Malformed { offset });
            }
        }
        Ok(Self(encoded))
    }

    /// The stored form.
    pub fn as_encoded(&self) -> &[u8] {
        &self.0
    }

    /// Bytes that the headers take.
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// All pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || split_first(&mut rest))
    }

    /// The same headers with these added or, where the name is there already, changed.
    pub fn with<'a>(
        &'a self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, HeadersError> {
        let added: Vec<(&str, &str)> = pairs.into_iter().collect();
        let kept = self
            .iter()
            .filter(|(name, _)| added.iter().all(|(n, _)| n != name));
        Self::from_pairs(kept.chain(added.iter().copied()))
    }

    /// The same headers without those that `drop` picks.
    pub fn without(&self, drop: impl Fn(&str) -> bool) -> Self {
        let mut builder = HeadersBuilder::default();
        for (name, value) in self.iter().filter(|(name, _)| !drop(name)) {
            builder.push_unchecked(name, value);
        }
        builder.build()
    }
}

fn split_first<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a str)> {
    if rest.len() < LENGTHS_BYTES {
        return None;
    }
    let mut lengths = &rest[..LENGTHS_BYTES];
    let name_bytes = lengths.get_u16_le() as usize;
    let value_bytes = lengths.get_u32_le() as usize;
    let end = LENGTHS_BYTES + name_bytes + value_bytes;
    if rest.len() < end {
        return None;
    }
    let name = str::from_utf8(&rest[LENGTHS_BYTES..LENGTHS_BYTES + name_bytes]).ok()?;
    let value = str::from_utf8(&rest[LENGTHS_BYTES + name_bytes..end]).ok()?;
    *rest = &rest[end..];
    Some((name, value))
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Collects headers one by one.
#[derive(Debug, Default)]
pub struct HeadersBuilder(Vec<u8>);

impl HeadersBuilder {
    /// Adds one pair at the end.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), HeadersError> {
        let bytes = self.0.len() + LENGTHS_BYTES + name.len() + value.len();
        if bytes > HEADERS_BYTES_MAX {
            return Err(HeadersError::TooLarge { bytes });
        }
        if name.len() > HEADER_NAME_BYTES_MAX {
            return Err(HeadersError::NameTooLong { bytes: name.len() });
        }
        self.push_unchecked(name, value);
        Ok(())
    }

    fn push_unchecked(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.0
            .extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(value.as_bytes());
    }

    /// The headers collected.
    pub fn build(self) -> Headers {
        if self.0.is_empty() {
            return Headers::new();
        }
        Headers(self.0.into())
    }
}

/// Why headers were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadersError {
    /// All headers together are larger than allowed.
    #[error(
        "the headers of a message have at most {HEADERS_BYTES_MAX} bytes, these have {bytes}: move data into the body"
    )]
    TooLarge {
        /// What they would take.
        bytes: usize,
    },
    /// One name is longer than allowed.
    #[error("the name of a header has at most {HEADER_NAME_BYTES_MAX} bytes, this one has {bytes}")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Stored headers do not have the form that this version writes.
    #[error("the stored headers are damaged at byte {offset}")]
    Malformed {
        /// Where reading failed.
        offset: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order_and_the_first_wins() {
        let headers = Headers::from_pairs([("a", "1"), ("b", ""), ("a", "2")]).unwrap();
        let pairs: Vec<_> = headers.iter().collect();
        assert_eq!(pairs, [("a", "1"), ("b", ""), ("a", "2")]);
        assert_eq!(headers.get("a"), Some("1"));
        assert_eq!(headers.get("c"), None);
    }

    #[test]
    fn with_replaces_and_without_removes() {
        let headers = Headers::from_pairs([("a", "1"), ("b", "2")]).unwrap();
        let changed = headers.with([("a", "3")]).unwrap();
        assert_eq!(changed.iter().collect::<Vec<_>>(), [("b", "2"), ("a", "3")]);
        assert!(headers.without(|_| true).is_empty());
    }

    #[test]
    fn damaged_headers_are_refused_not_served() {
        let headers = Headers::from_pairs([("name", "value")]).unwrap();
        for cut in 1..headers.as_encoded().len() {
            let encoded = Bytes::copy_from_slice(&headers.as_encoded()[..cut]);
            assert!(Headers::from_encoded(encoded).is_err(), "cut at {cut}");
        }
        let whole = Bytes::copy_from_slice(headers.as_encoded());
        assert_eq!(Headers::from_encoded(whole).unwrap(), headers);
    }

    #[test]
    fn too_many_headers_are_refused() {
        let value = "x".repeat(HEADERS_BYTES_MAX);
        let refused = Headers::from_pairs([("a", value.as_str())]);
        assert!(matches!(refused, Err(HeadersError::TooLarge { .. })));
    }
}
