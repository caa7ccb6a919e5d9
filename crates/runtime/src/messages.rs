//! Messages in order, kept in as little memory as they need.
//!
//! What native workers give each other are values, and what comes from a worker at once is often a series. As long as a list has
//! nothing else, only those are kept: a message around each, with headers and a body that are empty, would be copied from list
//! to list and be most of the work.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use kernel::Message;
use kernel::worker::{Failure, Incoming, Item, Stretch, Value};

use crate::key::KeyRule;

/// Messages in order, all kept in the same way.
pub(crate) enum Messages {
    Values(VecDeque<Arc<dyn Value>>),
    Series(SeriesList),
    Incomings(VecDeque<Incoming>),
}

/// Stretches of series, in order.
#[derive(Default)]
pub(crate) struct SeriesList {
    stretches: VecDeque<Stretch>,
    /// How many messages they have together.
    messages: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self::Values(VecDeque::new())
    }
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
    Item::Value(value).into()
}

/// Longer lists are not kept.
const KEPT_MAX: usize = 4_096;

thread_local! {
    /// Memory of a list that is no longer needed, for the next one on this thread.
    static SPARE: Cell<Option<Messages>> = const { Cell::new(None) };
}

impl SeriesList {
    fn push(&mut self, stretch: Stretch) {
        self.messages += stretch.len();
        self.stretches.push_back(stretch);
    }

    fn pop(&mut self) -> Option<Item> {
        let first = self.stretches.front_mut()?;
        let item = first.pop();
        if first.is_empty() {
            self.stretches.pop_front();
        }
        self.messages -= 1;
        item
    }

    /// Moves up to so many messages to the end of another list.
    fn move_to(&mut self, other: &mut Self, messages_max: usize) {
        let mut left = messages_max;
        while let Some(first) = self.stretches.front_mut()
            && left > 0
        {
            let taken = match first.len() <= left {
                true => self.stretches.pop_front(),
                false => Some(first.take_front(left)),
            };
            let count = taken.as_ref().map_or(0, Stretch::len);
            left -= count;
            self.messages -= count;
            taken.into_iter().for_each(|stretch| other.push(stretch));
        }
    }

    /// All of them, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Stretch> {
        self.messages = 0;
        self.stretches.drain(..)
    }
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
        match self {
            Self::Values(values) => values.len(),
            Self::Series(series) => series.messages,
            Self::Incomings(incomings) => incomings.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn capacity(&self) -> usize {
        match self {
            Self::Values(values) => values.capacity(),
            Self::Series(series) => series.stretches.capacity(),
            Self::Incomings(incomings) => incomings.capacity(),
        }
    }

    /// The values, if it holds nothing else.
    pub fn values(&mut self) -> Option<&mut VecDeque<Arc<dyn Value>>> {
        match self {
            Self::Values(values) => Some(values),
            Self::Series(_) | Self::Incomings(_) => None,
        }
    }

    /// The series, if it holds nothing else.
    pub fn series(&mut self) -> Option<&mut SeriesList> {
        match self {
            Self::Series(series) => Some(series),
            Self::Values(_) | Self::Incomings(_) => None,
        }
    }

    /// The messages, if they are kept as such.
    pub fn incomings(&mut self) -> Option<&mut VecDeque<Incoming>> {
        match self {
            Self::Incomings(incomings) => Some(incomings),
            Self::Values(_) | Self::Series(_) => None,
        }
    }

    /// Keeps each message of a series by itself from now on.
    pub fn unfold(&mut self) {
        if let Self::Series(series) = self {
            let mut series = std::mem::take(series);
            *self = Self::default();
            series
                .drain()
                .for_each(|stretch| stretch.items().for_each(|item| self.push_item(item)));
        }
    }

    /// The messages, kept as such from now on.
    pub fn spread(&mut self) -> &mut VecDeque<Incoming> {
        let incomings = match self {
            Self::Incomings(incomings) => std::mem::take(incomings),
            Self::Values(values) => values.drain(..).map(around).collect(),
            Self::Series(series) => {
                let items = |stretch: Stretch| stretch.items().map(Incoming::from).collect();
                series.drain().flat_map::<Vec<_>, _>(items).collect()
            }
        };
        *self = Self::Incomings(incomings);
        self.incomings().expect("they have just become such")
    }

    pub fn push(&mut self, incoming: Incoming) {
        match self {
            Self::Incomings(incomings) => incomings.push_back(incoming),
            _ => self.spread().push_back(incoming),
        }
    }

    fn push_item(&mut self, item: Item) {
        match item {
            Item::Value(value) => self.push_value(value),
            body => self.push(body.into()),
        }
    }

    pub fn push_value(&mut self, value: Arc<dyn Value>) {
        self.extend_values(std::iter::once(value));
    }

    pub fn extend_values(&mut self, new: impl Iterator<Item = Arc<dyn Value>>) {
        self.unfold();
        if self.is_empty() && self.values().is_none() {
            *self = Self::default();
        }
        match self {
            Self::Values(values) => values.extend(new),
            _ => self.spread().extend(new.map(around)),
        }
    }

    pub fn push_stretch(&mut self, stretch: Stretch) {
        if self.is_empty() && self.series().is_none() {
            *self = Self::Series(SeriesList::default());
        }
        match self {
            Self::Series(series) => series.push(stretch),
            _ => stretch.items().for_each(|item| self.push_item(item)),
        }
    }

    pub fn push_front(&mut self, incoming: Incoming) {
        self.spread().push_front(incoming);
    }

    pub fn pop(&mut self) -> Option<Incoming> {
        match self {
            Self::Values(values) => values.pop_front().map(around),
            Self::Series(series) => series.pop().map(Incoming::from),
            Self::Incomings(incomings) => incomings.pop_front(),
        }
    }

    /// Moves up to so many messages from the front of another list to the end of this one; how many.
    pub fn take_from(&mut self, other: &mut Self, messages_max: usize) -> usize {
        let taken = messages_max.min(other.len());
        if self.is_empty() && taken == other.len() {
            std::mem::swap(self, other);
            return taken;
        }
        match other {
            Self::Values(values) => self.extend_values(values.drain(..taken)),
            Self::Series(series) => {
                if self.is_empty() && self.series().is_none() {
                    *self = Self::Series(SeriesList::default());
                }
                match self {
                    Self::Series(own) => series.move_to(own, taken),
                    _ => std::iter::from_fn(|| series.pop())
                        .take(taken)
                        .for_each(|item| self.push_item(item)),
                }
            }
            Self::Incomings(incomings) => self.spread().extend(incomings.drain(..taken)),
        }
        taken
    }

    /// Moves so many messages from the front to the end of a list of messages.
    pub fn spread_to(&mut self, incomings: &mut VecDeque<Incoming>, messages: usize) {
        match self {
            Self::Values(values) => incomings.extend(values.drain(..messages).map(around)),
            Self::Series(series) => {
                let items = std::iter::from_fn(|| series.pop()).take(messages);
                incomings.extend(items.map(Incoming::from));
            }
            Self::Incomings(own) => incomings.extend(own.drain(..messages)),
        }
    }

    /// Exchanges two messages.
    pub fn swap(&mut self, one: usize, other: usize) {
        match self {
            Self::Values(values) => values.swap(one, other),
            Self::Series(_) => self.spread().swap(one, other),
            Self::Incomings(incomings) => incomings.swap(one, other),
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
    use kernel::worker::Bodies;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
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

    #[derive(Clone, Copy, Debug)]
    enum How {
        Value,
        Body,
        SeriesOfValues,
        SeriesOfBodies,
    }

    fn how() -> impl Strategy<Value = How> {
        use How::{Body, SeriesOfBodies, SeriesOfValues, Value};
        proptest::sample::select(vec![Value, Body, SeriesOfValues, SeriesOfBodies])
    }

    /// Pushes a number and its successor.
    fn push(messages: &mut Messages, number: u32, how: How) {
        let pair = [number, number + 1];
        let text = pair.map(|number| number.to_string());
        match how {
            How::Value => pair.map(|n| messages.push_value(Arc::new(Number(n)))),
            How::Body => text.map(|text| messages.push(Incoming::new(Message::new(text)))),
            How::SeriesOfValues => [messages.push_stretch(pair.map(Number).to_vec().into()); 2],
            How::SeriesOfBodies => {
                let mut bodies = Bodies::default();
                text.iter().for_each(|text| bodies.push(text.as_bytes()));
                [messages.push_stretch(bodies.into()); 2]
            }
        };
    }

    fn drained(messages: &mut Messages) -> Vec<u32> {
        std::iter::from_fn(|| messages.pop())
            .map(|incoming| number(&incoming))
            .collect()
    }

    #[test]
    fn values_alone_stay_values() {
        let mut messages = Messages::default();
        push(&mut messages, 0, How::Value);
        let mut more = Messages::default();
        push(&mut more, 2, How::Value);
        assert_eq!(messages.take_from(&mut more, 9), 2);
        assert_eq!(messages.values().map(|values| values.len()), Some(4));
        push(&mut messages, 4, How::Body);
        assert!(messages.values().is_none());
        assert_eq!(drained(&mut messages), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn series_alone_stay_series_even_in_parts() {
        let mut messages = Messages::default();
        push(&mut messages, 0, How::SeriesOfBodies);
        let mut more = Messages::default();
        push(&mut more, 2, How::SeriesOfValues);
        assert_eq!(messages.take_from(&mut more, 1), 1);
        assert_eq!(
            messages.series().map(|series| series.drain().count()),
            Some(2)
        );
        assert_eq!(drained(&mut more), [3]);
    }

    proptest! {
        #[test]
        fn order_stays_whatever_they_are(
            first in proptest::collection::vec(how(), 0..4),
            second in proptest::collection::vec(how(), 0..4),
            taken in 0_usize..8,
            unfolds in any::<bool>(),
        ) {
            let (mut one, mut other) = (Messages::default(), Messages::default());
            let (of_first, of_second) = (2 * first.len(), 2 * second.len());
            let total = (of_first + of_second) as u32;
            for (number, how) in (0..).step_by(2).zip(&first) {
                push(&mut one, number, *how);
            }
            for (number, how) in (of_first as u32..).step_by(2).zip(&second) {
                push(&mut other, number, *how);
            }
            if unfolds {
                one.unfold();
            }
            let moved = one.take_from(&mut other, taken);
            prop_assert_eq!(moved, taken.min(of_second));
            prop_assert_eq!(one.len(), of_first + moved);
            let both = [drained(&mut one), drained(&mut other)].concat();
            prop_assert_eq!(both, (0..total).collect::<Vec<_>>());
            prop_assert!(one.is_empty() && other.is_empty());
        }
    }
}
