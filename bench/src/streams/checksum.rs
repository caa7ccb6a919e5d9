//! One number for many results, whatever their order.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// A result that counts towards a checksum.
pub trait Summed {
    /// What is added to the sum of all, modulo 2⁶⁴.
    fn sum(&self) -> u64;
}

/// One number for some, in which the place of each matters. `bytewax/queries.py` does the same.
pub fn mix(fields: &[u64]) -> u64 {
    fields.iter().fold(0, |hash, field| {
        let hash = (hash ^ field).wrapping_mul(MULTIPLIER);
        hash ^ (hash >> 32)
    })
}

/// A number for a text.
pub fn text(text: &str) -> u64 {
    text.bytes().fold(7, |hash: u64, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_matter() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1, 1]), mix(&[2, 2]));
        assert_ne!(text("ab"), text("ba"));
    }
}
