//! Fibonacci numbers, computed as slowly as their definition says: work that lasts as long as one likes.

use std::hint::black_box;

/// Fibonacci number `n`, by two calls of itself.
pub fn fibonacci(n: u32) -> u64 {
    match n {
        0 | 1 => u64::from(n),
        _ => fibonacci(n - 1) + fibonacci(n - 2),
    }
}

/// Computes the same number so many times. The cost of the next `n` is more than half as much again, so an amount of
/// work in between is made of rounds.
#[inline(never)]
pub fn fibonacci_in_rounds(n: u32, rounds: u32) -> u64 {
    let mut number = 0;
    for _ in 0..rounds.max(1) {
        number = black_box(fibonacci(black_box(n)));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_in_any_number_of_rounds() {
        let first: Vec<u64> = (0..10).map(fibonacci).collect();
        assert_eq!(first, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
        assert_eq!(fibonacci_in_rounds(20, 0), 6_765);
        assert_eq!(fibonacci_in_rounds(20, 3), 6_765);
    }
}
