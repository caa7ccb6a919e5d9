//! Messages per second into one worker, without an answer.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::workers::{self, component, kameo, native, ractor};

const SIZE: Size = Size::Timed {
    first_messages: 200_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-tell-native",
        description: "Messages in memory from one task to one worker linked in, until the last one \
                      is handled. The peers' mailboxes have no bound, ours has one.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(2.0),
        size: SIZE,
        measure: |_: &mut Systems, side, messages| match side {
            Side::Ours => rate(messages, native::tell),
            Side::Peer => rate(messages, ractor::tell),
        },
    },
    Case {
        name: "worker-tell-native-kameo",
        description: "As before.",
        peer_name: "kameo",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::None,
        size: SIZE,
        measure: |_: &mut Systems, side, messages| match side {
            Side::Ours => rate(messages, native::tell),
            Side::Peer => rate(messages, kameo::tell),
        },
    },
    Case {
        name: "worker-tell-component",
        description: "As the first one, into one worker that is a component.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |_: &mut Systems, side, messages| match side {
            Side::Ours => rate(messages, component::tell),
            Side::Peer => rate(messages, ractor::tell),
        },
    },
];

/// How many per second that makes.
pub(super) fn rate(
    count: u32,
    run: impl FnOnce(u32) -> workers::Result<Duration>,
) -> Result<Measurement> {
    let elapsed = run(count)?;
    Ok(Measurement {
        value: f64::from(count) / elapsed.as_secs_f64(),
        note: String::new(),
    })
}
