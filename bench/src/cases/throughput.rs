//! Messages per second through a queue or a subject.

use std::net::SocketAddr;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::drivers::Client;
use crate::drivers::gamq::Gamq;
use crate::drivers::load::{Load, Throughput, throughput};
use crate::drivers::nats::Nats;
use crate::drivers::stomp::{Acknowledge, Stomp};
use crate::peers::hivewire::Hivewire;

pub(super) const BODY_BYTES: usize = 128;
const DURABLE_WINDOW: u32 = 1_000;
const PREFETCH_COUNT: u32 = 100;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "stomp-transient",
        description: "Messages in memory through one queue over STOMP, acknowledged on delivery.",
        peer_name: "RabbitMQ (STOMP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(25.0),
        size: Size::Timed {
            first_messages: 10_000,
        },
        measure: stomp_transient,
    },
    Case {
        name: "stomp-client-individual",
        description: "As before, but the consumer acknowledges each message by a frame of its own, \
                      with at most 100 unacknowledged.",
        peer_name: "RabbitMQ (STOMP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(5.0),
        size: Size::Timed {
            first_messages: 5_000,
        },
        measure: stomp_client_individual,
    },
    Case {
        name: "gamq-transient",
        description: "Messages in memory through one queue over gamq's protocol on TCP, \
                      unacknowledged; the peer by its own protocol.",
        peer_name: "NATS core",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(0.7),
        size: Size::Timed {
            first_messages: 200_000,
        },
        measure: gamq_transient,
    },
    Case {
        name: "stomp-durable-window-1000",
        description: "Messages that survive the server, over STOMP, a receipt for each message, at \
                      most 1,000 without one.",
        peer_name: "RabbitMQ (STOMP, persistent)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(5.0),
        size: Size::Timed {
            first_messages: 10_000,
        },
        measure: stomp_durable,
    },
];

/// A measurement of a rate.
pub(super) fn rate(outcome: &Throughput) -> Measurement {
    Measurement {
        value: outcome.rate(),
        note: String::new(),
    }
}

fn run<C: Client>(
    systems: &mut Systems,
    client: &C,
    address: SocketAddr,
    messages: u32,
    window: Option<u32>,
) -> Result<Throughput> {
    let load = Load {
        destination: systems.fresh_destination(),
        messages,
        body_bytes: BODY_BYTES,
        window,
    };
    Ok(throughput(client, address, &load)?)
}

pub(super) fn stomp_address(systems: &mut Systems, side: Side) -> Result<SocketAddr> {
    Ok(match side {
        Side::Ours => systems.hivewire()?.stomp_address(),
        Side::Peer => systems.rabbitmq()?.stomp_address(),
    })
}

fn stomp_transient(systems: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
    let address = stomp_address(systems, side)?;
    let outcome = run(systems, &Stomp::transient(), address, messages, None)?;
    Ok(rate(&outcome))
}

fn stomp_client_individual(
    systems: &mut Systems,
    side: Side,
    messages: u32,
) -> Result<Measurement> {
    let address = stomp_address(systems, side)?;
    let client = Stomp {
        acknowledge: Acknowledge::ClientIndividual {
            prefetch_count: PREFETCH_COUNT,
        },
        persistent: false,
    };
    let outcome = run(systems, &client, address, messages, None)?;
    Ok(rate(&outcome))
}

fn gamq_transient(systems: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
    let outcome = match side {
        Side::Ours => {
            let address = systems.hivewire()?.gamq_address();
            run(systems, &Gamq, address, messages, None)?
        }
        Side::Peer => {
            let address = systems.nats()?.address();
            run(systems, &Nats, address, messages, None)?
        }
    };
    Ok(rate(&outcome))
}

fn stomp_durable(systems: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
    let address = stomp_address(systems, side)?;
    let before = journal_counts(systems, side)?;
    let window = Some(DURABLE_WINDOW);
    let outcome = run(systems, &Stomp::durable(), address, messages, window)?;
    let mut measurement = rate(&outcome);
    if let (Some(before), Some(after)) = (before, journal_counts(systems, side)?) {
        measurement.note = describe_syncs(&before, &after, &outcome);
    }
    Ok(measurement)
}

struct JournalCounts {
    syncs: f64,
    records: f64,
}

/// What our journal has counted so far; the peer does not tell.
fn journal_counts(systems: &mut Systems, side: Side) -> Result<Option<JournalCounts>> {
    if side == Side::Peer {
        return Ok(None);
    }
    let hivewire: &Hivewire = systems.hivewire()?;
    Ok(Some(JournalCounts {
        syncs: hivewire.metric("hivewire_journal_syncs_total")?,
        records: hivewire.metric("hivewire_journal_records_total")?,
    }))
}

fn describe_syncs(before: &JournalCounts, after: &JournalCounts, outcome: &Throughput) -> String {
    let syncs = (after.syncs - before.syncs).max(1.0);
    format!(
        "{:.0} syncs/s, {:.0} messages and {:.0} records per sync",
        syncs / outcome.elapsed.as_secs_f64(),
        f64::from(outcome.messages) / syncs,
        (after.records - before.records) / syncs,
    )
}
