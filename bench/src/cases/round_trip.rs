//! How long one message takes from a producer to a consumer.

use super::throughput::{BODY_BYTES, stomp_address};
use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::drivers::load::{Load, round_trip};
use crate::drivers::stomp::Stomp;

pub(super) const CASES: &[Case] = &[Case {
    name: "round-trip",
    description: "One message at a time over STOMP from one connection to another; the median of \
                  5,000.",
    peer_name: "RabbitMQ (STOMP)",
    peer: PeerFigure::Measured,
    unit: "µs",
    target: Target::AtMost(0.5),
    size: Size::Fixed {
        messages: 5_000,
        quick_messages: 500,
    },
    measure,
}];

fn measure(systems: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
    let address = stomp_address(systems, side)?;
    let load = Load {
        destination: systems.fresh_destination(),
        messages,
        body_bytes: BODY_BYTES,
        window: None,
    };
    let outcome = round_trip(&Stomp::transient(), address, &load)?;
    Ok(Measurement {
        value: outcome.p50.as_secs_f64() * 1e6,
        note: format!("p99 {:.0} µs", outcome.p99.as_secs_f64() * 1e6),
    })
}
