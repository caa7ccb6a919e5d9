//! Names of queues, topics and buckets.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;

/// The name of a queue, a topic or a bucket: 1 to 255 bytes of text without white space or
/// control characters. Cloning it is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks `text` and makes a name of it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    match text
        .char_indices()
        .find(|(_, c)| c.is_whitespace() || c.is_control())
    {
        Some((offset, character)) => Err(NameError::Character { character, offset }),
        None => Ok(()),
    }
}

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There was no text at all.
    #[error("a name needs at least one character")]
    Empty,
    /// The text was longer than any name may be.
    #[error(
        "a name has at most {NAME_BYTES_MAX} bytes, this one has {bytes}: choose a shorter one"
    )]
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
    /// White space and control characters cannot be part of a name.
    #[error(
        "a name cannot hold {character:?} (at byte {offset}): leave out white space and control characters"
    )]
    Character {
        /// The first character that does not fit.
        character: char,
        /// Where it stands.
        offset: usize,
    },
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// Where a message goes: to one subscriber of a queue, or to every subscriber of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// Each message reaches one subscriber.
    Queue(Name),
    /// Each message reaches every subscriber.
    Topic(Name),
}

impl Destination {
    /// The name, whatever kind it is of.
    pub fn name(&self) -> &Name {
        match self {
            Self::Queue(name) | Self::Topic(name) => name,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Topic(name) => write!(f, "topic {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(Name::new("orders.new/é").is_ok());
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(
            Name::new("a b"),
            Err(NameError::Character {
                character: ' ',
                offset: 1
            })
        );
        assert!(Name::new(&"x".repeat(255)).is_ok());
        assert_eq!(
            Name::new(&"x".repeat(256)),
            Err(NameError::TooLong { bytes: 256 })
        );
    }
}
