//! How long a move to another node can be felt.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::nodes::relocation::{RATE, Seen, relocate};

const PEER_NAME: &str = "what we allow";
/// Mebibytes of state.
const SIZE: Size = Size::Fixed {
    messages: 100,
    quick_messages: 10,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "node-move",
        description: "Four of the eight component workers of a keyed stage move to a node that has \
                      just joined and listens for 2.5 s first, while 5,000 messages/s of 1,024 \
                      keys flow through the stage, each of which reads and writes the 2 KiB of its \
                      key. The stage has 100 MiB of state; the broker is a process of its own. How \
                      long after a message was due its result came, at most, for 99 % of the keys \
                      that move. Nothing may be lost, doubled or out of order, and no state may be \
                      missing.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(250.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, mebibytes| {
            let seen = relocate(mebibytes)?;
            Ok(measurement(seen.wait, &seen))
        },
    },
    Case {
        name: "node-move-others",
        description: "As before, for the keys that do not move: by how much the wait that 99 % of their \
                      messages do not exceed is longer during the move than over an equally long time \
                      before, in the same run. If all of them paused together for a hundredth of the \
                      move, it would show. The longest single waits, which two busy cores make long \
                      while nothing moves, too, are in the note.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(25.0),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, mebibytes| {
            let seen = relocate(mebibytes)?;
            let later = seen.others_usual.saturating_sub(seen.others_usual_before);
            Ok(measurement(later, &seen))
        },
    },
];

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn measurement(time: Duration, seen: &Seen) -> Measurement {
    Measurement {
        value: milliseconds(time),
        note: format!(
            "{:.1} MiB of state, {RATE} messages/s, nothing lost, doubled or out of order; the move took {:.1} s; of {} \
             keys that moved one waited {:.1} ms, 99 % at most {:.1} ms; 99 % of the messages of others waited at \
             most {:.1} ms, {:.1} ms before; the longest of them waited {:.1} ms, {:.1} ms before, and {:.1} ms while \
             the node joined",
            seen.state_bytes as f64 / f64::from(1 << 20),
            seen.took.as_secs_f64(),
            seen.moved_keys,
            milliseconds(seen.longest),
            milliseconds(seen.wait),
            milliseconds(seen.others_usual),
            milliseconds(seen.others_usual_before),
            milliseconds(seen.others),
            milliseconds(seen.others_before),
            milliseconds(seen.joining),
        ),
    }
}
