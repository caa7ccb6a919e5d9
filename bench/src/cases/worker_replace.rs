//! How long a hand-over to new code can be felt.

use runtime::Delivery;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::workers::replace::{REPLACEMENTS, replace};

const PEER_NAME: &str = "what we allow";
const ALLOWED_MS: PeerFigure = PeerFigure::Published(50.0);
/// Seconds.
const SIZE: Size = Size::Fixed {
    messages: 6,
    quick_messages: 3,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "worker-replace",
        description: "The longest time in which nothing of any one of 16 senders arrives, who \
                      together send 20,000 messages/s through a keyed stage of eight component \
                      workers in memory, while it is replaced five times by a component that is \
                      compiled meanwhile. Nothing may be lost, doubled or out of order.",
        peer_name: PEER_NAME,
        peer: ALLOWED_MS,
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, seconds| measure(seconds, Delivery::Memory),
    },
    Case {
        name: "worker-replace-durable",
        description: "As before with durable messages, published to the queue of the stage; what is \
                      due is on disk before its sender publishes more.",
        peer_name: PEER_NAME,
        peer: ALLOWED_MS,
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, seconds| measure(seconds, Delivery::Durable),
    },
];

fn measure(seconds: u32, delivery: Delivery) -> Result<Measurement> {
    let seen = replace(seconds, delivery)?.checked()?;
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    Ok(Measurement {
        value: milliseconds(seen.gap),
        note: format!(
            "{REPLACEMENTS} replacements at {:.0} messages/s, nothing lost, doubled or out of order; the longest send \
             took {:.1} ms, the latest message came {:.1} ms after it was due",
            seen.rate,
            milliseconds(seen.send),
            milliseconds(seen.late),
        ),
    })
}
