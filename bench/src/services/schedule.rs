//! Which request is due when, fixed before the first one is sent.

use std::time::Duration;

/// Shares are kept exactly within so many requests.
const BLOCK: usize = 100;

/// One request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// When, from the beginning.
    pub at: Duration,
    /// Which, as its place in the list of requests.
    pub request: usize,
}

/// How requests follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// As evenly as can be.
    Even,
    /// As if many clients that know nothing of each other sent them.
    Random,
}

/// All that is sent in an open loop, whatever becomes of it.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// In the order of time.
    pub dues: Vec<Due>,
    /// What is due before this is sent and does not count.
    pub warm_up: Duration,
    /// How long after that something is due.
    pub counted: Duration,
}

impl Schedule {
    /// So many requests in a second, chosen by their number.
    pub fn new(
        arrivals: Arrivals,
        per_second: f64,
        (warm_up, counted): (Duration, Duration),
        seed: u64,
        mut choose: impl FnMut(usize) -> usize,
    ) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let end = (warm_up + counted).as_secs_f64();
        let mut at = 0.0;
        let mut dues = Vec::with_capacity((end * per_second) as usize + 1);
        while at < end {
            dues.push(Due {
                at: Duration::from_secs_f64(at),
                request: choose(dues.len()),
            });
            at += match arrivals {
                Arrivals::Even => 1.0 / per_second,
                // Gaps between independent events are exponential.
                Arrivals::Random => -(1.0 - random.f64()).ln() / per_second,
            };
        }
        Self {
            dues,
            warm_up,
            counted,
        }
    }
}

/// Says of so many requests which are of the rarer kind: of each hundred exactly `percent`, at places drawn by lot.
pub fn rare(count: usize, percent: usize, seed: u64) -> Vec<bool> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kinds = Vec::with_capacity(count + BLOCK);
    while kinds.len() < count {
        let begin = kinds.len();
        kinds.extend((0..BLOCK).map(|place| place < percent));
        random.shuffle(&mut kinds[begin..]);
    }
    kinds.truncate(count);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(9));

    #[test]
    fn shares_are_exact_and_places_differ_by_seed() {
        let kinds = rare(1_000, 15, 1);
        for block in kinds.chunks(BLOCK) {
            assert_eq!(block.iter().filter(|rare| **rare).count(), 15);
        }
        assert_eq!(kinds, rare(1_000, 15, 1));
        assert_ne!(kinds, rare(1_000, 15, 2));
        assert_eq!(rare(30, 100, 1), [true; 30]);
    }

    #[test]
    fn even_arrivals_keep_their_distance() {
        let schedule = Schedule::new(Arrivals::Even, 100.0, TIMES, 1, |number| number % 3);
        assert!((999..=1_001).contains(&schedule.dues.len()));
        assert_eq!(schedule.dues[5].request, 2);
        assert!((schedule.dues[100].at.as_secs_f64() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn random_arrivals_have_the_rate_and_the_spread_of_independent_ones() {
        let schedule = Schedule::new(Arrivals::Random, 1_000.0, TIMES, 1, |_| 0);
        let count = schedule.dues.len() as f64;
        assert!((count - 10_000.0).abs() < 400.0, "{count}");
        assert!(schedule.dues.is_sorted_by_key(|due| due.at));
        let gaps = schedule.dues.windows(2);
        let long = gaps.filter(|pair| pair[1].at - pair[0].at > Duration::from_millis(1));
        // Of exponential gaps 1/e are longer than the mean.
        assert!((long.count() as f64 / count - 0.368).abs() < 0.03);
    }
}
