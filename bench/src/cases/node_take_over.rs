//! How long the keys of a node that dies are without service.

use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::nodes::take_over::take_over;

pub(super) const CASES: &[Case] = &[Case {
    name: "node-take-over",
    description: "One of three nodes that share a keyed stage is killed (SIGKILL), the one at which \
                  messages come in, with a heartbeat each second, as usual, and 1,000 messages/s of 512 \
                  keys. How long it takes until every key that it had is served again, that is, until \
                  the result came of a message that was due after its death. Nothing may be lost, \
                  doubled or out of order.",
    peer_name: "what we allow",
    peer: PeerFigure::Published(10.0),
    unit: "s",
    target: Target::AtMost(1.0),
    // Seconds before it dies.
    size: Size::Fixed {
        messages: 5,
        quick_messages: 2,
    },
    measure: |_: &mut Systems, _: Side, seconds| {
        let seen = take_over(seconds)?;
        Ok(Measurement {
            value: seen.took.as_secs_f64(),
            note: format!(
                "{} keys, the first of which was served after {:.1} s; nothing lost, doubled or out of order",
                seen.keys,
                seen.first.as_secs_f64()
            ),
        })
    },
}];
