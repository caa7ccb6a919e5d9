//! Bodies that can be checked, and the tally of what arrived.

use super::{LoadError, Result};

/// How many digits a sequence number has in a body.
pub(super) const DIGITS: usize = 10;

/// A body: ten digits that number the message, filling, and a newline.
///
/// It has no line of a single full stop, which would end a gamq message, and it ends in a newline,
/// which gamq needs.
#[derive(Debug, Clone)]
pub struct Body {
    bytes: Vec<u8>,
}

impl Body {
    /// Makes a body of this length.
    ///
    /// # Panics
    ///
    /// If there is no room for the number and the newline.
    pub fn new(body_bytes: usize) -> Self {
        assert!(body_bytes > DIGITS, "a body needs {} bytes", DIGITS + 1);
        let mut bytes = vec![b'0'; DIGITS];
        bytes.extend((DIGITS..body_bytes - 1).map(|index| b'a' + (index % 26) as u8));
        bytes.push(b'\n');
        Self { bytes }
    }

    /// The body with sequence number zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes a number with leading zeros.
pub(super) fn digits(mut number: u32) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// Reads a number with leading zeros.
pub(super) fn parse_digits(text: &[u8]) -> Option<u32> {
    if text.len() != DIGITS {
        return None;
    }
    text.iter().try_fold(0u32, |number, digit| {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u32::from(value))
    })
}

/// Counts what arrived and finds what was lost, doubled or changed on the way.
#[derive(Debug)]
pub struct Tally {
    expected: u32,
    seen: Vec<u64>,
    received: u32,
    doubled: u32,
}

impl Tally {
    /// Expects the sequence numbers below `expected`, once each, in any order.
    pub fn new(expected: u32) -> Self {
        Self {
            expected,
            seen: vec![0; (expected as usize).div_ceil(64)],
            received: 0,
            doubled: 0,
        }
    }

    /// Counts a message after comparing every byte of its body.
    pub fn count_body(&mut self, body: &[u8], sent: &Body) -> Result<()> {
        let same_filling = body.len() == sent.bytes.len() && body[DIGITS..] == sent.bytes[DIGITS..];
        match parse_digits(&body[..DIGITS.min(body.len())]) {
            Some(sequence) if same_filling => self.count(sequence),
            _ => Err(LoadError::WrongDelivery(format!(
                "a body was changed to {:?}",
                String::from_utf8_lossy(&body[..body.len().min(200)])
            ))),
        }
    }

    /// Counts a sequence number.
    pub fn count(&mut self, sequence: u32) -> Result<()> {
        if sequence >= self.expected {
            return Err(LoadError::WrongDelivery(format!(
                "number {sequence} was never sent"
            )));
        }
        let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        self.doubled += u32::from(self.seen[word] & bit != 0);
        self.seen[word] |= bit;
        self.received += 1;
        Ok(())
    }

    /// How many came, doubles included.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// How many have not come.
    pub fn missing(&self) -> u32 {
        self.expected + self.doubled - self.received
    }

    /// How many came a second time.
    pub fn doubled(&self) -> u32 {
        self.doubled
    }

    /// Whether as many came as were expected.
    pub fn is_full(&self) -> bool {
        self.received >= self.expected
    }

    /// Fails unless everything came exactly once.
    pub fn expect_exact(&self) -> Result<()> {
        if self.missing() == 0 && self.doubled == 0 {
            return Ok(());
        }
        Err(LoadError::WrongDelivery(format!(
            "of {} messages {} are missing and {} came twice",
            self.expected,
            self.missing(),
            self.doubled
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_trip() {
        for number in [0, 1, 9, 10, 4_294_967_295] {
            assert_eq!(parse_digits(&digits(number)), Some(number));
        }
        assert_eq!(parse_digits(b"00000000x1"), None);
        assert_eq!(parse_digits(b"4294967296"), None);
        assert_eq!(parse_digits(b"1"), None);
    }

    #[test]
    fn a_body_has_the_length_asked_for_and_ends_in_a_newline() {
        let body = Body::new(128);
        assert_eq!(body.bytes().len(), 128);
        assert_eq!(body.bytes().last(), Some(&b'\n'));
    }

    #[test]
    fn a_full_tally_is_exact() {
        let mut tally = Tally::new(100);
        for sequence in (0..100).rev() {
            tally.count(sequence).expect("in range");
        }
        assert!(tally.is_full());
        tally.expect_exact().expect("all came once");
    }

    #[test]
    fn loss_doubling_and_change_are_found() {
        let sent = Body::new(64);
        let mut tally = Tally::new(3);
        for sequence in [0, 0, 2] {
            tally.count(sequence).expect("in range");
        }
        assert!(tally.is_full());
        assert_eq!((tally.missing(), tally.doubled()), (1, 1));
        assert!(tally.expect_exact().is_err());
        assert!(tally.count(3).is_err());

        let mut changed = sent.bytes().to_vec();
        changed[40] ^= 1;
        assert!(tally.count_body(&changed, &sent).is_err());
        assert!(tally.count_body(b"", &sent).is_err());
    }
}
