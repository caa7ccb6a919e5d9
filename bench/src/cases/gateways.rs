//! Producer–consumer and request–reply programs over one to four gateways, as an earlier system was
//! measured.

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::gateways::ask::{self, Pairs};
use crate::gateways::stream::{self, Load};
use crate::gateways::{Access, Gateways, Lengths};
use crate::peers::node::Shared;
use crate::relays::amqp::Keeper;
use crate::workers::{refused, tokio_runtime};

/// Measured by its author with eight consumers of messages of 64 bytes and a prefetch of 8.
const PUBLISHED_64: PeerFigure = PeerFigure::Published(8_400.0);
/// The same with messages of 1,024 bytes.
const PUBLISHED_1024: PeerFigure = PeerFigure::Published(3_097.0);
const PUBLISHED_NAME: &str = "published, eight consumers on RabbitMQ";
const RABBITMQ_NAME: &str = "the same over RabbitMQ and PostgreSQL";

const STREAM_SIZE: Size = Size::Fixed {
    messages: 16_000,
    quick_messages: 8_000,
};
const SLOW_SIZE: Size = Size::Fixed {
    messages: 2_000,
    quick_messages: 500,
};
const HIVEWIRE_SIZE: Size = Size::Fixed {
    messages: 96_000,
    quick_messages: 24_000,
};
/// How many times as many messages go over a Hivewire broker as over RabbitMQ, so that both take long
/// enough to be measured.
const HIVEWIRE_TIMES: u32 = 6;
const ASK_SIZE: Size = Size::Fixed {
    messages: 1_200,
    quick_messages: 400,
};

const SMALL: Load = Load {
    messages: 0,
    bytes: 64,
    prefetch: 256,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "gateways-consume-1",
        description: "Eight consumers take messages of 64 bytes that wait in a queue of RabbitMQ \
                      (AMQP), with commits in PostgreSQL and a prefetch of 256 messages for each. \
                      They are divided among gateways: nodes in processes of their own. Here there is \
                      one. The published figure is of a prefetch of 8 and without commits.",
        measure: |systems, _, messages| consume(systems, Bus::RabbitMq, 1, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-consume-2",
        description: "As before, with two gateways.",
        measure: |systems, _, messages| consume(systems, Bus::RabbitMq, 2, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-consume-3",
        description: "As before, with three gateways.",
        measure: |systems, _, messages| consume(systems, Bus::RabbitMq, 3, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-consume-4",
        description: "As before, with four gateways.",
        measure: |systems, _, messages| consume(systems, Bus::RabbitMq, 4, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-consume-1024-bytes",
        description: "As with one gateway, with messages of 1,024 bytes.",
        peer: PUBLISHED_1024,
        measure: |systems, _, messages| {
            let load = Load {
                bytes: 1_024,
                ..SMALL
            };
            consume(systems, Bus::RabbitMq, 1, load, messages)
        },
        ..CONSUME
    },
    Case {
        name: "gateways-consume-prefetch-8",
        description: "As with one gateway, with a prefetch of 8, as the published figure has it.",
        size: SLOW_SIZE,
        measure: |systems, _, messages| {
            let load = Load {
                prefetch: 8,
                ..SMALL
            };
            consume(systems, Bus::RabbitMq, 1, load, messages)
        },
        ..CONSUME
    },
    Case {
        name: "gateways-consume-prefetch-16",
        description: "As with one gateway, with a prefetch of 16. Compared with a prefetch of 1.",
        size: SLOW_SIZE,
        peer_name: "the same with a prefetch of 1",
        peer: PeerFigure::Measured,
        measure: |systems, side, messages| {
            let prefetch = match side {
                Side::Ours => 16,
                Side::Peer => 1,
            };
            let load = Load { prefetch, ..SMALL };
            consume(systems, Bus::RabbitMq, 1, load, messages)
        },
        ..CONSUME
    },
    Case {
        name: "gateways-hivewire-1",
        description: "Eight consumers, one gateway, messages of 64 bytes, a prefetch of 256 for each, over \
                      a Hivewire broker in a process of its own, with commits in the broker's journal.",
        size: HIVEWIRE_SIZE,
        measure: |systems, _, messages| consume(systems, Bus::Hivewire, 1, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-hivewire-2",
        description: "As before, with two gateways.",
        size: HIVEWIRE_SIZE,
        measure: |systems, _, messages| consume(systems, Bus::Hivewire, 2, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-hivewire-3",
        description: "As before, with three gateways.",
        size: HIVEWIRE_SIZE,
        measure: |systems, _, messages| consume(systems, Bus::Hivewire, 3, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-hivewire-4",
        description: "As before, with four gateways.",
        size: HIVEWIRE_SIZE,
        measure: |systems, _, messages| consume(systems, Bus::Hivewire, 4, SMALL, messages),
        ..CONSUME
    },
    Case {
        name: "gateways-produce-1",
        description: "Eight producers on one gateway fill a queue of a Hivewire broker with durable \
                      messages of 64 bytes.",
        measure: |systems, side, messages| stream_over(systems, side, 1, messages, stream::produce),
        ..COMPARED
    },
    Case {
        name: "gateways-produce-4",
        description: "As before, with four gateways.",
        measure: |systems, side, messages| stream_over(systems, side, 4, messages, stream::produce),
        ..COMPARED
    },
    Case {
        name: "gateways-both-1",
        description: "Eight producers and eight consumers at the same time, all on one gateway, over a \
                      Hivewire broker: messages that are consumed.",
        measure: |systems, side, messages| stream_over(systems, side, 1, messages, stream::both),
        ..COMPARED
    },
    Case {
        name: "gateways-both-2",
        description: "As before, with the producers on one gateway and the consumers on another.",
        measure: |systems, side, messages| stream_over(systems, side, 2, messages, stream::both),
        ..COMPARED
    },
    Case {
        name: "gateways-ask-1",
        description: "Eight requesters, each with one question of 64 bytes open, and eight suppliers \
                      that answer, on one gateway over a Hivewire broker.",
        measure: |systems, side, asks| answers(systems, side, 1, asks),
        ..ASKED
    },
    Case {
        name: "gateways-ask-2",
        description: "As before, with two gateways.",
        measure: |systems, side, asks| answers(systems, side, 2, asks),
        ..ASKED
    },
    Case {
        name: "gateways-ask-3",
        description: "As before, with three gateways.",
        measure: |systems, side, asks| answers(systems, side, 3, asks),
        ..ASKED
    },
    Case {
        name: "gateways-ask-4",
        description: "As before, with four gateways.",
        measure: |systems, side, asks| answers(systems, side, 4, asks),
        ..ASKED
    },
    Case {
        name: "gateways-ask-time-1",
        description: "One requester and one supplier on one gateway over a Hivewire broker: how long an \
                      answer takes on average.",
        measure: |systems, side, asks| round_trip(systems, side, 1, asks),
        ..TIMED
    },
    Case {
        name: "gateways-ask-time-2",
        description: "As before, with the requester on one gateway and the supplier on another.",
        measure: |systems, side, asks| round_trip(systems, side, 2, asks),
        ..TIMED
    },
];

/// What all consumers have in common.
const CONSUME: Case = Case {
    name: "",
    description: "",
    peer_name: PUBLISHED_NAME,
    peer: PUBLISHED_64,
    unit: "messages/s",
    target: Target::None,
    size: STREAM_SIZE,
    measure: |systems, _, messages| consume(systems, Bus::RabbitMq, 1, SMALL, messages),
};

/// What is compared with the same over RabbitMQ.
const COMPARED: Case = Case {
    peer_name: RABBITMQ_NAME,
    peer: PeerFigure::Measured,
    ..CONSUME
};

const ASKED: Case = Case {
    unit: "answers/s",
    size: ASK_SIZE,
    ..COMPARED
};

const TIMED: Case = Case {
    unit: "ms",
    size: Size::Fixed {
        messages: 150,
        quick_messages: 60,
    },
    ..COMPARED
};

/// What carries the messages.
#[derive(Clone, Copy)]
enum Bus {
    RabbitMq,
    Hivewire,
}

impl From<Side> for Bus {
    fn from(side: Side) -> Self {
        match side {
            Side::Ours => Self::Hivewire,
            Side::Peer => Self::RabbitMq,
        }
    }
}

fn gateways(systems: &mut Systems, bus: Bus) -> Result<&mut Gateways> {
    match bus {
        Bus::RabbitMq => {
            if systems.rabbitmq_gateways.is_none() {
                systems.rabbitmq_gateways = Some(over_rabbitmq(systems)?);
            }
            Ok(systems.rabbitmq_gateways.as_mut().expect("just started"))
        }
        Bus::Hivewire => {
            if systems.hivewire_gateways.is_none() {
                systems.hivewire_gateways = Some(over_hivewire(systems)?);
            }
            Ok(systems.hivewire_gateways.as_mut().expect("just started"))
        }
    }
}

fn over_rabbitmq(systems: &mut Systems) -> Result<Gateways> {
    let state = systems.postgres()?.uri();
    let uri = systems.rabbitmq()?.amqp_uri();
    let tokio = tokio_runtime()?;
    let entered = tokio.enter();
    let bus = super::stage_relay::amqp_bus(&uri)?;
    drop(entered);
    let keeper = tokio.block_on(Keeper::start(&uri))?;
    let shared = Shared {
        bus: uri,
        state: Some(state),
    };
    let access = Access::new(bus, Lengths::RabbitMq(Box::new(keeper)), tokio);
    Ok(Gateways::start(&shared, access)?)
}

fn over_hivewire(systems: &mut Systems) -> Result<Gateways> {
    let hivewire = systems.hivewire()?;
    let address = hivewire.stomp_address();
    let lengths = hivewire.queue_lengths()?;
    let tokio = tokio_runtime()?;
    let node = kernel::Name::new("bench").map_err(refused("name a node"))?;
    let bus = tokio.block_on(super::stage_relay::stomp_bus(address, Some(node)))?;
    let shared = Shared {
        bus: format!("stomp://{address}"),
        state: None,
    };
    let access = Access::new(bus, Lengths::Hivewire(lengths), tokio);
    Ok(Gateways::start(&shared, access)?)
}

fn plain(value: f64) -> Measurement {
    Measurement {
        value,
        note: String::new(),
    }
}

fn consume(
    systems: &mut Systems,
    bus: Bus,
    count: usize,
    load: Load,
    messages: u32,
) -> Result<Measurement> {
    let load = Load { messages, ..load };
    let gateways = gateways(systems, bus)?;
    Ok(plain(stream::consume(gateways, count, &load)?))
}

type Program = fn(&mut Gateways, usize, &Load) -> crate::workers::Result<f64>;

fn stream_over(
    systems: &mut Systems,
    side: Side,
    count: usize,
    messages: u32,
    program: Program,
) -> Result<Measurement> {
    let messages = match side {
        Side::Ours => messages * HIVEWIRE_TIMES,
        Side::Peer => messages,
    };
    let load = Load { messages, ..SMALL };
    let gateways = gateways(systems, side.into())?;
    Ok(plain(program(gateways, count, &load)?))
}

fn answers(systems: &mut Systems, side: Side, count: usize, asks: u32) -> Result<Measurement> {
    let pairs = Pairs {
        count: stream::WORKERS,
        requesters: 0..count,
        suppliers: 0..count,
    };
    let answered = ask::ask(gateways(systems, side.into())?, &pairs, asks)?;
    Ok(Measurement {
        value: answered.rate,
        note: format!("{:.1} ms a round trip", answered.round_trip_ms),
    })
}

fn round_trip(systems: &mut Systems, side: Side, count: usize, asks: u32) -> Result<Measurement> {
    let pairs = Pairs {
        count: 1,
        requesters: 0..1,
        suppliers: count - 1..count,
    };
    let answered = ask::ask(gateways(systems, side.into())?, &pairs, asks)?;
    Ok(plain(answered.round_trip_ms))
}
