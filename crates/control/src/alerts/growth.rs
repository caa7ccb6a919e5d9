//! How much counters grew within a time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use kernel::Timestamp;

/// How many counters are followed; further ones are not looked at.
const COUNTERS_MAX: usize = 10_000;
/// How many parts a time is cut into: so many values of each counter are kept, and
/// a few more.
const PARTS: u32 = 30;

/// Counters by name, and what they were.
#[derive(Clone, Debug, Default)]
pub(super) struct Growths {
    counters: HashMap<String, Window>,
    has_looked: bool,
}

/// The values of one counter, the oldest first.
#[derive(Clone, Debug, Default)]
struct Window {
    values: VecDeque<(Timestamp, u64)>,
}

impl Growths {
    /// How much each of these counters grew within the time before `now`. Others are forgotten.
    pub fn measure<'a>(
        &mut self,
        counters: impl Iterator<Item = (&'a str, u64)>,
        within: Duration,
        now: Timestamp,
    ) -> Vec<(&'a str, u64)> {
        let mut old = std::mem::take(&mut self.counters);
        let mut grown = Vec::new();
        for (name, value) in counters.take(COUNTERS_MAX) {
            let mut window = match old.remove(name) {
                Some(window) => window,
                // What was not there at the last look began at zero; at the first one nobody knows.
                None if self.has_looked => Window::since(now, 0),
                None => Window::since(now, value),
            };
            grown.push((name, window.growth(value, within, now)));
            self.counters.insert(name.to_owned(), window);
        }
        self.has_looked = true;
        grown
    }
}

impl Window {
    fn since(now: Timestamp, value: u64) -> Self {
        Self {
            values: VecDeque::from([(now, value)]),
        }
    }

    fn growth(&mut self, value: u64, within: Duration, now: Timestamp) -> u64 {
        let values = &mut self.values;
        // A counter that fell begins anew.
        if values.back().is_some_and(|(_, last)| *last > value) {
            values.clear();
        }
        // The last value from before that time is what the growth is counted from.
        while values
            .get(1)
            .is_some_and(|(at, _)| now.since(*at) >= within)
        {
            values.pop_front();
        }
        let before = values.front().map_or(value, |(_, before)| *before);
        // The latest is always kept; of those before it, one for each part.
        let is_same_part = |before: usize| {
            let (last, before) = (values[before + 1].0, values[before].0);
            last.since(before) < within / PARTS
        };
        if values.len().checked_sub(2).is_some_and(is_same_part) {
            values.pop_back();
        }
        values.push_back((now, value));
        value - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000 * (1_000 + seconds))
    }

    fn grown(growths: &mut Growths, value: u64, seconds: u64) -> u64 {
        growths.measure([("a", value)].into_iter(), WITHIN, at(seconds))[0].1
    }

    #[test]
    fn growth_is_that_within_the_time() {
        let mut growths = Growths::default();
        assert_eq!(grown(&mut growths, 100, 0), 0);
        assert_eq!(grown(&mut growths, 107, 10), 7);
        assert_eq!(grown(&mut growths, 107, 59), 7);
        assert_eq!(grown(&mut growths, 107, 71), 0);
        // One that fell begins anew.
        assert_eq!(grown(&mut growths, 3, 72), 0);
        assert_eq!(grown(&mut growths, 5, 75), 2);
    }

    #[test]
    fn what_came_later_began_at_zero() {
        let mut growths = Growths::default();
        growths.measure(std::iter::empty(), WITHIN, at(0));
        assert_eq!(grown(&mut growths, 4, 1), 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut growths = Growths::default();
        for seconds in 0..10_000 {
            grown(&mut growths, seconds, seconds);
            assert!(growths.counters["a"].values.len() <= PARTS as usize + 3);
        }
        let names: Vec<String> = (0..2 * COUNTERS_MAX).map(|n| n.to_string()).collect();
        let counters = names.iter().map(|name| (name.as_str(), 1));
        growths.measure(counters, WITHIN, at(10_001));
        assert_eq!(growths.counters.len(), COUNTERS_MAX);
        growths.measure(std::iter::empty(), WITHIN, at(10_002));
        assert!(growths.counters.is_empty());
    }
}
