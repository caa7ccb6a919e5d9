//! What it costs that many nodes hear each other.

use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::nodes::fifty::gather;

pub(super) const CASES: &[Case] = &[Case {
    name: "node-fifty",
    description: "Fifty nodes, each a process, on one broker see each other, share a keyed stage, and \
                  have nothing to do. How much of one core the broker needs for their 2,500 heartbeats \
                  delivered per second and for what they look up; a tenth is allowed, so that nine \
                  tenths of its smallest machine are left for messages. Messages must get through the \
                  stage once, whichever node they meet.",
    peer_name: "what we allow",
    peer: PeerFigure::Published(10.0),
    unit: "% of a core",
    target: Target::AtMost(1.0),
    // Nodes.
    size: Size::Fixed {
        messages: 50,
        quick_messages: 8,
    },
    measure: |_: &mut Systems, _: Side, nodes| {
        let seen = gather(nodes)?;
        Ok(Measurement {
            value: seen.broker_load,
            note: format!(
                "{} nodes; {:.1} heartbeats/s, {:.1} KiB/s to each who listens; a node needs {:.2} % of a core and \
                 {:.0} MiB; all had their share {:.1} s after the last had started; {} messages got through once",
                seen.nodes,
                seen.beats,
                seen.bytes / 1024.0,
                seen.node_load,
                seen.node_bytes / f64::from(1 << 20),
                seen.settled.as_secs_f64(),
                seen.messages,
            ),
        })
    },
}];
