//! Makes lines of words, each from its number alone.
//!
//! A word is as frequent as its rank says: the second half as much as the first one, the third a third, and so on.

use std::sync::LazyLock;

use super::dice::Dice;

/// How many words a line has.
pub const LINE_WORDS: u64 = 10;
/// Ranks of this many bits; there are about as many words as the greatest has.
const RANK_BITS: u64 = 13;
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| (0..1 << RANK_BITS).map(word).collect());

/// The line of this number.
pub fn line(number: u64) -> String {
    let mut dice = Dice::new(number);
    let mut line = String::with_capacity(8 * LINE_WORDS as usize);
    for place in 0..LINE_WORDS {
        if place > 0 {
            line.push(' ');
        }
        // Each doubling of the rank is as likely as any other, and so is each rank within it.
        let first = 1 << dice.below(RANK_BITS);
        line.push_str(&WORDS[(first + dice.below(first)) as usize]);
    }
    line
}

/// The words of a line.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(' ')
}

/// Syllables that write a rank: frequent words are short.
fn word(rank: u64) -> String {
    let mut word = String::new();
    let mut left = rank;
    while left > 0 || word.is_empty() {
        let syllable = (left % 64) as usize;
        word.push(char::from(CONSONANTS[syllable / 4]));
        word.push(char::from(VOWELS[syllable % 4]));
        left /= 64;
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn words_differ_and_frequent_ones_are_as_frequent_as_described() {
        let all: HashSet<&String> = WORDS.iter().collect();
        assert_eq!(all.len(), WORDS.len());
        let mut counts: HashMap<String, u64> = HashMap::new();
        for number in 0..13_000 {
            let line = line(number);
            assert_eq!(words(&line).count() as u64, LINE_WORDS);
            words(&line).for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
        }
        let count = |rank: usize| counts[&WORDS[rank]] as f64;
        assert!((9_000.0..11_000.0).contains(&count(1)), "{}", count(1));
        let fourth = count(1) / count(4);
        assert!((3.0..5.0).contains(&fourth), "{fourth}");
    }
}
