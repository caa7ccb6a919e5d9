//! The studio: how large it is, how soon it is there, and how it bears a large flow.

use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::browser::{self, STAGES, Seen};

/// Nothing is repeated within a case.
const ONCE: Size = Size::Fixed {
    messages: 1,
    quick_messages: 1,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "studio-size",
        description: "All files of the studio together, compressed with gzip, as browsers fetch them in the end.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(300.0),
        unit: "KiB",
        target: Target::AtMost(1.0),
        size: ONCE,
        measure: |_: &mut Systems, _: Side, _| Ok(browser::size()?.into()),
    },
    Case {
        name: "studio-first-view",
        description: "From the first request of a browser that has nothing cached until the first page is drawn with all that it \
                      shows: what runs, the examples, and the live numbers connected.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(1_000.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: ONCE,
        measure: |systems: &mut Systems, _: Side, _| {
            Ok(systems.studio()?.measure(&["first-view"])?.into())
        },
    },
    Case {
        name: "studio-frames",
        description: "A flow of 500 stages and 1,000 edges runs, about 19,000 turns a second, and somebody drags its canvas about for five \
                      seconds near enough to read, and for five seconds with all of it in view: what ninety-five of a hundred frames of the \
                      screen take at most, in the slower of the two.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(50.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: ONCE,
        measure: |systems: &mut Systems, _: Side, _| {
            let stages = STAGES.to_string();
            Ok(systems.busy_studio()?.measure(&["frames", &stages])?.into())
        },
    },
    Case {
        name: "studio-updates",
        description: "The same flow: how many updates of live numbers a page gets in any second of ten, at most.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(10.0),
        unit: "updates/s",
        target: Target::AtMost(1.0),
        size: ONCE,
        measure: |systems: &mut Systems, _: Side, _| {
            Ok(systems.busy_studio()?.measure(&["updates"])?.into())
        },
    },
    Case {
        name: "studio-day",
        description: "The page of that flow, with a stage and its charts, stays open for a day by a clock that runs faster: by how much \
                      its heap has grown since the first ten minutes. Updates come four times a second, and every timer runs as often as \
                      it would. The whole is run once.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(5.0),
        unit: "MiB",
        target: Target::AtMost(1.0),
        // Hours.
        size: Size::Fixed {
            messages: 24,
            quick_messages: 1,
        },
        measure: |systems: &mut Systems, _: Side, hours| {
            Ok(systems.studio_day(hours)?.clone().into())
        },
    },
];

impl From<Seen> for Measurement {
    fn from(seen: Seen) -> Self {
        Self {
            value: seen.value,
            note: seen.note,
        }
    }
}
