//! A node that hears very many others: what it shows of them, and what it needs for that.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::nodes::roll_out::{Seen, roll_out};

// Nodes; there are ten times as many stages.
const SIZE: Size = Size::Fixed {
    messages: 1_000,
    quick_messages: 30,
};
const LISTS: u32 = 5;
const NOTES: usize = 20;

macro_rules! crowd_of {
    ($rest:literal) => {
        concat!(
            "A node with a broker of its own hears 1,000 others, which are simulated: they send real \
             heartbeats each second and do nothing else. 10,000 stages of one small component are defined \
             on the bus and deployed at the node, which runs its share of them; 100 listen to its events. ",
            $rest
        )
    };
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "control-deploy",
        description: "A component that three nodes have run before is deployed as a keyed stage of six workers, \
                      which all three share; messages wait for it. How long it takes from the request until \
                      the first message was handled and its result came back; the slowest of ten such stages.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(500.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        // Stages.
        size: Size::Fixed {
            messages: 10,
            quick_messages: 2,
        },
        measure: |_: &mut Systems, _: Side, stages| {
            let seen = roll_out(stages)?;
            let slowest = |of: fn(&Seen) -> Duration| {
                let slowest = seen.iter().map(of).max().unwrap_or_default();
                millis(slowest)
            };
            Ok(Measurement {
                value: slowest(|one| one.first),
                note: format!(
                    "all 60 that waited at most {:.0} ms after the request, which was answered after at most {:.0} ms",
                    slowest(|one| one.all),
                    slowest(|one| one.answered),
                ),
            })
        },
    },
    Case {
        name: "control-list-nodes",
        description: crowd_of!(
            "How long `GET /api/v1/nodes?limit=10000` takes, which gives all of them."
        ),
        peer_name: "what we allow",
        peer: PeerFigure::Published(100.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems: &mut Systems, _: Side, nodes| list(systems, nodes, "nodes?limit=10000"),
    },
    Case {
        name: "control-list-stages",
        description: crowd_of!(
            "How long `GET /api/v1/flows` takes, which gives a page of 1,000 stages."
        ),
        peer_name: "what we allow",
        peer: PeerFigure::Published(100.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems: &mut Systems, _: Side, nodes| {
            let page = list(systems, nodes, "flows")?;
            let (took, _) = systems.crowd(nodes)?.list("flows?limit=10000")?;
            Ok(Measurement {
                note: format!("{}; all in one page {:.0} ms", page.note, millis(took)),
                ..page
            })
        },
    },
    Case {
        name: "control-events",
        description: crowd_of!(
            "How long it takes from the request that causes an event until the last of the 100 has heard \
             of it; the slowest of 20 events."
        ),
        peer_name: "what we allow",
        peer: PeerFigure::Published(250.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems: &mut Systems, _: Side, nodes| {
            let crowd = systems.crowd(nodes)?;
            let told = (0..NOTES).map(|_| crowd.tell());
            let mut told = told.collect::<std::result::Result<Vec<Duration>, _>>()?;
            told.sort_unstable();
            Ok(Measurement {
                value: millis(told[told.len() - 1]),
                note: format!("median {:.1} ms", millis(told[told.len() / 2])),
            })
        },
    },
    Case {
        name: "control-memory",
        description: crowd_of!("How much memory the node has then."),
        peer_name: "what we allow",
        peer: PeerFigure::Published(300.0),
        unit: "MB",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems: &mut Systems, _: Side, nodes| {
            let crowd = systems.crowd(nodes)?;
            Ok(Measurement {
                value: crowd.bytes()? as f64 / 1e6,
                note: format!("{} nodes, {} stages", crowd.nodes() + 1, crowd.stages()),
            })
        },
    },
];

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// The slowest of a few.
fn list(systems: &mut Systems, nodes: u32, path: &str) -> Result<Measurement> {
    let crowd = systems.crowd(nodes)?;
    let mut slowest = (Duration::ZERO, 0);
    for _ in 0..LISTS {
        slowest = slowest.max(crowd.list(path)?);
    }
    Ok(Measurement {
        value: millis(slowest.0),
        note: format!("the slowest of {LISTS}; {:.1} MB", slowest.1 as f64 / 1e6),
    })
}
