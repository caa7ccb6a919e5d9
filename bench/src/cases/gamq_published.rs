//! gamq's own measurement: TCP and UDP, with and without acknowledgements.
//!
//! gamq's client waits for each acknowledgement before it goes on, so the window is one; the
//! cases with a wider window show what a better client gets.

use super::throughput::{BODY_BYTES, rate};
use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::drivers::gamq::Gamq;
use crate::drivers::gamq_udp;
use crate::drivers::load::{Load, throughput};

const PEER_NAME: &str = "gamq (published)";
const UNIT: &str = "messages/s";
const SIZE: Size = Size::Timed {
    first_messages: 5_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "gamq-tcp",
        description: "gamq's own measurement over TCP, without acknowledgements.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(15_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| tcp(systems, messages, None),
    },
    Case {
        name: "gamq-tcp-acknowledged",
        description: "gamq's own measurement over TCP, each acknowledgement awaited.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(10_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| tcp(systems, messages, Some(1)),
    },
    Case {
        name: "gamq-tcp-acknowledged-window-1000",
        description: "As before with up to 1,000 acknowledgements outstanding.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(10_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| tcp(systems, messages, Some(1_000)),
    },
    Case {
        name: "gamq-udp",
        description: "gamq's own measurement over UDP, without acknowledgements; what arrived counts.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(30_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| udp(systems, messages, None),
    },
    Case {
        name: "gamq-udp-acknowledged",
        description: "gamq's own measurement over UDP, each acknowledgement awaited.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(34_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| udp(systems, messages, Some(1)),
    },
    Case {
        name: "gamq-udp-acknowledged-window-32",
        description: "As before with up to 32 acknowledgements outstanding.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(34_000.0),
        unit: UNIT,
        target: Target::AtLeast(1.0),
        size: SIZE,
        measure: |systems, _: Side, messages| udp(systems, messages, Some(32)),
    },
];

fn load(systems: &mut Systems, messages: u32, window: Option<u32>) -> Load {
    Load {
        destination: systems.fresh_destination(),
        messages,
        body_bytes: BODY_BYTES,
        window,
    }
}

fn tcp(systems: &mut Systems, messages: u32, window: Option<u32>) -> Result<Measurement> {
    let load = load(systems, messages, window);
    let address = systems.hivewire()?.gamq_address();
    Ok(rate(&throughput(&Gamq, address, &load)?))
}

fn udp(systems: &mut Systems, messages: u32, window: Option<u32>) -> Result<Measurement> {
    let load = load(systems, messages, window);
    let address = systems.hivewire()?.gamq_address();
    let outcome = gamq_udp::throughput(address, &load)?;
    let mut note = format!(
        "{} of {} messages lost ({:.2} %)",
        outcome.sent - outcome.received,
        outcome.sent,
        outcome.loss() * 100.0
    );
    if window.is_some() {
        note.push_str(&format!(
            ", {} acknowledgements missing",
            outcome.unacknowledged
        ));
    }
    Ok(Measurement {
        value: outcome.rate(),
        note,
    })
}
