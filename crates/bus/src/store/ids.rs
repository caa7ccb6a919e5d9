//! Ids of messages, and sets of the numbers in them.

use std::fmt;

use kernel::Name;

/// Begins every id that a commit gives to what it sends.
const OURS: &str = "hw:";

/// The largest number in an id; the store counts with signs.
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

/// The id of a message, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageId {
    /// Given by a commit: `hw:bucket.epoch.stream.number`. The numbers of a sender are those of
    /// one destination, so its receiver sees them without gaps.
    Ours {
        /// All but the number: bucket, epoch and stream.
        sender: String,
        /// From one on.
        number: u64,
    },
    /// Given by anybody else. Nothing is known about it but that it is an id.
    Outside(String),
}

impl MessageId {
    /// The id that this text is.
    pub fn parse(text: &str) -> Self {
        Self::parse_ours(text).unwrap_or_else(|| Self::Outside(text.to_owned()))
    }

    fn parse_ours(text: &str) -> Option<Self> {
        let (sender, number) = text.strip_prefix(OURS)?.rsplit_once('.')?;
        let (rest, stream) = sender.rsplit_once('.')?;
        let (bucket, epoch) = rest.rsplit_once('.')?;
        // What is not exactly of the form that commits write must not end in their numbers.
        Name::new(bucket).ok()?;
        canonical(stream)?;
        canonical(epoch)?;
        let number = canonical(number).filter(|n| (1..=NUMBER_MAX).contains(n))?;
        let sender = sender.to_owned();
        Some(Self::Ours { sender, number })
    }

    /// Whether this text begins like the id that a commit gave.
    pub(crate) fn is_of_commit(text: &str) -> bool {
        text.starts_with(OURS)
    }

    /// The sender of what a bucket sends to one destination.
    pub(crate) fn sender(bucket: &Name, epoch: u64, stream: u64) -> String {
        format!("{bucket}.{epoch}.{stream}")
    }
}

fn canonical(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours { sender, number } => write!(f, "{OURS}{sender}.{number}"),
            Self::Outside(text) => f.write_str(text),
        }
    }
}

/// A set of numbers as ranges: up to the high-water mark, without the gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// First and last of each range, in order; no two touch.
    ranges: Vec<(u64, u64)>,
}

impl Numbers {
    /// Adds a number; says whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= number);
        if after > 0 && self.ranges[after - 1].1 >= number {
            return false;
        }
        let joins_before = after > 0 && self.ranges[after - 1].1 + 1 == number;
        let joins_after = self.ranges.get(after).is_some_and(|r| r.0 == number + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.ranges[after - 1].1 = self.ranges[after].1;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].1 = number,
            (false, true) => self.ranges[after].0 = number,
            (false, false) => self.ranges.insert(after, (number, number)),
        }
        true
    }

    /// The ranges, each with its first and its last number.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_commits_are_told_from_all_others() {
        let bucket = Name::new("shop/orders.b7").unwrap();
        let sender = MessageId::sender(&bucket, 12, 65_537);
        let id = MessageId::Ours { sender, number: 4 };
        let text = id.to_string();
        assert_eq!(text, "hw:shop/orders.b7.12.65537.4");
        assert_eq!(MessageId::parse(&text), id);
        for outside in [
            "",
            "hw:",
            "hw:a.1.2",
            "hw:a.1.2.0",
            "hw:a.1.2.03",
            "hw:a.1.+2.3",
            "hw:.1.2.3",
            "hw:a b.1.2.3",
            "a.1.2.3",
            "hw:a.1.2.9223372036854775807",
        ] {
            let parsed = MessageId::parse(outside);
            assert_eq!(parsed, MessageId::Outside(outside.to_owned()));
            assert_eq!(parsed.to_string(), outside);
        }
    }

    #[test]
    fn numbers_join_into_ranges_in_any_order() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..100 {
            let mut order: Vec<u64> = (1..=40).filter(|n| n % 10 != 0).collect();
            random.shuffle(&mut order);
            let mut numbers = Numbers::default();
            for number in &order {
                assert!(numbers.insert(*number));
                assert!(!numbers.insert(*number));
            }
            assert_eq!(numbers.ranges(), [(1, 9), (11, 19), (21, 29), (31, 39)]);
        }
    }
}
