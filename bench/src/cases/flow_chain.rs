//! Events per second through three stages on one node.

use super::worker_tell::rate;
use super::{Case, PeerFigure, Side, Size, Systems, Target};
use crate::streams::chain;

const UNIT: &str = "events/s";
const PEER_NAME: &str = "what we require";
const SIZE: Size = Size::Timed {
    first_messages: 500_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "flow-chain-native",
        description: "Events of four bytes from a provider through three stages of one worker each, all \
                      linked in and in memory, each event a message of its own, until the last stage \
                      has checked the last one. The time includes the start of the provider.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(3_000_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, events| rate(events, chain::through_native),
    },
    Case {
        name: "flow-chain-component",
        description: "As before, with three stages whose workers are components; the provider is linked in.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(1_000_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, events| rate(events, chain::through_components),
    },
];
