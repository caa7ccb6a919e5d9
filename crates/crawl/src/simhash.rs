//! Fingerprints of texts that differ little if the texts differ little.
//!
//! Words are taken two at a time; each two are hashed, and each bit of the fingerprint is what most of these hashes say.
//! Pages that differ in a date or a counter differ in few bits. Of generated texts in which one word was replaced, 267 of 300 with 400
//! words differ in three bits or fewer, 299 with 1,600 words, but only 182 with 150 words; texts that were made apart differ in 16 or
//! more. [`bands`] gives the keys under which a fingerprint is kept in
//! any store with exact keys, so that all that differ in three bits or fewer are among those that share a key with it.
//!
//! ```
//! use crawl::simhash::{bands, distance, of_text};
//!
//! let text = "the bees fly from one flower to the next and bring home what they find there all day long until the sun goes down";
//! let (one, other) = (of_text(text), of_text(&text.to_uppercase()));
//! assert_eq!(distance(one, other), 0);
//! assert_eq!(bands(one), bands(other));
//! ```

use xxhash_rust::xxh3::xxh3_64;

/// How many words are hashed together. Single words would find pages alike that only share a vocabulary; with more of them, each
/// word that differs changes more of the hashes.
const WORDS: usize = 2;

/// In how many bits fingerprints may differ so that [`bands`] surely has a key for both.
pub const DISTANCE_MAX: u32 = 3;

/// The fingerprint of a text. Case, white space and punctuation do not count. A text without words has 0.
pub fn of_text(text: &str) -> u64 {
    let mut counts = Counts::default();
    let mut recent = [0_u64; WORDS];
    let mut words = 0_usize;
    let mut lowered = String::new();
    for word in text.split(|character: char| !character.is_alphanumeric()) {
        if word.is_empty() {
            continue;
        }
        recent.rotate_left(1);
        recent[WORDS - 1] = hash_word(word, &mut lowered);
        words += 1;
        if words >= WORDS {
            counts.add(hash_of(&recent));
        }
    }
    // A text of fewer words is hashed as a whole.
    if (1..WORDS).contains(&words) {
        counts.add(hash_of(&recent));
    }
    counts.majority()
}

fn hash_word(word: &str, lowered: &mut String) -> u64 {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if word.bytes().all(is_lower) {
        return xxh3_64(word.as_bytes());
    }
    lowered.clear();
    lowered.extend(word.chars().flat_map(char::to_lowercase));
    xxh3_64(lowered.as_bytes())
}

fn hash_of(words: &[u64; WORDS]) -> u64 {
    let mut bytes = [0; WORDS * 8];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// In how many bits two fingerprints differ.
pub fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// The keys of a fingerprint: which quarter it is, and the sixteen bits of it. Two fingerprints that differ in at most
/// [`DISTANCE_MAX`] bits have at least one of them in common, as three bits cannot fall into four quarters.
pub fn bands(hash: u64) -> [[u8; 3]; 4] {
    std::array::from_fn(|band| {
        let bits = (hash >> (16 * band)) as u16;
        let [high, low] = bits.to_be_bytes();
        [band as u8, high, low]
    })
}

/// How often each bit was set: one number a bit, written across these words, so that all are counted at once.
#[derive(Default)]
struct Counts {
    planes: [u64; 32],
    total: u32,
}

impl Counts {
    fn add(&mut self, hash: u64) {
        let mut carry = hash;
        for plane in &mut self.planes {
            if carry == 0 {
                break;
            }
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        self.total = self.total.saturating_add(1);
    }

    fn of_bit(&self, bit: u32) -> u64 {
        let planes = self.planes.iter().enumerate();
        planes
            .map(|(weight, plane)| (plane >> bit & 1) << weight)
            .sum()
    }

    fn majority(&self) -> u64 {
        let half = u64::from(self.total) / 2;
        let set = |bit: &u32| self.of_bit(*bit) > half;
        (0..64).filter(set).fold(0, |hash, bit| hash | 1 << bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn article(words: usize) -> Vec<String> {
        (0..words)
            .map(|number| format!("word{}", number * 7_919 % 1_000))
            .collect()
    }

    #[test]
    fn a_page_with_another_date_is_near_and_another_page_is_not() {
        let words = article(800);
        let mut changed = words.clone();
        changed[400] = "yesterday".to_owned();
        let other: Vec<_> = words.iter().rev().cloned().collect();
        let hash = of_text(&words.join(" "));
        assert!(distance(hash, of_text(&changed.join(", "))) <= DISTANCE_MAX);
        assert!(distance(hash, of_text(&other.join(" "))) > 10);
    }

    /// A text of so many words, some of them frequent and most rare, as in texts of people.
    fn generated(random: &mut fastrand::Rng, words: usize) -> Vec<String> {
        let word =
            |random: &mut fastrand::Rng| format!("w{}", (5_000_f64.powf(random.f64())) as u32);
        (0..words).map(|_| word(random)).collect()
    }

    /// Of so many texts with one word replaced, how many are near; and how near the nearest two are that were made apart.
    fn near_of(trials: usize, words: usize) -> (usize, u32) {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut near, mut nearest) = (0, 64);
        for _ in 0..trials {
            let text = generated(&mut random, words);
            let mut changed = text.clone();
            changed[random.usize(..words)] = "replaced".to_owned();
            let apart = generated(&mut random, words);
            let hash = of_text(&text.join(" "));
            near += usize::from(distance(hash, of_text(&changed.join(" "))) <= DISTANCE_MAX);
            nearest = nearest.min(distance(hash, of_text(&apart.join(" "))));
        }
        (near, nearest)
    }

    #[test]
    fn most_texts_with_one_word_replaced_are_near() {
        for (words, near_least) in [(150, 150), (400, 250), (800, 280), (1_600, 295)] {
            let (near, nearest) = near_of(300, words);
            assert!(near >= near_least, "{words} words: {near} are near");
            assert!(
                nearest > 10,
                "{words} words: texts made apart differ in {nearest} bits"
            );
        }
    }

    #[test]
    fn short_texts_have_fingerprints_too() {
        assert_eq!(of_text(" ,. "), 0);
        assert_ne!(of_text("one"), of_text("two"));
        assert_ne!(of_text("one two"), of_text("two one"));
        assert_eq!(of_text("Ünï CODE"), of_text("ünï code"));
    }

    proptest! {
        #[test]
        fn near_ones_share_a_key(hash: u64, flipped in prop::collection::btree_set(0_u32..64, 0..=3)) {
            let other = flipped.iter().fold(hash, |hash, bit| hash ^ 1 << bit);
            prop_assert_eq!(distance(hash, other) as usize, flipped.len());
            let others = bands(other);
            prop_assert!(bands(hash).iter().any(|key| others.contains(key)));
        }

        /// The same as counting each bit by itself.
        #[test]
        fn counts_are_counts(hashes in prop::collection::vec(any::<u64>(), 0..100)) {
            let mut counts = Counts::default();
            hashes.iter().for_each(|hash| counts.add(*hash));
            for bit in 0..64 {
                let expected = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
                prop_assert_eq!(counts.of_bit(bit), expected as u64);
            }
        }
    }
}
