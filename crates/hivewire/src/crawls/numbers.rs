//! How far a crawl is.

use crawl::frontier::{Frontiers, HostView};
use kernel::StageAddress;
use runtime::{StageState, WorkerState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Crawl;
use crate::deploy::Deployments;

/// How many workers of a seed are looked at.
const SEED_WORKERS_MAX: usize = 16;

/// A host for which something waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlHost {
    /// Its name, with its port if that is not the usual one.
    pub host: String,
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// Of these, how many are under way.
    pub under_way: u64,
    /// Requests that were answered.
    pub fetched: u64,
    /// When the next request may start, in milliseconds since 1970.
    pub next_start_ms: u64,
}

impl From<HostView> for CrawlHost {
    fn from(host: HostView) -> Self {
        Self {
            host: host.host,
            waiting: host.waiting,
            under_way: host.under_way,
            fetched: host.fetched,
            next_start_ms: host.next_start_ms,
        }
    }
}

/// A stage of a crawl, on all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlStage {
    /// Its name.
    pub stage: String,
    /// Its plug-in.
    pub plugin: String,
    /// How it is where it is worst; null if it does not run.
    pub state: Option<StageState>,
    /// How many workers it has.
    pub workers: u32,
    /// Messages that wait for it.
    pub waiting: u64,
    /// Turns since its start.
    pub turns: u64,
    /// Turns in the last second.
    pub turns_per_second: f64,
    /// Failed turns since its start.
    pub failures: u64,
}

impl CrawlStage {
    /// Adds what another node has of it.
    pub fn add(&mut self, other: &Self) {
        let rank = |state: Option<StageState>| match state {
            None => 0,
            Some(StageState::Running) => 1,
            Some(StageState::Handover) => 2,
            Some(StageState::Stopping) => 3,
            Some(StageState::Failed) => 4,
        };
        if rank(other.state) > rank(self.state) {
            self.state = other.state;
        }
        self.workers += other.workers;
        self.waiting += other.waiting;
        self.turns += other.turns;
        self.turns_per_second += other.turns_per_second;
        self.failures += other.failures;
    }
}

/// What one node has of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeNumbers {
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// Of these, how many are under way.
    pub under_way: u64,
    /// Requests that were answered.
    pub fetched: u64,
    /// Requests that failed for good.
    pub failed: u64,
    /// Hosts for which most waits, first.
    pub hosts: Vec<CrawlHost>,
    /// Its stages, in the order of their names.
    pub stages: Vec<CrawlStage>,
    /// Whether a seed has begun here.
    pub is_seeded: bool,
    /// Whether a seed is at work here.
    pub is_seeding: bool,
}

impl NodeNumbers {
    /// What all nodes have, with at most so many hosts.
    pub fn sum(parts: Vec<Self>, hosts_max: usize) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.waiting += part.waiting;
            all.under_way += part.under_way;
            all.fetched += part.fetched;
            all.failed += part.failed;
            all.hosts.extend(part.hosts);
            all.is_seeded |= part.is_seeded;
            all.is_seeding |= part.is_seeding;
            for stage in part.stages {
                match all
                    .stages
                    .iter_mut()
                    .find(|known| known.stage == stage.stage)
                {
                    Some(known) => known.add(&stage),
                    None => all.stages.push(stage),
                }
            }
        }
        busiest(&mut all.hosts, hosts_max);
        all
    }

    /// Whether nothing is left to do, as far as can be seen at this moment: the seed has given everything, no message is on its way to a
    /// stage, and no URL waits, or the budget is used up and nothing is under way.
    pub fn is_at_rest(&self, pages_max: Option<u64>) -> bool {
        let is_used_up = pages_max.is_some_and(|max| self.fetched >= max) && self.under_way == 0;
        let on_the_way: u64 = self.stages.iter().map(|stage| stage.waiting).sum();
        let is_seeded = self.is_seeded && !self.is_seeding;
        is_used_up || is_seeded && on_the_way == 0 && self.waiting == 0
    }

    /// Turns of all stages.
    pub fn turns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.turns).sum()
    }
}

fn busiest(hosts: &mut Vec<CrawlHost>, hosts_max: usize) {
    hosts.sort_by(|a, b| {
        let rank = |host: &CrawlHost| std::cmp::Reverse((host.waiting, host.fetched));
        rank(a).cmp(&rank(b)).then_with(|| a.host.cmp(&b.host))
    });
    hosts.truncate(hosts_max);
}

/// What this node has of a crawl.
pub(super) fn of_node(deployments: &Deployments, crawl: &Crawl, hosts_max: usize) -> NodeNumbers {
    let mut numbers = NodeNumbers::default();
    let shared = &deployments.environment().shared;
    let frontiers = shared.get_or_make(Frontiers::default);
    for stage in crawl.frontiers() {
        let Some(view) = frontiers.view(&stage, hosts_max) else {
            continue;
        };
        numbers.waiting += view.waiting;
        numbers.under_way += view.under_way;
        numbers.fetched += view.fetched;
        numbers.failed += view.failed;
        numbers
            .hosts
            .extend(view.hosts.into_iter().map(CrawlHost::from));
    }
    busiest(&mut numbers.hosts, hosts_max);
    let stages = crawl.addresses();
    numbers.stages = stages
        .map(|(address, plugin)| stage(deployments, &address, plugin.to_string()))
        .collect();
    for seed in crawl.seeds() {
        let workers = deployments.workers(&seed, 0, SEED_WORKERS_MAX);
        for worker in workers.unwrap_or_default() {
            numbers.is_seeded |= worker.turns > 0;
            numbers.is_seeding |= worker.state == WorkerState::Busy;
        }
    }
    numbers
}

fn stage(deployments: &Deployments, address: &StageAddress, plugin: String) -> CrawlStage {
    let view = deployments.runtime().stage(address);
    let in_queues = deployments.waiting_in_queues(address);
    let name = address.stage().to_string();
    match view {
        Some(view) => CrawlStage {
            stage: name,
            plugin,
            state: Some(view.state),
            workers: view.workers_count,
            waiting: view.waiting + in_queues,
            turns: view.turns,
            turns_per_second: view.turns_per_second,
            failures: view.failures,
        },
        None => CrawlStage {
            stage: name,
            plugin,
            state: None,
            workers: 0,
            waiting: in_queues,
            turns: 0,
            turns_per_second: 0.0,
            failures: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, waiting: u64) -> CrawlHost {
        CrawlHost {
            host: name.to_owned(),
            waiting,
            ..CrawlHost::default()
        }
    }

    fn stage(name: &str, state: StageState, waiting: u64) -> CrawlStage {
        CrawlStage {
            stage: name.to_owned(),
            plugin: "map".to_owned(),
            state: Some(state),
            workers: 2,
            waiting,
            turns: 5,
            turns_per_second: 1.0,
            failures: 0,
        }
    }

    #[test]
    fn numbers_of_nodes_are_summed() {
        let node = |name: &str, waiting: u64, state| NodeNumbers {
            waiting,
            fetched: 10,
            hosts: vec![host(name, waiting)],
            stages: vec![stage("s", state, waiting)],
            ..NodeNumbers::default()
        };
        let nodes = vec![
            node("a", 1, StageState::Running),
            node("b", 3, StageState::Failed),
        ];
        let all = NodeNumbers::sum(nodes, 1);
        assert_eq!((all.waiting, all.fetched, all.turns()), (4, 20, 10));
        assert_eq!(all.hosts, [host("b", 3)]);
        assert_eq!((all.stages.len(), all.stages[0].workers), (1, 4));
        assert_eq!(all.stages[0].state, Some(StageState::Failed));
    }

    #[test]
    fn a_crawl_rests_when_nothing_is_left_or_its_budget_is_used_up() {
        let rest = NodeNumbers {
            fetched: 10,
            is_seeded: true,
            ..NodeNumbers::default()
        };
        let with = |change: &dyn Fn(&mut NodeNumbers)| {
            let mut numbers = rest.clone();
            change(&mut numbers);
            numbers
        };
        assert!(rest.is_at_rest(None) && rest.is_at_rest(Some(100)));
        assert!(!with(&|numbers| numbers.is_seeded = false).is_at_rest(None));
        assert!(!with(&|numbers| numbers.is_seeding = true).is_at_rest(None));
        let waits = with(&|numbers| numbers.waiting = 1);
        assert!(!waits.is_at_rest(None) && waits.is_at_rest(Some(10)));
        let on_the_way = with(&|numbers| numbers.stages = vec![stage("s", StageState::Running, 1)]);
        assert!(!on_the_way.is_at_rest(None));
        let under_way = with(&|numbers| (numbers.waiting, numbers.under_way) = (1, 1));
        assert!(!under_way.is_at_rest(Some(10)));
    }
}
