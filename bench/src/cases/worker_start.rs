//! How fast component workers start and wake up.

use super::worker_tell::rate;
use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::report::thousands;
use crate::workers::plain::{self, Plain};
use crate::workers::{component, ractor};

const START_SIZE: Size = Size::Fixed {
    messages: 1_000,
    quick_messages: 1_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-start-component",
        description: "Component workers started per second, each with an instance that has run its \
                      start code: a stage of 1,000 that is deployed again after it ran and was \
                      stopped. The peer spawns as many actors from the main thread, one after \
                      another, as its own benchmark does.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "workers/s",
        target: Target::AtLeast(1.0),
        size: START_SIZE,
        measure: |_: &mut Systems, side, workers| match side {
            Side::Ours => start(workers),
            Side::Peer => rate(workers, ractor::spawn_from_main),
        },
    },
    Case {
        name: "worker-start-component-tasks",
        description: "As before; the peer spawns from one task per core.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "workers/s",
        target: Target::AtLeast(1.0),
        size: START_SIZE,
        measure: |_: &mut Systems, side, workers| match side {
            Side::Ours => start(workers),
            Side::Peer => rate(workers, ractor::spawn_from_tasks),
        },
    },
    Case {
        name: "worker-start-component-plain",
        description: "As the first one; the peer runs in a process of its own with the system's \
                      allocator, as its users have it unless they choose another. Hivewire's binary \
                      brings mimalloc, which the peer has too in the rows before.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "workers/s",
        target: Target::AtLeast(1.0),
        size: START_SIZE,
        measure: |_: &mut Systems, side, workers| match side {
            Side::Ours => start(workers),
            Side::Peer => plain_rate(Plain::RactorSpawnMain, workers),
        },
    },
    Case {
        name: "worker-start-component-tasks-plain",
        description: "As before; the peer spawns from one task per core.",
        peer_name: "ractor",
        peer: PeerFigure::Measured,
        unit: "workers/s",
        target: Target::AtLeast(1.0),
        size: START_SIZE,
        measure: |_: &mut Systems, side, workers| match side {
            Side::Ours => start(workers),
            Side::Peer => plain_rate(Plain::RactorSpawnTasks, workers),
        },
    },
    Case {
        name: "worker-wake-component",
        description: "How long a question to a component worker takes that was put aside: a new \
                      instance, its saved state, and the answer; the median of 1,000.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(100.0),
        unit: "µs",
        target: Target::AtMost(1.0),
        size: Size::Fixed {
            messages: 1_000,
            quick_messages: 200,
        },
        measure: |_: &mut Systems, _: Side, workers| wake(workers),
    },
];

fn start(workers: u32) -> Result<Measurement> {
    let started = component::start(workers)?;
    let first = rate(workers, |_| Ok(started.first))?;
    let again = rate(workers, |_| Ok(started.again))?;
    Ok(Measurement {
        note: format!("{} workers/s the first time", thousands(first.value)),
        ..again
    })
}

fn plain_rate(what: Plain, workers: u32) -> Result<Measurement> {
    Ok(Measurement {
        value: plain::run(what, workers)?,
        note: String::new(),
    })
}

fn wake(workers: u32) -> Result<Measurement> {
    let waits = component::wake(workers)?;
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1e6;
    Ok(Measurement {
        value: at(50),
        note: format!("p99 {:.0} µs", at(99)),
    })
}
