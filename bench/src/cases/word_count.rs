//! Lines per second through word count.

use super::nexmark::{with_bytewax, with_timely};
use super::{Case, PeerFigure, Size, Target};
use crate::streams::Query;

const UNIT: &str = "lines/s";

pub(super) const CASES: &[Case] = &[
    Case {
        name: "word-count",
        description: "Lines of ten words, of about eight thousand that are as frequent as their rank says: how often each word \
                      comes, in the end. A stage splits lines, and each word is an event of its own; a keyed stage of two \
                      workers counts them.",
        peer_name: "timely",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::None,
        size: Size::Timed {
            first_messages: 50_000,
        },
        measure: |_, side, lines| with_timely(Query::WordCount, side, lines),
    },
    Case {
        name: "word-count-python",
        description: "As before.",
        peer_name: "Bytewax",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: Size::Fixed {
            messages: 500_000,
            quick_messages: 50_000,
        },
        measure: |_, side, lines| with_bytewax(Query::WordCount, side, lines),
    },
];
