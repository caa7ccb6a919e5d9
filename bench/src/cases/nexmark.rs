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
/// Its windows take a good deal longer.
const PYTHON_WINDOWS_SIZE: Size = Size::Fixed {
    messages: 500_000,
    quick_messages: 100_000,
};
/// Where events only pass through, timely moves none between threads.
const HALF: Target = Target::AtLeast(0.5);

const fn beside_timely(
    name: &'static str,
    description: &'static str,
    target: Target,
    measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
) -> Case {
    Case {
        name,
        description,
        peer_name: "timely",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target,
        size: SIZE,
        measure,
    }
}

const fn beside_bytewax(
    name: &'static str,
    size: Size,
    measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
) -> Case {
    Case {
        name,
        description: "As before.",
        peer_name: "Bytewax",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size,
        measure,
    }
}

pub(super) const CASES: &[Case] = &[
    beside_timely(
        "nexmark-q0",
        "Every event as it came: what it costs to move events and no more.",
        HALF,
        |_, side, events| with_timely(Query::Q0, side, events),
    ),
    beside_bytewax("nexmark-q0-python", PYTHON_SIZE, |_, side, events| {
        with_bytewax(Query::Q0, side, events)
    }),
    beside_timely(
        "nexmark-q1",
        "Every bid with its price in another currency.",
        HALF,
        |_, side, events| with_timely(Query::Q1, side, events),
    ),
    beside_bytewax("nexmark-q1-python", PYTHON_SIZE, |_, side, events| {
        with_bytewax(Query::Q1, side, events)
    }),
    beside_timely(
        "nexmark-q2",
        "Auction and price of the bids on every 123rd auction.",
        HALF,
        |_, side, events| with_timely(Query::Q2, side, events),
    ),
    beside_bytewax("nexmark-q2-python", PYTHON_SIZE, |_, side, events| {
        with_bytewax(Query::Q2, side, events)
    }),
    beside_timely(
        "nexmark-q3",
        "Who sells things of one category in three of the states: persons and auctions, joined by seller. A stage selects \
         the events, a keyed stage of two workers joins them.",
        Target::None,
        |_, side, events| with_timely(Query::Q3, side, events),
    ),
    beside_bytewax("nexmark-q3-python", PYTHON_SIZE, |_, side, events| {
        with_bytewax(Query::Q3, side, events)
    }),
    beside_timely(
        "nexmark-q4",
        "For how much things of each category are sold on average: the highest bid of each auction until it expires, and \
         the averages of those at the end. A stage selects the events, a keyed stage of two workers keeps auctions until \
         they expire, one of one worker averages.",
        Target::None,
        |_, side, events| with_timely(Query::Q4, side, events),
    ),
    beside_bytewax("nexmark-q4-python", PYTHON_SIZE, |_, side, events| {
        with_bytewax(Query::Q4, side, events)
    }),
    beside_timely(
        "nexmark-q5",
        "The auctions with most bids in the last ten seconds, every two seconds. A stage selects bids, a keyed stage of two \
         workers counts them by auction, one of one worker compares.",
        Target::None,
        |_, side, events| with_timely(Query::Q5, side, events),
    ),
    beside_bytewax(
        "nexmark-q5-python",
        PYTHON_WINDOWS_SIZE,
        |_, side, events| with_bytewax(Query::Q5, side, events),
    ),
    beside_timely(
        "nexmark-q7",
        "The highest bid of each second. One worker compares; timely compares in each of its two and then among them.",
        Target::None,
        |_, side, events| with_timely(Query::Q7, side, events),
    ),
    beside_bytewax(
        "nexmark-q7-python",
        PYTHON_WINDOWS_SIZE,
        |_, side, events| with_bytewax(Query::Q7, side, events),
    ),
    beside_timely(
        "nexmark-q8",
        "Who joined and sold something within the same second. A stage selects the events, a keyed stage of two workers \
         joins them by person.",
        Target::None,
        |_, side, events| with_timely(Query::Q8, side, events),
    ),
    beside_bytewax(
        "nexmark-q8-python",
        PYTHON_WINDOWS_SIZE,
        |_, side, events| with_bytewax(Query::Q8, side, events),
    ),
];

pub(super) fn with_timely(query: Query, side: Side, events: u32) -> Result<Measurement> {
    rate(events, |events| match side {
        Side::Ours => checked(query, events, queries::run),
        Side::Peer => checked(query, events, timely::run),
    })
}

pub(super) fn with_bytewax(query: Query, side: Side, events: u32) -> Result<Measurement> {
    rate(events, |events| match side {
        Side::Ours => checked(query, events, queries::run),
        Side::Peer => checked(query, events, bytewax::run),
    })
}
