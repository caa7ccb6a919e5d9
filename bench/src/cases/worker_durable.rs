//! Messages per second through a durable queue into a worker that commits.

use super::worker_tell::rate;
use super::{Case, PeerFigure, Side, Size, Systems, Target};
use crate::workers::durable::{self, Writes};

const SIZE: Size = Size::Timed {
    first_messages: 20_000,
};
const PEER_NAME: &str = "our broker, plain consumer";

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-durable",
        description: "Durable messages through a queue into one worker that commits; it writes no \
                      state. Compared with a consumer of the same queue in the same process that \
                      only acknowledges; the publishers are the same, with at most 1,000 \
                      messages without a promise.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(0.5),
        size: SIZE,
        measure: |_: &mut Systems, side, messages| match side {
            Side::Ours => rate(messages, |count| durable::worker(count, Writes::Nothing)),
            Side::Peer => rate(messages, durable::consumer),
        },
    },
    Case {
        name: "worker-durable-state",
        description: "As before, and each message writes one key of the worker's state.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(0.5),
        size: SIZE,
        measure: |_: &mut Systems, side, messages| match side {
            Side::Ours => rate(messages, |count| durable::worker(count, Writes::OneKey)),
            Side::Peer => rate(messages, durable::consumer),
        },
    },
];
