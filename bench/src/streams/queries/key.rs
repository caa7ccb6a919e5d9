//! Keys that lie within the values that have them.

use serde::{Serialize, Serializer};

/// Texts up to this length need no memory of their own; the greatest number is shorter.
const SHORT_BYTES_MAX: usize = 22;

/// The text of a key.
#[derive(Debug, Clone)]
pub enum Key {
    Short {
        len: u8,
        text: [u8; SHORT_BYTES_MAX],
    },
    Long(Box<str>),
}

impl Key {
    pub fn of_text(key: &str) -> Self {
        if key.len() > SHORT_BYTES_MAX {
            return Self::Long(key.into());
        }
        let mut text = [0; SHORT_BYTES_MAX];
        text[..key.len()].copy_from_slice(key.as_bytes());
        let len = key.len() as u8;
        Self::Short { len, text }
    }

    pub fn of_number(number: u64) -> Self {
        let mut text = [0; SHORT_BYTES_MAX];
        let (mut begin, mut left) = (SHORT_BYTES_MAX, number);
        loop {
            begin -= 1;
            text[begin] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        text.copy_within(begin.., 0);
        let len = (SHORT_BYTES_MAX - begin) as u8;
        Self::Short { len, text }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Short { len, text } => {
                std::str::from_utf8(&text[..usize::from(*len)]).expect("it was made of text")
            }
            Self::Long(text) => text,
        }
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_they_were_made_of() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            assert_eq!(Key::of_number(number).as_str(), number.to_string());
        }
        for length in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 100] {
            let text = "x".repeat(length);
            assert_eq!(Key::of_text(&text).as_str(), text);
        }
    }
}
