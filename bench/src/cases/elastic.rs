//! How late events are while a stage grows, shrinks and moves its buckets.

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::elastic::moves::{self, Moved};
use crate::elastic::staircase::Staircase;

const PEER_NAME: &str = "what we allow";
/// Hundredths of the whole time.
const STAIRCASE_SIZE: Size = Size::Fixed {
    messages: 100,
    quick_messages: 8,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "flow-staircase",
        description: "A load that rises to 50,000, 100,000 and 150,000 events/s, stays for 80 s and falls again step by \
                      step, 250 s in all, over a keyed stage that counts events by key and scales itself. How late events \
                      are on average in the worst second, after they were due. On two cores more workers that compute would \
                      not help, so each worker waits 4 ms once in a hundred events: that is its service time. Nothing may be \
                      lost, doubled or out of order within its key. The whole is run once.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(100.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: STAIRCASE_SIZE,
        measure: |systems: &mut Systems, _: Side, hundredths| {
            let (scaled, _) = systems.staircases(hundredths)?;
            Ok(Measurement {
                value: scaled.average_ms_max,
                note: note(scaled),
            })
        },
    },
    Case {
        name: "flow-staircase-p99",
        description: "As before: ninety-nine of a hundred events of the whole run were not later.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(250.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: STAIRCASE_SIZE,
        measure: |systems: &mut Systems, _: Side, hundredths| {
            let (scaled, _) = systems.staircases(hundredths)?;
            Ok(Measurement {
                value: scaled.p99_ms,
                note: String::new(),
            })
        },
    },
    Case {
        name: "flow-staircase-fixed",
        description: "As the first one, with the four workers that it begins with and no more: why scaling is needed.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(100.0),
        unit: "ms",
        target: Target::None,
        size: STAIRCASE_SIZE,
        measure: |systems: &mut Systems, _: Side, hundredths| {
            let (_, fixed) = systems.staircases(hundredths)?;
            Ok(Measurement {
                value: fixed.average_ms_max,
                note: note(fixed),
            })
        },
    },
    Case {
        name: "flow-move",
        description: "Buckets of a keyed stage of eight workers move to other workers, one after another, while 100,000 \
                      events/s flow through it. How long ninety-nine of a hundred of them paused at most. Nothing may be \
                      lost, doubled or out of order within its key.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(20.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        // Moves.
        size: Size::Fixed {
            messages: 10_000,
            quick_messages: 500,
        },
        measure: |_: &mut Systems, _: Side, count| measure_moves(count),
    },
];

fn note(run: &Staircase) -> String {
    format!(
        "{} events, {} workers at most, {} decisions, p99 {:.0} ms; the worst was second {}",
        run.events, run.workers_max, run.decisions, run.p99_ms, run.worst_second
    )
}

fn measure_moves(count: u32) -> Result<Measurement> {
    let Moved {
        moves,
        p50_ms,
        p99_ms,
        max_ms,
        events,
    } = moves::relocate(count)?;
    Ok(Measurement {
        value: p99_ms,
        note: format!(
            "{moves} moves, {events} events meanwhile, none lost, doubled or out of order; p50 {p50_ms:.2} ms, longest {max_ms:.1} ms"
        ),
    })
}
