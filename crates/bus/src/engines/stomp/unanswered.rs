//! What the server delivered on one connection and was not answered yet, in the order of delivery.

use std::collections::VecDeque;

/// Ids up to this length need no memory of their own; those of all known servers are shorter.
const SHORT_BYTES_MAX: usize = 62;

/// By what a message is acknowledged, as the server said it.
#[derive(Clone, Debug)]
pub(super) enum AckId {
    Short(u8, [u8; SHORT_BYTES_MAX]),
    Long(Box<str>),
}

impl AckId {
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self::Short(text.len() as u8, bytes)
            }
            None => Self::Long(text.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            // It was text when it came.
            Self::Short(length, bytes) => {
                str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            Self::Long(text) => text,
        }
    }
}

/// Messages by the numbers that they get here, one after another.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    first: u64,
    ids: VecDeque<Option<AckId>>,
}

impl Unanswered {
    /// Adds what was delivered next and gives it a number.
    pub fn push(&mut self, id: AckId) -> u64 {
        self.ids.push_back(Some(id));
        self.first + self.ids.len() as u64 - 1
    }

    pub fn clear(&mut self) {
        self.first += self.ids.len() as u64;
        self.ids.clear();
    }

    pub fn get(&self, number: u64) -> Option<&AckId> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.ids.get(place)?.as_ref()
    }

    /// Takes out what is answered now.
    pub fn take(&mut self, number: u64) -> Option<AckId> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let id = self.ids.get_mut(place)?.take();
        while self.ids.front().is_some_and(Option::is_none) {
            self.ids.pop_front();
            self.first += 1;
        }
        id
    }

    /// Whether these are exactly the first that were delivered, in order: then one answer can
    /// stand for all.
    pub fn begins_with(&self, numbers: impl Iterator<Item = u64>) -> bool {
        let mut open = (self.first..).zip(&self.ids);
        let mut next = || open.find(|(_, id)| id.is_some()).map(|(number, _)| number);
        let mut numbers = numbers;
        numbers.all(|number| next() == Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_length_come_back() {
        for length in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 300] {
            let text = "x".repeat(length);
            assert_eq!(AckId::new(&text).as_str(), text);
        }
    }

    #[test]
    fn each_is_answered_once_and_the_front_is_known() {
        let mut unanswered = Unanswered::default();
        let numbers: Vec<u64> = ["a", "b", "c", "d"]
            .map(|id| unanswered.push(AckId::new(id)))
            .into();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(unanswered.take(1).unwrap().as_str(), "b");
        assert!(unanswered.take(1).is_none() && unanswered.take(9).is_none());
        assert!(unanswered.begins_with([0, 2].into_iter()));
        assert!(!unanswered.begins_with([0, 3].into_iter()));
        assert!(!unanswered.begins_with([2, 0].into_iter()));
        assert!(!unanswered.begins_with([0, 2, 3, 4].into_iter()));
        unanswered.take(0);
        assert!(unanswered.begins_with([2].into_iter()));
        unanswered.clear();
        assert!(unanswered.get(3).is_none());
        assert_eq!(unanswered.push(AckId::new("e")), 4);
    }
}
