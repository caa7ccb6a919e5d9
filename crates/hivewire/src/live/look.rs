//! What this node knows of its own stages and queues, and how fast it changes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use kernel::Address;
use runtime::StageLook;

use super::numbers::{
    EdgeNumbers, InputNumbers, LatencyNumbers, Numbers, QueueNumbers, StageNumbers,
};
use crate::rest::Running;

/// Over how long rates are measured.
const RATES_OVER: Duration = Duration::from_secs(1);
/// How many queues are told of at most.
const QUEUES_MAX: usize = 1_000;
/// What nodes use for themselves.
const OWN_QUEUES: &str = "hivewire.";

/// What was counted at earlier looks.
#[derive(Default)]
pub(super) struct Looks {
    earlier: VecDeque<(Instant, Totals)>,
}

/// What only ever grows, by what it is of.
#[derive(Default)]
struct Totals {
    turns: HashMap<String, u64>,
    edges: HashMap<String, u64>,
    /// What came, and what went.
    queues: HashMap<String, (u64, u64)>,
}

impl Looks {
    /// How things are now.
    pub fn take(&mut self, running: &Running, now: Instant) -> Numbers {
        let looks = running.runtime().look(None);
        let mut numbers = Numbers::default();
        let mut totals = Totals::default();
        // Those that look longest back, but not too long.
        while self
            .earlier
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= RATES_OVER)
        {
            self.earlier.pop_front();
        }
        let rates = Rates {
            before: self.earlier.front(),
            now,
        };
        self::stages(looks, &rates, &mut numbers, &mut totals);
        self::queues(running, &rates, &mut numbers, &mut totals);
        self.earlier.push_back((now, totals));
        numbers
    }

    /// Nobody looks any more.
    pub fn forget(&mut self) {
        self.earlier.clear();
    }

    /// Whether rates are known.
    pub fn has_rates(&self) -> bool {
        self.earlier.len() > 1
    }
}

struct Rates<'a> {
    before: Option<&'a (Instant, Totals)>,
    now: Instant,
}

impl Rates<'_> {
    /// How much it has grown per second; nothing if it was not there before, or has begun anew.
    fn of(&self, total: u64, before: impl FnOnce(&Totals) -> Option<u64>) -> f64 {
        let Some((at, totals)) = self.before else {
            return 0.0;
        };
        let seconds = self.now.duration_since(*at).as_secs_f64();
        let grown = before(totals).map_or(0, |before| total.saturating_sub(before));
        match seconds > 0.0 {
            // A digit more would only be another number each time.
            true => (grown as f64 / seconds * 10.0).round() / 10.0,
            false => 0.0,
        }
    }
}

fn stages(looks: Vec<StageLook>, rates: &Rates<'_>, numbers: &mut Numbers, totals: &mut Totals) {
    for look in looks {
        let stage = look.stage.to_string();
        for edge in &look.edges {
            let name = format!("{stage}.{}>{}", edge.output, shown(&edge.to));
            let rate = rates.of(edge.sent, |before| before.edges.get(&name).copied());
            let sent = edge.sent;
            numbers
                .edges
                .insert(name.clone(), EdgeNumbers { sent, rate });
            totals.edges.insert(name, sent);
        }
        let rate = rates.of(look.turns, |before| before.turns.get(&stage).copied());
        totals.turns.insert(stage.clone(), look.turns);
        numbers.stages.insert(stage, numbers_of(look, rate));
    }
}

/// A target as documents write it.
fn shown(to: &Address) -> String {
    to.to_string()
}

fn numbers_of(look: StageLook, rate: f64) -> StageNumbers {
    StageNumbers {
        state: look.state,
        paused: look.paused,
        stands: look.stands,
        rate,
        latency_ms: look.latency.map(|latency| LatencyNumbers {
            p50: thousandths(latency.p50_ms),
            p99: thousandths(latency.p99_ms),
        }),
        workers: look.workers,
        workers_busy: look.workers_busy,
        failures: look.failures,
        dead: look.dead,
        restarts: look.restarts,
        turns: look.turns,
        input: look.input.map(|input| InputNumbers {
            came: input.came,
            done: input.done,
            queued: input.queued,
            dropped: input.dropped,
            room: input.room,
        }),
    }
}

fn thousandths(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// The queues of the broker in this process, but for those that belong to stages and nodes.
fn queues(running: &Running, rates: &Rates<'_>, numbers: &mut Numbers, totals: &mut Totals) {
    let Some(broker) = &running.broker else {
        return;
    };
    let addresses = running.deployments.addresses();
    let stages: Vec<String> = addresses
        .iter()
        .map(|stage| stage.queue().to_string())
        .collect();
    let at = broker.clock().now();
    let mut all: BTreeMap<String, _> = BTreeMap::new();
    for (name, stats) in broker.queues() {
        let name = name.to_string();
        let is_own = stages.iter().any(|stage| {
            let rest = name.strip_prefix(stage.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if !is_own && !name.starts_with(OWN_QUEUES) {
            all.insert(name, stats);
        }
    }
    for (name, stats) in all.into_iter().take(QUEUES_MAX) {
        let (came, went) = (stats.totals.published, stats.totals.delivered);
        let queue = QueueNumbers {
            waiting: stats.waiting as u64,
            in_rate: rates.of(came, |before| Some(before.queues.get(&name)?.0)),
            out_rate: rates.of(went, |before| Some(before.queues.get(&name)?.1)),
            oldest_ms: stats
                .oldest
                .map(|oldest| at.since(oldest).as_millis() as u64),
        };
        totals.queues.insert(name.clone(), (came, went));
        numbers.queues.insert(name, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_there_before() {
        let began = Instant::now();
        let now = began + Duration::from_millis(800);
        let mut totals = Totals::default();
        totals.edges.insert("a".to_owned(), 10);
        let before = (began, totals);
        let rates = Rates {
            before: Some(&before),
            now,
        };
        let rate = |name: &str, total| rates.of(total, |before| before.edges.get(name).copied());
        assert_eq!(rate("a", 50), 50.0);
        assert_eq!(rate("a", 9), 0.0, "it has begun anew");
        assert_eq!(rate("b", 50), 0.0, "it was not there");
        let none = Rates { before: None, now };
        assert_eq!(none.of(5, |_| Some(1)), 0.0);
    }
}
