//! Messages per second of each queue and topic, measured from one second to the next.

use std::collections::HashMap;
use std::time::Duration;

use broker::Broker;
use kernel::Destination;
use parking_lot::Mutex;

/// How fast messages come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub in_per_second: f64,
    pub out_per_second: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    came: u64,
    went: u64,
    rate: Rate,
}

/// The rates of all queues and topics.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<Destination, Sample>>);

impl Rates {
    /// The rate over the last second; zero if there was none.
    pub fn of(&self, destination: &Destination) -> Rate {
        let samples = self.0.lock();
        samples
            .get(destination)
            .map(|sample| sample.rate)
            .unwrap_or_default()
    }

    /// Measures everything, `elapsed` after the last time.
    pub fn measure(&self, broker: &Broker, elapsed: Duration) {
        let queues = broker.queues().into_iter().map(|(name, stats)| {
            let totals = stats.totals;
            (Destination::Queue(name), totals.published, totals.delivered)
        });
        let topics = broker.topics().into_iter().map(|(name, stats)| {
            let totals = stats.totals;
            (Destination::Topic(name), totals.published, totals.delivered)
        });
        self.update(queues.chain(topics), elapsed);
    }

    fn update(&self, totals: impl Iterator<Item = (Destination, u64, u64)>, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
        let mut samples = self.0.lock();
        let old = std::mem::take(&mut *samples);
        for (destination, came, went) in totals {
            // What was not there a second ago began at zero.
            let before = old.get(&destination).copied().unwrap_or_default();
            let rate = Rate {
                in_per_second: came.saturating_sub(before.came) as f64 / seconds,
                out_per_second: went.saturating_sub(before.went) as f64 / seconds,
            };
            samples.insert(destination, Sample { came, went, rate });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Name;

    #[test]
    fn rates_are_differences_over_time_and_forgotten_names_go() {
        let rates = Rates::default();
        let orders = Destination::Queue(Name::new("orders").unwrap());
        let step = Duration::from_secs(2);
        rates.update([(orders.clone(), 10, 4)].into_iter(), step);
        assert_eq!(rates.of(&orders).in_per_second, 5.0);
        rates.update([(orders.clone(), 10, 10)].into_iter(), step);
        let rate = Rate {
            in_per_second: 0.0,
            out_per_second: 3.0,
        };
        assert_eq!(rates.of(&orders), rate);
        rates.update(std::iter::empty(), step);
        assert_eq!(rates.of(&orders), Rate::default());
        assert!(rates.0.lock().is_empty());
    }
}
