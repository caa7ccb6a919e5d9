//! Messages that travel together, because none of them has anything but a value or a body.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{Failure, Incoming, Value};
use crate::Message;

/// Many messages in one piece of memory, in order, from one worker to another in the same process. Each is a message like any
/// other; what it would cost to handle them one by one is saved as long as nobody needs one by itself.
pub trait Series: Any + Send + Sync + fmt::Debug {
    /// How many messages it has.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes some of its messages count for against limits.
    fn len_bytes(&self, range: Range<usize>) -> usize;

    /// One of its messages by itself.
    fn item(&self, index: usize) -> Item;
}

/// What a message of a series holds.
#[derive(Clone, Debug)]
pub enum Item {
    /// A value.
    Value(Arc<dyn Value>),
    /// A body.
    Body(Bytes),
}

impl From<Item> for Incoming {
    fn from(item: Item) -> Self {
        match item {
            Item::Value(value) => Self {
                value: Some(value),
                ..Self::new(Message::default())
            },
            Item::Body(body) => Self::new(Message::new(body)),
        }
    }
}

impl<T: Value + Clone> Series for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn len_bytes(&self, range: Range<usize>) -> usize {
        self[range].iter().map(Value::len_bytes).sum()
    }

    fn item(&self, index: usize) -> Item {
        Item::Value(Arc::new(self[index].clone()))
    }
}

/// The bodies of many messages, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<u32>,
}

impl Bodies {
    /// Bodies that lie in these bytes and end there.
    pub fn new(bytes: Vec<u8>, ends: Vec<u32>) -> Result<Self, Failure> {
        let all = ends.last().map_or(0, |end| *end as usize);
        if !ends.is_sorted() || all != bytes.len() {
            let reason = format!(
                "the ends of {} bodies do not fit {} bytes: they must rise and the last one be the number of bytes",
                ends.len(),
                bytes.len()
            );
            return Err(Failure::new(reason));
        }
        Ok(Self { bytes, ends })
    }

    /// Adds one.
    pub fn push(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        let end = u32::try_from(self.bytes.len()).expect("limits of a turn are far smaller");
        self.ends.push(end);
    }

    /// Adds some of others.
    pub fn extend_from(&mut self, others: &Self, range: Range<usize>) {
        let bytes = others.bytes_of(&range);
        let begin = self.bytes.len();
        let shifted = |end: &u32| (*end as usize - bytes.start + begin) as u32;
        self.ends.extend(others.ends[range].iter().map(shifted));
        self.bytes.extend_from_slice(&others.bytes[bytes]);
    }

    /// Takes all out and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each body ends among the bytes.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// One of the bodies.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.bytes_of(&(index..index + 1))]
    }

    fn bytes_of(&self, range: &Range<usize>) -> Range<usize> {
        let end_before = |index: usize| index.checked_sub(1).map_or(0, |i| self.ends[i] as usize);
        end_before(range.start)..end_before(range.end)
    }
}

impl Series for Bodies {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn len_bytes(&self, range: Range<usize>) -> usize {
        self.bytes_of(&range).len()
    }

    fn item(&self, index: usize) -> Item {
        // Whoever keeps one should not keep all.
        Item::Body(Bytes::copy_from_slice(self.get(index)))
    }
}

/// Some messages of a series, in a row. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Stretch {
    series: Arc<dyn Series>,
    range: Range<usize>,
}

impl<S: Series> From<S> for Stretch {
    fn from(series: S) -> Self {
        let range = 0..series.len();
        Self {
            series: Arc::new(series),
            range,
        }
    }
}

impl Stretch {
    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// About how many bytes it counts for against limits.
    pub fn len_bytes(&self) -> usize {
        self.series.len_bytes(self.range.clone())
    }

    /// Whether it is part of a series of this type.
    pub fn is<S: Series>(&self) -> bool {
        self.part_of::<S>().is_some()
    }

    /// The series of this type that it is part of, and which part.
    pub fn part_of<S: Series>(&self) -> Option<(&S, Range<usize>)> {
        let series = (&*self.series as &dyn Any).downcast_ref()?;
        Some((series, self.range.clone()))
    }

    /// The values, if they are of this type.
    pub fn values<T: Value + Clone>(&self) -> Option<&[T]> {
        let (values, range) = self.part_of::<Vec<T>>()?;
        Some(&values[range])
    }

    /// Its messages, each by itself.
    pub fn items(&self) -> impl Iterator<Item = Item> {
        self.range.clone().map(|index| self.series.item(index))
    }

    /// Takes the first messages out, as many as there are at most.
    pub fn take_front(&mut self, messages: usize) -> Self {
        let middle = self.range.start + messages.min(self.len());
        let front = Self {
            series: self.series.clone(),
            range: self.range.start..middle,
        };
        self.range.start = middle;
        front
    }

    /// Takes the first message out.
    pub fn pop(&mut self) -> Option<Item> {
        Some(self.series.item(self.range.next()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bodies(of: &[&[u8]]) -> Bodies {
        let mut bodies = Bodies::default();
        of.iter().for_each(|body| bodies.push(body));
        bodies
    }

    fn told(stretch: &Stretch) -> Vec<Vec<u8>> {
        let body = |item| Incoming::from(item).message.body.to_vec();
        stretch.items().map(body).collect()
    }

    #[test]
    fn ends_that_do_not_fit_are_refused() {
        let new = |ends: &[u32]| Bodies::new(b"abcd".to_vec(), ends.to_vec());
        assert_eq!(new(&[1, 1, 4]).unwrap(), bodies(&[b"a", b"", b"bcd"]));
        assert!(new(&[]).is_err());
        assert!(new(&[1, 3]).is_err());
        assert!(new(&[1, 5]).is_err());
        assert!(new(&[3, 1, 4]).is_err());
    }

    #[test]
    fn a_stretch_knows_its_type() {
        let stretch = Stretch::from(bodies(&[b"a"]));
        assert!(stretch.is::<Bodies>());
        assert!(!stretch.is::<u8>());
    }

    impl Series for u8 {
        fn len(&self) -> usize {
            0
        }

        fn len_bytes(&self, _: Range<usize>) -> usize {
            0
        }

        fn item(&self, _: usize) -> Item {
            Item::Body(Bytes::new())
        }
    }

    proptest! {
        #[test]
        fn parts_are_what_the_whole_was(
            of in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 0..8),
            first in 0_usize..9,
        ) {
            let slices: Vec<&[u8]> = of.iter().map(Vec::as_slice).collect();
            let mut rest = Stretch::from(bodies(&slices));
            let bytes = rest.len_bytes();
            let front = rest.take_front(first);
            prop_assert_eq!(front.len_bytes() + rest.len_bytes(), bytes);
            prop_assert_eq!([told(&front), told(&rest)].concat(), of.clone());
            let mut joined = bodies(&[b"before"]);
            for stretch in [&front, &rest] {
                let (part, range) = stretch.part_of::<Bodies>().unwrap();
                joined.extend_from(part, range);
            }
            let all = told(&Stretch::from(joined));
            prop_assert_eq!(&all[1..], &of[..]);
            if let Some(first) = of.first() {
                let popped = Stretch::from(bodies(&slices)).pop().map(Incoming::from).unwrap();
                prop_assert_eq!(&popped.message.body[..], &first[..]);
            }
        }
    }
}
