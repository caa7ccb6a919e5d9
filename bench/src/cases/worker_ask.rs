//! Questions per second to one worker, one after another.

use super::worker_tell::rate;
use super::{Case, PeerFigure, Side, Size, Systems, Target};
use crate::workers::{component, kameo, native, ractor};

const SIZE: Size = Size::Timed {
    first_messages: 5_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-ask-native-task",
        description: "Questions from one task to one worker linked in, each after the answer to \
                      the one before. Ours have a timeout, the peer's have none.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "asks/s",
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |_: &mut Systems, side, asks| match side {
            Side::Ours => rate(asks, native::ask_from_task),
            Side::Peer => rate(asks, ractor::ask_from_task),
        },
    },
    Case {
        name: "worker-ask-native-main",
        description: "As before, asked from the main thread, outside of the threads that run \
                      tasks.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "asks/s",
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |_: &mut Systems, side, asks| match side {
            Side::Ours => rate(asks, native::ask_from_main),
            Side::Peer => rate(asks, ractor::ask_from_main),
        },
    },
    Case {
        name: "worker-ask-native-task-kameo",
        description: "As the one asked from a task.",
        peer_name: "kameo",
        peer: PeerFigure::Measured,
        unit: "asks/s",
        target: Target::None,
        size: SIZE,
        measure: |_: &mut Systems, side, asks| match side {
            Side::Ours => rate(asks, native::ask_from_task),
            Side::Peer => rate(asks, kameo::ask_from_task),
        },
    },
    Case {
        name: "worker-ask-component",
        description: "As the one asked from a task, of one worker that is a component.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "asks/s",
        target: Target::None,
        size: SIZE,
        measure: |_: &mut Systems, side, asks| match side {
            Side::Ours => rate(asks, component::ask_from_task),
            Side::Peer => rate(asks, ractor::ask_from_task),
        },
    },
];
