use crate::bindings::worker::hivewire::worker::state;
use crate::{Failure, Result};

/// Keys and values that survive restart, replacement and move. In a keyed stage they belong to the
/// bucket of the messages in hand, otherwise to the worker.
///
/// What is written here is there at once for the same turn, and for good when the turn is
/// committed.
#[derive(Debug)]
pub struct State(());

impl State {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// The value of a key.
    pub fn get<V: Value>(&self, key: impl AsRef<[u8]>) -> Result<Option<V>> {
        let key = key.as_ref();
        let Some(bytes) = self.get_bytes(key) else {
            return Ok(None);
        };
        let length = bytes.len();
        match V::from_bytes(bytes) {
            Some(value) => Ok(Some(value)),
            None => Err(Failure::from(format!(
                "the {length} bytes of state under {:?} are no {}: an earlier version wrote something else",
                String::from_utf8_lossy(key),
                std::any::type_name::<V>()
            ))),
        }
    }

    /// Gives a key a value.
    pub fn set<V: Value>(&self, key: impl AsRef<[u8]>, value: &V) {
        value.with_bytes(|bytes| self.set_bytes(key, bytes));
    }

    /// The bytes of a key.
    pub fn get_bytes(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        state::get(key.as_ref())
    }

    /// Gives a key these bytes.
    pub fn set_bytes(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        state::set(key.as_ref(), value.as_ref());
    }

    /// Removes a key.
    pub fn remove(&self, key: impl AsRef<[u8]>) {
        state::remove(key.as_ref());
    }

    /// Keys that begin with `prefix` and their values, in order, from the first after `after`.
    pub fn scan(
        &self,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        pairs_max: u32,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        state::scan(prefix.as_ref(), after, pairs_max)
    }
}

/// What can be kept as a value: bytes, text and numbers. Numbers are stored in the order of the
/// network, so a later version can read them in another language.
pub trait Value: Sized {
    /// Lends its bytes.
    fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T;

    /// Reads it back; none if the bytes are something else.
    fn from_bytes(bytes: Vec<u8>) -> Option<Self>;
}

impl Value for Vec<u8> {
    fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self)
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        Some(bytes)
    }
}

impl Value for String {
    fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self.as_bytes())
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        Self::from_utf8(bytes).ok()
    }
}

impl Value for bool {
    fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(&[u8::from(*self)])
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        match bytes[..] {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
                take(&self.to_be_bytes())
            }

            fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
                Some(Self::from_be_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: &impl Value) -> Vec<u8> {
        value.with_bytes(<[u8]>::to_vec)
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        assert_eq!(u64::from_bytes(bytes_of(&7u64)), Some(7));
        assert_eq!(bytes_of(&258u16), [1, 2]);
        assert_eq!(f64::from_bytes(bytes_of(&-0.5f64)), Some(-0.5));
        assert_eq!(bool::from_bytes(bytes_of(&true)), Some(true));
        assert_eq!(
            String::from_bytes(bytes_of(&"ä".to_owned())),
            Some("ä".to_owned())
        );
        assert_eq!(
            Vec::from_bytes(bytes_of(&vec![0u8, 255])),
            Some(vec![0, 255])
        );
    }

    #[test]
    fn other_bytes_are_no_value() {
        assert_eq!(u64::from_bytes(vec![1, 2]), None);
        assert_eq!(bool::from_bytes(vec![2]), None);
        assert_eq!(String::from_bytes(vec![255]), None);
    }
}
