//! Messages in order, kept in as little memory as they need.
//!
//! What native workers give each other are values. As long as a list has nothing else, only those are kept: a message around
//! each, with headers and a body that are empty, would be copied from list to list and be most of the work.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use kernel::Message;
use kernel::worker::{Failure, Incoming, Value};

use crate::key::KeyRule;

/// Messages in order.
#[derive(Default)]
pub(crate) struct Messages {
    /// If there are any, there are no others.
    values: VecDeque<Arc<dyn Value>>,
    incomings: VecDeque<Incoming>,
}

/// Messages with their buckets.
#[derive(Default)]
pub(crate) struct Sorted {
    pub messages: Messages,
    pub buckets: VecDeque<u32>,
}

/// One of the two ways to keep a message.
pub(crate) trait Entry: Sized {
    /// The key of the message.
    fn key(&self, rule: &KeyRule) -> Result<Cow<'_, [u8]>, Failure>;
    /// What a router sees of it.
    fn message(&self) -> &Message;
    fn into_incoming(self) -> Incoming;
    /// The opposite of [`Entry::into_incoming`].
    fn back(incoming: Incoming) -> Option<Self>;
    fn push_to(self, messages: &mut Messages);
}

/// What a router sees of a value.
static NOTHING: LazyLock<Message> = LazyLock::new(Message::default);

impl Entry for Arc<dyn Value> {
    fn key(&self, rule: &KeyRule) -> Result<Cow<'_, [u8]>, Failure> {
        rule.key_of_value(&**self, &NOTHING)
    }

    fn message(&self) -> &Message {
        &NOTHING
    }

    fn into_incoming(self) -> Incoming {
        around(self)
    }

    fn back(incoming: Incoming) -> Option<Self> {
        incoming.value
    }

    fn push_to(self, messages: &mut Messages) {
        messages.push_value(self);
    }
}

impl Entry for Incoming {
    fn key(&self, rule: &KeyRule) -> Result<Cow<'_, [u8]>, Failure> {
        rule.key_of(self)
    }

    fn message(&self) -> &Message {
        &self.message
    }

    fn into_incoming(self) -> Incoming {
        self
    }

    fn back(incoming: Incoming) -> Option<Self> {
        Some(incoming)
    }

    fn push_to(self, messages: &mut Messages) {
        messages.push(self);
    }
}

/// A message that holds a value and nothing else.
fn around(value: Arc<dyn Value>) -> Incoming {
    Incoming {
        value: Some(value),
        ..Incoming::new(Message::default())
    }
}

/// Longer lists are not kept.
const KEPT_MAX: usize = 4_096;

thread_local! {
    /// Memory of a list that is no longer needed, for the next one on this thread.
    static SPARE: Cell<Option<Messages>> = const { Cell::new(None) };
}

impl Messages {
    /// An empty list, with the memory of one that is no longer needed.
    pub fn recycled() -> Self {
        SPARE.take().unwrap_or_default()
    }

    /// Leaves the memory, which holds nothing any more, to the next list on this thread.
    pub fn recycle(self) {
        if self.is_empty() && (1..=KEPT_MAX).contains(&self.capacity()) {
            SPARE.set(Some(self));
        }
    }

    pub fn len(&self) -> usize {
        self.values.len() + self.incomings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.incomings.is_empty()
    }

    pub fn capacity(&self) -> usize {
        self.values.capacity().max(self.incomings.capacity())
    }

    /// The values, if it holds nothing else.
    pub fn values(&mut self) -> Option<&mut VecDeque<Arc<dyn Value>>> {
        self.incomings.is_empty().then_some(&mut self.values)
    }

    /// The messages, if they are kept as such.
    pub fn incomings(&mut self) -> Option<&mut VecDeque<Incoming>> {
        self.values.is_empty().then_some(&mut self.incomings)
    }

    /// The messages, kept as such from now on.
    pub fn spread(&mut self) -> &mut VecDeque<Incoming> {
        self.incomings.extend(self.values.drain(..).map(around));
        &mut self.incomings
    }

    pub fn push(&mut self, incoming: Incoming) {
        self.spread().push_back(incoming);
    }

    pub fn push_value(&mut self, value: Arc<dyn Value>) {
        match self.incomings.is_empty() {
            true => self.values.push_back(value),
            false => self.incomings.push_back(around(value)),
        }
    }

    pub fn extend_values(&mut self, values: impl Iterator<Item = Arc<dyn Value>>) {
        match self.incomings.is_empty() {
            true => self.values.extend(values),
            false => self.incomings.extend(values.map(around)),
        }
    }

    pub fn push_front(&mut self, incoming: Incoming) {
        self.spread().push_front(incoming);
    }

    pub fn pop(&mut self) -> Option<Incoming> {
        match self.values.pop_front() {
            Some(value) => Some(around(value)),
            None => self.incomings.pop_front(),
        }
    }

    /// Moves up to so many messages from the front of another list to the end of this one; how many.
    pub fn take_from(&mut self, other: &mut Self, messages_max: usize) -> usize {
        let taken = messages_max.min(other.len());
        if self.is_empty() && taken == other.len() {
            std::mem::swap(self, other);
            return taken;
        }
        if !other.values.is_empty() && self.incomings.is_empty() {
            self.values.extend(other.values.drain(..taken));
            return taken;
        }
        if !other.values.is_empty() {
            let values = other.values.drain(..taken);
            self.incomings.extend(values.map(around));
            return taken;
        }
        let incomings = other.incomings.drain(..taken);
        self.spread().extend(incomings);
        taken
    }

    /// Moves so many messages from the front to the end of a list of messages.
    pub fn spread_to(&mut self, incomings: &mut VecDeque<Incoming>, messages: usize) {
        match self.values.is_empty() {
            true => incomings.extend(self.incomings.drain(..messages)),
            false => incomings.extend(self.values.drain(..messages).map(around)),
        }
    }

    /// Exchanges two messages.
    pub fn swap(&mut self, one: usize, other: usize) {
        match self.values.is_empty() {
            true => self.incomings.swap(one, other),
            false => self.values.swap(one, other),
        }
    }
}

impl Sorted {
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    pub fn push(&mut self, entry: impl Entry, bucket: u32) {
        entry.push_to(&mut self.messages);
        self.buckets.push_back(bucket);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Number(u32);

    impl Value for Number {
        fn encode(&self) -> Bytes {
            self.0.to_string().into()
        }

        fn len_bytes(&self) -> usize {
            size_of::<Self>()
        }
    }

    fn number(incoming: &Incoming) -> u32 {
        match incoming.value::<Number>() {
            Some(number) => number.0,
            None => std::str::from_utf8(&incoming.message.body)
                .unwrap()
                .parse()
                .unwrap(),
        }
    }

    /// Pushes a number, as a value or as a body.
    fn push(messages: &mut Messages, number: u32, as_value: bool) {
        match as_value {
            true => messages.push_value(Arc::new(Number(number))),
            false => messages.push(Incoming::new(Message::new(number.to_string()))),
        }
    }

    fn drained(messages: &mut Messages) -> Vec<u32> {
        std::iter::from_fn(|| messages.pop())
            .map(|incoming| number(&incoming))
            .collect()
    }

    #[test]
    fn values_alone_stay_values() {
        let mut messages = Messages::default();
        push(&mut messages, 1, true);
        push(&mut messages, 2, true);
        let mut more = Messages::default();
        push(&mut more, 3, true);
        assert_eq!(messages.take_from(&mut more, 9), 1);
        assert_eq!(messages.values().map(|values| values.len()), Some(3));
        push(&mut messages, 4, false);
        assert!(messages.values().is_none());
        assert_eq!(drained(&mut messages), [1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn order_stays_whatever_they_are(
            first in proptest::collection::vec(any::<bool>(), 0..6),
            second in proptest::collection::vec(any::<bool>(), 0..6),
            taken in 0_usize..8,
        ) {
            let (mut one, mut other) = (Messages::default(), Messages::default());
            let total = (first.len() + second.len()) as u32;
            for (number, as_value) in (0..).zip(&first) {
                push(&mut one, number, *as_value);
            }
            for (number, as_value) in (first.len() as u32..).zip(&second) {
                push(&mut other, number, *as_value);
            }
            let moved = one.take_from(&mut other, taken);
            prop_assert_eq!(moved, taken.min(second.len()));
            prop_assert_eq!(one.len(), first.len() + moved);
            let both = [drained(&mut one), drained(&mut other)].concat();
            prop_assert_eq!(both, (0..total).collect::<Vec<_>>());
        }
    }
}
