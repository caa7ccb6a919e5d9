//! What goes into keyed stages and comes out of them.

use std::fmt::Debug;
use std::mem::size_of;

use bytes::Bytes;
use kernel::worker::{KeyAt, Value};
use runtime::{BUCKETS, bucket_of};
use serde::Serialize;

use super::key::Key;
use crate::streams::checksum::Summed;
use crate::streams::events::json;
use crate::streams::state::END_MS;

/// Where keyed stages find keys.
pub const KEY_RULE: &str = "json:/key";

/// A value that has a key.
pub trait HasKey: Value {
    /// What it holds beside the key.
    type Event: ?Sized;

    fn key(&self) -> &str;

    fn event(&self) -> &Self::Event;
}

/// Something with a number as its key.
#[derive(Debug, Serialize)]
pub struct Keyed<T> {
    key: Key,
    event: T,
}

impl<T> Keyed<T> {
    pub fn new(key: u64, event: T) -> Self {
        Self {
            key: Key::of_number(key),
            event,
        }
    }
}

impl<T: Serialize + Debug + Send + Sync + 'static> Value for Keyed<T> {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn key_at(&self, _: &[Box<str>]) -> KeyAt<'_> {
        KeyAt::Text(self.key.as_str().into())
    }
}

impl<T: Serialize + Debug + Send + Sync + 'static> HasKey for Keyed<T> {
    type Event = T;

    fn key(&self) -> &str {
        self.key.as_str()
    }

    fn event(&self) -> &T {
        &self.event
    }
}

/// Nothing from before this time comes to this bucket any more. Order holds per key only, so each bucket has to be told.
#[derive(Debug, Serialize)]
pub struct Mark {
    key: Key,
    pub time_ms: u64,
}

impl Mark {
    pub fn is_end(&self) -> bool {
        self.time_ms == END_MS
    }

    pub fn key(&self) -> &str {
        self.key.as_str()
    }
}

impl Value for Mark {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn key_at(&self, _: &[Box<str>]) -> KeyAt<'_> {
        KeyAt::Text(self.key.as_str().into())
    }
}

/// A key for each bucket, under which it can be told.
pub struct Marks(Vec<Key>);

impl Marks {
    pub fn new() -> Self {
        let mut keys = vec![None; BUCKETS as usize];
        let mut missing = keys.len();
        for key in (0..).map(Key::of_number) {
            let place = &mut keys[bucket_of(key.as_str().as_bytes()) as usize];
            if place.is_none() {
                *place = Some(key);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        Self(keys.into_iter().flatten().collect())
    }

    /// The marks of this time, one for each bucket.
    pub fn at(&self, time_ms: u64) -> impl Iterator<Item = Mark> {
        self.0.iter().map(move |key| Mark {
            key: key.clone(),
            time_ms,
        })
    }
}

/// What a stage gives.
#[derive(Debug, Clone, Serialize)]
pub struct Given<T>(pub T);

impl<T: Serialize + Debug + Send + Sync + 'static> Value for Given<T> {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl<T: Summed> Summed for Given<T> {
    fn sum(&self) -> u64 {
        self.0.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_bucket_gets_a_mark() {
        let marks = Marks::new();
        let buckets = marks.at(7).map(|mark| bucket_of(mark.key().as_bytes()));
        assert_eq!(buckets.collect::<BTreeSet<_>>(), (0..BUCKETS).collect());
    }

    #[test]
    fn the_key_is_the_one_that_is_written() {
        let keyed = Keyed::new(123, "x");
        assert_eq!(keyed.encode(), r#"{"key":"123","event":"x"}"#);
        assert_eq!(keyed.key_at(&[]), KeyAt::Text("123".into()));
    }
}
