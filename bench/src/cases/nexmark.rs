//! Events per second through queries of Nexmark.

use super::worker_tell::rate;
use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::streams::{Query, bytewax, checked, queries, timely};

const UNIT: &str = "events/s";
const SIZE: Size = Size::Timed {
    first_messages: 200_000,
};
/// Python holds all events and results in memory, and reads and sums them up for much longer than it runs.
const PYTHON_SIZE: Size = Size::Fixed {
    messages: 2_000_000,
    quick_messages: 200_000,
};

const fn beside_timely(
    name: &'static str,
    description: &'static str,
    measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
) -> Case {
    Case {
        name,
        description,
        peer_name: "timely",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(0.5),
        size: SIZE,
        measure,
    }
}

const fn beside_bytewax(
    name: &'static str,
    measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
) -> Case {
    Case {
        name,
        description: "As before.",
        peer_name: "Bytewax",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: PYTHON_SIZE,
        measure,
    }
}

pub(super) const CASES: &[Case] = &[
    beside_timely(
        "nexmark-q0",
        "Every event as it came: what it costs to move events and no more.",
        |_, side, events| with_timely(Query::Q0, side, events),
    ),
    beside_bytewax("nexmark-q0-python", |_, side, events| {
        with_bytewax(Query::Q0, side, events)
    }),
    beside_timely(
        "nexmark-q1",
        "Every bid with its price in another currency.",
        |_, side, events| with_timely(Query::Q1, side, events),
    ),
    beside_bytewax("nexmark-q1-python", |_, side, events| {
        with_bytewax(Query::Q1, side, events)
    }),
    beside_timely(
        "nexmark-q2",
        "Auction and price of the bids on every 123rd auction.",
        |_, side, events| with_timely(Query::Q2, side, events),
    ),
    beside_bytewax("nexmark-q2-python", |_, side, events| {
        with_bytewax(Query::Q2, side, events)
    }),
];

fn with_timely(query: Query, side: Side, events: u32) -> Result<Measurement> {
    rate(events, |events| match side {
        Side::Ours => checked(query, events, queries::run),
        Side::Peer => checked(query, events, timely::run),
    })
}

fn with_bytewax(query: Query, side: Side, events: u32) -> Result<Measurement> {
    rate(events, |events| match side {
        Side::Ours => checked(query, events, queries::run),
        Side::Peer => checked(query, events, bytewax::run),
    })
}
