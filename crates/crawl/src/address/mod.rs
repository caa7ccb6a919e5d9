//! Addresses of pages, each written in one way only.
//!
//! [`Normaliser`] turns whatever stands in a link into an [`Address`], so that two ways to write the same address give the same
//! text, and so the same [fingerprint](Address::fingerprint). The reference is resolved as browsers do it (the WHATWG URL
//! rules); then comes what RFC 3986 calls safe (section 6.2.2 and 6.2.3), and then what [`NormaliserRules`] ask for. Fragments
//! and credentials are dropped always.
//!
//! ```
//! use crawl::address::{Normaliser, NormaliserRules};
//!
//! let normaliser = Normaliser::new(NormaliserRules::default()).unwrap();
//! let base = url::Url::parse("https://example.com/shop/list?page=2").unwrap();
//! let address = normaliser.normalise(Some(&base), "../%7Eann/a%2fb?utm_source=mail&id=7#top").unwrap();
//! assert_eq!(address.as_str(), "https://example.com/~ann/a%2Fb?id=7");
//! assert_eq!(address.host(), "example.com");
//! ```
//!
//! What it deliberately does not do: it asks no server, so it cannot know that two addresses give the same page.

mod error;
mod names;
mod resolve;
mod rules;
mod tidy;

use std::fmt;

use url::Url;
use xxhash_rust::xxh3::xxh3_128;

use crate::wrong::WrongParameter;

pub use error::AddressError;
pub use rules::NormaliserRules;

use names::Names;
use resolve::{Resolved, resolve};

/// How much longer than `url_bytes_max` the text of a reference may be: a part of it may be removed, but no more work than this
/// is put into it.
const REFERENCE_FACTOR_MAX: usize = 8;

/// Writes addresses in one way.
#[derive(Debug)]
pub struct Normaliser {
    rules: NormaliserRules,
    removed: Names,
    removed_in_path: Names,
}

impl Normaliser {
    /// One for these rules.
    pub fn new(rules: NormaliserRules) -> Result<Self, WrongParameter> {
        rules.check()?;
        Ok(Self {
            removed: rules.names_removed(),
            removed_in_path: rules.names_removed_in_path(),
            rules,
        })
    }

    /// The address that this text stands for on a page at `base`.
    pub fn normalise(&self, base: Option<&Url>, text: &str) -> Result<Address, AddressError> {
        let base_bytes = base.map_or(0, |base| base.as_str().len());
        let capacity = (base_bytes + text.len()).min(self.rules.url_bytes_max) + 1;
        let mut buffer = AddressBuffer {
            text: String::with_capacity(capacity),
            ..AddressBuffer::default()
        };
        let parts = self.normalise_into(base, text, &mut buffer)?.parts;
        Ok(Address {
            text: buffer.text.into_boxed_str(),
            parts,
        })
    }

    /// The same for many: nothing is allocated once the buffer is large enough.
    pub fn normalise_into<'b>(
        &self,
        base: Option<&Url>,
        text: &str,
        buffer: &'b mut AddressBuffer,
    ) -> Result<AddressView<'b>, AddressError> {
        let most = self.rules.url_bytes_max;
        if text.len() > most.saturating_mul(REFERENCE_FACTOR_MAX) {
            let bytes = text.len();
            return Err(AddressError::TooLong { bytes, most });
        }
        let mut resolved = resolve(base, text, &mut buffer.text)?;
        self.tidy(&mut resolved, buffer)?;
        Ok(AddressView {
            text: &buffer.text,
            parts: Parts::of(&resolved),
        })
    }
}

/// What [`Normaliser::normalise_into`] writes into, to be used again and again.
#[derive(Debug, Default)]
pub struct AddressBuffer {
    text: String,
    spare: String,
    segments: Vec<(u32, u32)>,
}

/// Where the parts of an address begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Parts {
    host: u32,
    path: u32,
}

impl Parts {
    fn of(resolved: &Resolved) -> Self {
        // An address is never longer than a few times `url_bytes_max`, which the rules keep far below 2^32.
        Self {
            host: resolved.host_start as u32,
            path: resolved.path_start as u32,
        }
    }

    fn host<'t>(&self, text: &'t str) -> &'t str {
        &text[self.host as usize..self.path as usize]
    }

    fn path_and_query<'t>(&self, text: &'t str) -> &'t str {
        &text[self.path as usize..]
    }
}

/// An address that lies in an [`AddressBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressView<'b> {
    text: &'b str,
    parts: Parts,
}

impl<'b> AddressView<'b> {
    /// All of it.
    pub fn as_str(&self) -> &'b str {
        self.text
    }

    /// The name of the host, with `:port` if the port is not the usual one of the scheme.
    pub fn host(&self) -> &'b str {
        self.parts.host(self.text)
    }

    /// What follows the host, from the first `/`.
    pub fn path_and_query(&self) -> &'b str {
        self.parts.path_and_query(self.text)
    }

    /// 128 bits that stand for the address.
    pub fn fingerprint(&self) -> u128 {
        xxh3_128(self.text.as_bytes())
    }

    /// The address by itself.
    pub fn to_address(&self) -> Address {
        Address {
            text: self.text.into(),
            parts: self.parts,
        }
    }
}

/// The address of a page, written in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    text: Box<str>,
    parts: Parts,
}

impl Address {
    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of the host, with `:port` if the port is not the usual one of the scheme.
    pub fn host(&self) -> &str {
        self.parts.host(&self.text)
    }

    /// What follows the host, from the first `/`.
    pub fn path_and_query(&self) -> &str {
        self.parts.path_and_query(&self.text)
    }

    /// 128 bits that stand for the address.
    pub fn fingerprint(&self) -> u128 {
        xxh3_128(self.text.as_bytes())
    }

    /// The text by itself.
    pub fn into_string(self) -> String {
        self.text.into_string()
    }
}

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
