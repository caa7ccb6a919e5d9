//! How evenly nodes share stages, and how much moves when one more joins.

use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::nodes::shares::share;

const PEER_NAME: &str = "what we allow";
/// Stages.
const SIZE: Size = Size::Fixed {
    messages: 8,
    quick_messages: 4,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "node-shares",
        description: "Three nodes share eight keyed stages. How many hundredths of a stage lie between \
                      the node with most and the one with least of it, at most, as the nodes themselves \
                      say.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(6.0),
        unit: "%",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, stages| Ok(largest(&share(stages)?.differences)),
    },
    Case {
        name: "node-shares-moved",
        description: "As before. How many hundredths of a stage are on another node after the third one \
                      has joined the two, at most, as the nodes say in their heartbeats.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(40.0),
        unit: "%",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, stages| Ok(largest(&share(stages)?.moved)),
    },
];

/// The largest figure of all stages.
fn largest(figures: &[f64]) -> Measurement {
    let all: Vec<String> = figures.iter().map(|one| format!("{one:.1}")).collect();
    Measurement {
        value: figures.iter().copied().fold(0.0, f64::max),
        note: format!("of each stage: {} %", all.join(", ")),
    }
}
