//! What this node sees of itself and of the others.

use std::collections::BTreeMap;
use std::path::Path;

use broker::{Broker, DEAD_LETTERS};
use control::NodeState;
use control::alerts::{JournalSeen, NodeSeen, NodesSeen, Observation, QueueSeen, StageSeen};
use kernel::{StageAddress, Timestamp};
use runtime::{StageLoad, StageState};

use super::expression::{self, Expression};
use crate::deploy::Deployments;
use crate::rest::{JournalState, Running, journal_state};

/// The expressions of rules, by the rule.
pub(super) type Expressions = BTreeMap<String, Expression>;

/// Why expressions could not be looked at, by the rule.
pub(super) type Troubles = BTreeMap<String, String>;

/// How the journal is, if there is one.
pub(super) async fn journal(running: &Running) -> Option<JournalSeen> {
    let broker = running.broker.as_ref()?;
    let failure = broker.journal().failure();
    Some(match (failure, journal_state(broker).await) {
        (Some(failed), _) => JournalSeen::Failed(failed.reason.to_string()),
        (None, JournalState::Full) => JournalSeen::Full,
        (None, JournalState::Failed) => JournalSeen::Failed("it takes nothing any more".to_owned()),
        (None, _) => JournalSeen::Well,
    })
}

/// Everything but the journal. Blocks for a moment.
pub(super) fn observe(
    running: &Running,
    data: &Path,
    expressions: &Expressions,
    now: Timestamp,
) -> (Observation, Troubles) {
    let stages = running.runtime().loads();
    let (matches, troubles) = looked_at(running, expressions);
    let broker = running.broker.as_deref();
    let observation = Observation {
        nodes: nodes(&running.deployments),
        dead_letters: dead_letters(broker, &stages),
        stages: stages_seen(&stages, running.deployments.failures()),
        queues: broker.map(|broker| queues(broker, now)).unwrap_or_default(),
        disk_free_percent: disk_free_percent(data),
        journal: None,
        expressions: matches,
    };
    (observation, troubles)
}

fn nodes(deployments: &Deployments) -> NodesSeen {
    let Some(agent) = deployments.agent() else {
        return NodesSeen::Alone;
    };
    let me = agent.name().to_string();
    if agent.is_cut_off() {
        return NodesSeen::CutOff { me };
    }
    let nodes = agent.states().into_iter().map(|node| NodeSeen {
        leaves: node.state == NodeState::Draining,
        name: node.name,
        lives: node.lives,
    });
    NodesSeen::Heard {
        me,
        nodes: nodes.collect(),
    }
}

/// Stages that run, and those that could not be loaded, with the reasons.
fn stages_seen(
    loads: &[StageLoad],
    mut failures: BTreeMap<StageAddress, String>,
) -> Vec<StageSeen> {
    let mut seen = Vec::with_capacity(loads.len());
    for load in loads {
        let why = failures.remove(&load.stage);
        let gave_up = || "it gave up after too many failures".to_owned();
        let has_failed = load.state == StageState::Failed;
        seen.push(StageSeen {
            address: load.stage.to_string(),
            restarts: load.restarts,
            failure: has_failed.then(|| why.unwrap_or_else(gave_up)),
            stands: load.stands.clone(),
        });
    }
    seen.extend(failures.into_iter().map(|(stage, why)| StageSeen {
        address: stage.to_string(),
        restarts: 0,
        failure: Some(why),
        stands: None,
    }));
    seen
}

/// Without a broker of its own, a node knows only of those that its stages sent there.
fn dead_letters(broker: Option<&Broker>, stages: &[StageLoad]) -> u64 {
    let Some(broker) = broker else {
        return stages.iter().map(|load| load.dead).sum();
    };
    let queue = broker.find_queue(DEAD_LETTERS);
    queue.map_or(0, |queue| queue.stats().totals.published)
}

fn queues(broker: &Broker, now: Timestamp) -> Vec<QueueSeen> {
    let queues = broker.queues().into_iter();
    let waiting = queues.filter_map(|(name, stats)| {
        Some(QueueSeen {
            name: name.to_string(),
            oldest_age_ms: now.since(stats.oldest?).as_millis() as u64,
        })
    });
    waiting.collect()
}

fn disk_free_percent(data: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(data).ok()?;
    let blocks = disk.f_blocks;
    (blocks > 0).then(|| 100.0 * disk.f_bavail as f64 / blocks as f64)
}

/// What expressions find, by the rule, and what is wrong with the others.
fn looked_at(
    running: &Running,
    expressions: &Expressions,
) -> (BTreeMap<String, Vec<control::alerts::Match>>, Troubles) {
    let (mut matches, mut troubles) = (BTreeMap::new(), Troubles::new());
    if expressions.is_empty() {
        return (matches, troubles);
    }
    let text = kernel::metrics::to_text(&running.registry);
    let samples = expression::samples(&text, expressions.values());
    for (rule, expression) in expressions {
        match expression.matches(&samples) {
            Ok(found) => {
                matches.insert(rule.clone(), found);
            }
            Err(trouble) => {
                troubles.insert(rule.clone(), trouble);
            }
        }
    }
    (matches, troubles)
}
