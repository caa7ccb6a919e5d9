//! Numbers that depend on the number of an event only.

use super::checksum::mix;

/// A row of numbers of its own for each event.
pub struct Dice(u64);

impl Dice {
    /// That of the event of this number.
    pub fn new(number: u64) -> Self {
        Self(number << 5)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(&[self.0]) >> 16
    }

    /// One that is less than this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of some.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// One of the last `recent` numbers up to `last`.
    pub fn recent(&mut self, last: u64, recent: u64) -> u64 {
        last - self.below(recent.min(last + 1))
    }
}
