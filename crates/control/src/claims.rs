//! Which shares of a stage somebody holds, in little space.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of shares, by their numbers. As text it is a hexadecimal number of which the first digit
/// stands for the shares zero to three.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Claims(Vec<u8>);

impl Claims {
    /// Adds a share.
    pub fn insert(&mut self, share: u32) {
        let index = share as usize / 4;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= 1 << (share % 4);
    }

    /// Whether a share is among them.
    pub fn contains(&self, share: u32) -> bool {
        let four = self.0.get(share as usize / 4).copied().unwrap_or(0);
        four & (1 << (share % 4)) != 0
    }

    /// The shares in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.0.len() as u32 * 4).filter(|share| self.contains(*share))
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|four| four.count_ones()).sum()
    }
}

impl FromIterator<u32> for Claims {
    fn from_iter<T: IntoIterator<Item = u32>>(shares: T) -> Self {
        let mut claims = Self::default();
        for share in shares {
            claims.insert(share);
        }
        claims
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |four: &u8| char::from_digit(u32::from(*four), 16).unwrap_or('0');
        let text: String = self.0.iter().map(digit).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |c: char| {
            let digit = c.to_digit(16).ok_or_else(|| {
                D::Error::custom(format!("{c:?} is no hexadecimal digit of a set of shares"))
            })?;
            Ok(digit as u8)
        };
        text.chars().map(digit).collect::<Result<_, _>>().map(Self)
    }
}
