//! How plug-ins are called.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes that one part of an id may take.
const PART_BYTES_MAX: usize = 60;
const PARTS_MAX: usize = 2;

/// The id of a plug-in: a name such as `orders-filter`, or two with a slash between, such as
/// `shop/orders-filter`. Cloning it is cheap.
///
/// ```
/// use kernel::PluginId;
///
/// let id: PluginId = "shop/orders-filter".parse()?;
/// assert_eq!(id.name(), "orders-filter");
/// assert!("shop/../token".parse::<PluginId>().is_err());
/// # Ok::<(), kernel::PluginIdError>(())
/// ```
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct PluginId(Arc<str>);

/// Why a text is no id of a plug-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no id of a plug-in: write a name, or two with a slash between, such as shop/orders-filter; each has 1 to {PART_BYTES_MAX} letters, digits, - and _, and begins with a letter or digit"
)]
pub struct PluginIdError {
    text: String,
}

impl PluginId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl FromStr for PluginId {
    type Err = PluginIdError;

    fn from_str(text: &str) -> Result<Self, PluginIdError> {
        let parts = text.split('/').count();
        match parts <= PARTS_MAX && text.split('/').all(is_part) {
            true => Ok(Self(text.into())),
            false => Err(PluginIdError {
                text: text.chars().take(2 * PART_BYTES_MAX).collect(),
            }),
        }
    }
}

fn is_part(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    part.len() <= PART_BYTES_MAX
        && part.bytes().all(fits)
        && part
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for PluginId {
    type Error = PluginIdError;

    fn try_from(text: String) -> Result<Self, PluginIdError> {
        text.parse()
    }
}

impl From<PluginId> for String {
    fn from(id: PluginId) -> Self {
        id.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_part_or_two() {
        for text in ["a", "orders-filter", "shop/orders-filter", "A1_b/2"] {
            let id: PluginId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
        }
        let long = "x".repeat(PART_BYTES_MAX + 1);
        for text in [
            "", "/", "a/", "/a", "a/b/c", "..", "a/..", "-a", "a b", "a@1", "ä", &long,
        ] {
            assert!(text.parse::<PluginId>().is_err(), "{text}");
        }
    }
}
