//! What a subscriber was handed and has not answered yet, in the order of delivery.

use std::collections::VecDeque;

use crate::delivery::Receipt;

/// The numbers of the messages that a subscriber holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    numbers: VecDeque<u64>,
}

/// How an acknowledgement is told to the engine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// This one and everything before it.
    Through(u64),
    /// These, one by one.
    Each(Vec<u64>),
}

impl Held {
    pub fn push(&mut self, number: u64) {
        self.numbers.push_back(number);
    }

    pub fn clear(&mut self) {
        self.numbers.clear();
    }

    /// The shortest way to acknowledge these: what a batch of turns consumed is mostly what was
    /// delivered first, and then one number says it all.
    pub fn cover(&self, receipts: &[Receipt]) -> Cover {
        let numbers = receipts.iter().map(|receipt| receipt.number);
        match receipts.last() {
            Some(last) if self.begins_with(receipts) => Cover::Through(last.number),
            _ => Cover::Each(numbers.collect()),
        }
    }

    fn begins_with(&self, receipts: &[Receipt]) -> bool {
        self.numbers.len() >= receipts.len()
            && self
                .numbers
                .iter()
                .zip(receipts)
                .all(|(number, receipt)| *number == receipt.number)
    }

    /// Forgets what was answered.
    pub fn remove(&mut self, receipts: &[Receipt]) {
        if self.begins_with(receipts) {
            self.numbers.drain(..receipts.len());
            return;
        }
        for receipt in receipts {
            if let Some(index) = self.numbers.iter().position(|n| *n == receipt.number) {
                self.numbers.remove(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipts(numbers: &[u64]) -> Vec<Receipt> {
        let receipt = |number: &u64| Receipt {
            number: *number,
            generation: 0,
        };
        numbers.iter().map(receipt).collect()
    }

    #[test]
    fn a_whole_front_is_one_number_and_anything_else_is_not() {
        let mut held = Held::default();
        for number in [3, 5, 4, 9] {
            held.push(number);
        }
        assert_eq!(held.cover(&receipts(&[3, 5])), Cover::Through(5));
        assert_eq!(held.cover(&receipts(&[5, 3])), Cover::Each(vec![5, 3]));
        assert_eq!(held.cover(&receipts(&[3, 4])), Cover::Each(vec![3, 4]));
        let longer = receipts(&[3, 5, 4, 9, 10]);
        assert_eq!(held.cover(&longer), Cover::Each(vec![3, 5, 4, 9, 10]));
        assert_eq!(held.cover(&[]), Cover::Each(vec![]));

        held.remove(&receipts(&[5]));
        assert_eq!(held.cover(&receipts(&[3, 4])), Cover::Through(4));
        held.remove(&receipts(&[3, 4, 9]));
        assert_eq!(held.cover(&receipts(&[3])), Cover::Each(vec![3]));
    }
}
