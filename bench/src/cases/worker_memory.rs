//! How much memory idle workers take.

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::workers::probe::{self, Probe};

const PEER_NAME: &str = "what we allow";
const PASSIVATED_SIZE: Size = Size::Fixed {
    messages: 100_000,
    quick_messages: 5_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-memory-native",
        description: "Resident memory for each of 1,000,000 idle workers linked in, each of which has \
                  had one message and keeps 8 bytes, in a process of its own.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(300.0),
        unit: "bytes",
        target: Target::AtMost(1.0),
        size: Size::Fixed {
            messages: 1_000_000,
            quick_messages: 50_000,
        },
        measure: |_: &mut Systems, _: Side, workers| bytes(Probe::IdleNative, workers),
    },
    Case {
        name: "worker-memory-passivated",
        description: "Resident memory for each of 100,000 component workers that were put aside, \
                      each of which has had one message and has no state, 1,000 at a time, beside \
                      1,000 others that keep their instances, in a process of its own.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(1_024.0),
        unit: "bytes",
        target: Target::AtMost(1.0),
        size: PASSIVATED_SIZE,
        measure: |_: &mut Systems, _: Side, workers| bytes(Probe::Passivated, workers),
    },
    Case {
        name: "worker-memory-passivated-state",
        description: "As before; each keeps a count in its memory and one in its state, together 16 \
                      bytes.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(1_024.0),
        unit: "bytes",
        target: Target::None,
        size: PASSIVATED_SIZE,
        measure: |_: &mut Systems, _: Side, workers| bytes(Probe::PassivatedState, workers),
    },
];

fn bytes(what: Probe, workers: u32) -> Result<Measurement> {
    Ok(Measurement {
        value: probe::run(what, workers)?,
        note: String::new(),
    })
}
