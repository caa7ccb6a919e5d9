//! Numbers of stages, edges and queues, of one node or of all together, and what changes from one look to the next.

use std::collections::BTreeMap;

use runtime::StageState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a stage is, on all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StageNumbers {
    /// How it is; on several nodes, the worst.
    pub state: StageState,
    /// Whether it takes nothing because somebody wants that.
    pub paused: bool,
    /// Why it stands still, if it does.
    pub stands: Option<String>,
    /// Turns per second, over the last second.
    pub rate: f64,
    /// How long messages wait for its workers, if any did of late; on several nodes, the longest.
    pub latency_ms: Option<LatencyNumbers>,
    /// How many workers it has.
    pub workers: u32,
    /// How many of them are in a turn.
    pub workers_busy: u32,
    /// Failed turns since its start.
    pub failures: u64,
    /// Messages that went to the dead letters.
    pub dead: u64,
    /// Restarts of workers since its start.
    pub restarts: u64,
    /// Turns since its start.
    pub turns: u64,
    /// What came and what became of it; null for providers, and where the engine cannot say.
    pub input: Option<InputNumbers>,
}

/// How long messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LatencyNumbers {
    /// Half of them wait no longer.
    pub p50: f64,
    /// Ninety-nine of a hundred wait no longer.
    pub p99: f64,
}

/// The book of the input of a stage: `in` is `out`, `queued` and `dropped` together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct InputNumbers {
    /// What came.
    #[serde(rename = "in")]
    pub came: u64,
    /// What is done.
    #[serde(rename = "out")]
    pub done: u64,
    /// What waits or is in hand.
    pub queued: u64,
    /// What went to the dead letters, or came too late.
    pub dropped: u64,
    /// How many may wait; null if there is no bound, or it is not known.
    pub room: Option<u64>,
}

/// What was sent over an edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EdgeNumbers {
    /// How many messages.
    #[serde(rename = "in")]
    pub sent: u64,
    /// How many per second, over the last second.
    pub rate: f64,
}

/// How a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct QueueNumbers {
    /// Messages that wait.
    pub waiting: u64,
    /// How many come per second.
    pub in_rate: f64,
    /// How many go per second.
    pub out_rate: f64,
    /// How long the oldest has waited; null if nothing waits.
    pub oldest_ms: Option<u64>,
}

/// All numbers of one node, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub stages: BTreeMap<String, StageNumbers>,
    pub edges: BTreeMap<String, EdgeNumbers>,
    pub queues: BTreeMap<String, QueueNumbers>,
}

/// What differs from what was before; null is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Changes {
    /// By `flow/stage`.
    pub stages: BTreeMap<String, Option<StageNumbers>>,
    /// By `flow/stage.output>target`.
    pub edges: BTreeMap<String, Option<EdgeNumbers>>,
    /// By name.
    pub queues: BTreeMap<String, Option<QueueNumbers>>,
}

/// What there is in several places, and becomes one.
trait Merged: Copy {
    fn merged(self, other: Self) -> Self;
}

impl Merged for EdgeNumbers {
    fn merged(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            rate: self.rate + other.rate,
        }
    }
}

impl Merged for QueueNumbers {
    fn merged(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            in_rate: self.in_rate + other.in_rate,
            out_rate: self.out_rate + other.out_rate,
            oldest_ms: self.oldest_ms.max(other.oldest_ms),
        }
    }
}

impl Merged for InputNumbers {
    fn merged(self, other: Self) -> Self {
        Self {
            came: self.came + other.came,
            done: self.done + other.done,
            queued: self.queued + other.queued,
            dropped: self.dropped + other.dropped,
            room: self.room.merged(other.room),
        }
    }
}

impl Merged for LatencyNumbers {
    fn merged(self, other: Self) -> Self {
        Self {
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
        }
    }
}

impl Merged for u64 {
    fn merged(self, other: Self) -> Self {
        self + other
    }
}

impl<T: Merged> Merged for Option<T> {
    fn merged(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(other)) => Some(one.merged(other)),
            (one, other) => one.or(other),
        }
    }
}

/// The worst first.
fn severity(state: StageState) -> u8 {
    match state {
        StageState::Failed => 3,
        StageState::Handover => 2,
        StageState::Running => 1,
        StageState::Stopping => 0,
    }
}

impl StageNumbers {
    fn merge(&mut self, other: &Self) {
        if severity(other.state) > severity(self.state) {
            self.state = other.state;
        }
        self.paused |= other.paused;
        if self.stands.is_none() {
            self.stands.clone_from(&other.stands);
        }
        self.rate += other.rate;
        self.latency_ms = self.latency_ms.merged(other.latency_ms);
        self.workers += other.workers;
        self.workers_busy += other.workers_busy;
        self.failures += other.failures;
        self.dead += other.dead;
        self.restarts += other.restarts;
        self.turns += other.turns;
        self.input = self.input.merged(other.input);
    }
}

impl Numbers {
    /// Adds those of another node.
    pub fn merge(&mut self, other: &Self) {
        for (name, numbers) in &other.stages {
            match self.stages.get_mut(name) {
                Some(known) => known.merge(numbers),
                None => {
                    self.stages.insert(name.clone(), numbers.clone());
                }
            }
        }
        merge_into(&mut self.edges, &other.edges);
        merge_into(&mut self.queues, &other.queues);
    }

    /// Leaves what belongs to a flow: its stages, its edges, and the queues that these lead to.
    pub fn only(&mut self, flow: &str) {
        let is_of = |name: &str| {
            let stage = name.strip_prefix(flow);
            stage.is_some_and(|stage| stage.starts_with('/'))
        };
        self.stages.retain(|name, _| is_of(name));
        self.edges.retain(|name, _| is_of(name));
        let edges = &self.edges;
        self.queues.retain(|name, _| {
            let target = format!(">queue:{name}");
            edges.keys().any(|edge| edge.ends_with(&target))
        });
    }

    /// What differs from before.
    pub fn since(&self, before: &Self) -> Changes {
        Changes {
            stages: differing(&before.stages, &self.stages),
            edges: differing(&before.edges, &self.edges),
            queues: differing(&before.queues, &self.queues),
        }
    }

    /// Another node says what has changed there.
    pub fn apply(&mut self, changes: Changes) {
        change(&mut self.stages, changes.stages);
        change(&mut self.edges, changes.edges);
        change(&mut self.queues, changes.queues);
    }
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty() && self.edges.is_empty() && self.queues.is_empty()
    }

    /// The same in parts that name no more than so many things.
    pub fn split(mut self, entries_max: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        loop {
            let mut part = Self::default();
            let mut room = entries_max;
            take(&mut self.stages, &mut part.stages, &mut room);
            take(&mut self.edges, &mut part.edges, &mut room);
            take(&mut self.queues, &mut part.queues, &mut room);
            parts.push(part);
            if self.is_empty() {
                return parts;
            }
        }
    }
}

fn take<T>(from: &mut BTreeMap<String, T>, to: &mut BTreeMap<String, T>, room: &mut usize) {
    while *room > 0
        && let Some((name, one)) = from.pop_first()
    {
        to.insert(name, one);
        *room -= 1;
    }
}

fn merge_into<T: Merged>(all: &mut BTreeMap<String, T>, others: &BTreeMap<String, T>) {
    for (name, other) in others {
        let known = all.get(name).copied();
        let merged = known.map_or(*other, |known| known.merged(*other));
        all.insert(name.clone(), merged);
    }
}

fn differing<T: PartialEq + Clone>(
    before: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
) -> BTreeMap<String, Option<T>> {
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), None));
    let changed = now
        .iter()
        .filter(|(name, one)| before.get(*name) != Some(one));
    let changed = changed.map(|(name, one)| (name.clone(), Some(one.clone())));
    gone.chain(changed).collect()
}

fn change<T>(known: &mut BTreeMap<String, T>, changes: BTreeMap<String, Option<T>>) {
    for (name, one) in changes {
        match one {
            Some(one) => known.insert(name, one),
            None => known.remove(&name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(state: StageState, turns: u64, input: Option<u64>) -> StageNumbers {
        StageNumbers {
            state,
            paused: false,
            stands: None,
            rate: 1.5,
            latency_ms: None,
            workers: 2,
            workers_busy: 1,
            failures: 0,
            dead: 0,
            restarts: 0,
            turns,
            input: input.map(|came| InputNumbers {
                came,
                done: came,
                queued: 0,
                dropped: 0,
                room: Some(10),
            }),
        }
    }

    fn numbers(entries: &[(&str, StageNumbers)]) -> Numbers {
        let stages = entries
            .iter()
            .map(|(name, one)| ((*name).to_owned(), one.clone()));
        Numbers {
            stages: stages.collect(),
            ..Numbers::default()
        }
    }

    #[test]
    fn several_nodes_become_one() {
        let mut all = numbers(&[("a/x", stage(StageState::Running, 3, None))]);
        let other = numbers(&[
            ("a/x", stage(StageState::Failed, 4, Some(7))),
            ("a/y", stage(StageState::Running, 1, Some(1))),
        ]);
        all.merge(&other);
        all.merge(&other);
        let x = &all.stages["a/x"];
        assert_eq!((x.state, x.turns, x.workers), (StageState::Failed, 11, 6));
        let input = x.input.unwrap();
        assert_eq!((input.came, input.room), (14, Some(20)));
        assert_eq!(all.stages["a/y"].turns, 2);
    }

    #[test]
    fn changes_lead_from_one_look_to_the_next_however_they_are_split() {
        let before = numbers(&[
            ("a/x", stage(StageState::Running, 3, None)),
            ("a/y", stage(StageState::Running, 3, None)),
        ]);
        let mut now = numbers(&[
            ("a/y", stage(StageState::Running, 3, None)),
            ("b/z", stage(StageState::Stopping, 3, Some(1))),
        ]);
        let edge = EdgeNumbers { sent: 1, rate: 0.0 };
        now.edges.insert("a/y.out>b/z".to_owned(), edge);
        let changes = now.since(&before);
        assert_eq!(changes.stages.len(), 2);
        let text = serde_json::to_string(&changes).unwrap();
        assert!(
            text.contains("\"a/x\":null") && text.contains("\"in\":1"),
            "{text}"
        );
        for entries in 1..5 {
            let mut known = before.clone();
            let parts = changes.clone().split(entries);
            parts.into_iter().for_each(|part| known.apply(part));
            assert_eq!(known, now);
        }
        assert!(now.since(&now).is_empty());
    }

    #[test]
    fn a_flow_has_the_queues_that_its_edges_lead_to() {
        let mut all = numbers(&[
            ("a/x", stage(StageState::Running, 3, None)),
            ("ab/x", stage(StageState::Running, 3, None)),
        ]);
        let edge = EdgeNumbers { sent: 1, rate: 0.0 };
        let queue = QueueNumbers {
            waiting: 1,
            in_rate: 0.0,
            out_rate: 0.0,
            oldest_ms: None,
        };
        for name in ["a/x.out>queue:orders", "ab/x.out>queue:others"] {
            all.edges.insert(name.to_owned(), edge);
        }
        for name in ["orders", "others", "ders"] {
            all.queues.insert(name.to_owned(), queue);
        }
        all.only("a");
        assert_eq!(all.stages.keys().collect::<Vec<_>>(), ["a/x"]);
        assert_eq!(all.queues.keys().collect::<Vec<_>>(), ["orders"]);
    }
}
