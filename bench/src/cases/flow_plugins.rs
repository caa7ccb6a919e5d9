//! Events per second through flow documents of built-in plug-ins.

use super::worker_tell::rate;
use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::streams::{Query, bytewax, checked, plugins};

const SIZE: Size = Size::Fixed {
    messages: 500_000,
    quick_messages: 100_000,
};
const LINES_SIZE: Size = Size::Fixed {
    messages: 100_000,
    quick_messages: 20_000,
};

const fn beside_bytewax(
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    size: Size,
    measure: fn(&mut Systems, Side, u32) -> Result<Measurement>,
) -> Case {
    Case {
        name,
        description,
        peer_name: "Bytewax",
        peer: PeerFigure::Measured,
        unit,
        target: Target::AtLeast(1.0),
        size,
        measure,
    }
}

pub(super) const CASES: &[Case] = &[
    beside_bytewax(
        "flow-plugins-q0",
        "Nexmark's query 0 as a flow document of what is built in, with expressions instead of code: `map`.",
        "events/s",
        SIZE,
        |_, side, events| measure(Query::Q0, side, events),
    ),
    beside_bytewax(
        "flow-plugins-q1",
        "As before, query 1: `filter`, then `map`.",
        "events/s",
        SIZE,
        |_, side, events| measure(Query::Q1, side, events),
    ),
    beside_bytewax(
        "flow-plugins-q2",
        "As before, query 2: `filter`, then `map`.",
        "events/s",
        SIZE,
        |_, side, events| measure(Query::Q2, side, events),
    ),
    beside_bytewax(
        "flow-plugins-word-count",
        "As before, word count: `flat-map`, then `aggregate`, keyed, with two workers, whose state could be handed over \
         after each batch; it gives the count of a word each time it comes. The peer gives the counts at the end.",
        "lines/s",
        LINES_SIZE,
        |_, side, lines| measure(Query::WordCount, side, lines),
    ),
];

fn measure(query: Query, side: Side, events: u32) -> Result<Measurement> {
    rate(events, |events| match side {
        Side::Ours => checked(query, events, plugins::run),
        Side::Peer => checked(query, events, bytewax::run),
    })
}
