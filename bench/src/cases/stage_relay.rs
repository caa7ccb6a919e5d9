//! Messages per second from queue to queue: by a stage, and by a bare relay.

use std::net::SocketAddr;
use std::sync::Arc;

use bus::engines::{AmqpBus, AmqpSettings, StompBus, StompSettings};
use bus::store::{PostgresSettings, PostgresStore};
use bus::{Bus, BusError, StoredBus};
use kernel::Name;
use tokio::runtime::Runtime;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::relays::{self, Origin, Queues, Running, amqp, stage, stomp};
use crate::workers::{self, PATIENCE, refused, tokio_runtime};

const SIZE: Size = Size::Timed {
    first_messages: 10_000,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "stage-rabbitmq-amqp",
        description: "A stage between two queues of RabbitMQ over AMQP, with commits in PostgreSQL. \
                      The messages come from another stage.",
        peer_name: "bare relay, RabbitMQ (AMQP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(0.8),
        size: SIZE,
        measure: |systems, side, messages| {
            over_rabbitmq(systems, side, Protocol::Amqp, Origin::Stage, messages)
        },
    },
    Case {
        name: "stage-rabbitmq-stomp",
        description: "As before, over STOMP.",
        peer_name: "bare relay, RabbitMQ (STOMP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(0.8),
        size: SIZE,
        measure: |systems, side, messages| {
            over_rabbitmq(systems, side, Protocol::Stomp, Origin::Stage, messages)
        },
    },
    Case {
        name: "stage-rabbitmq-amqp-client",
        description: "As the first one, but the messages come from a client: the store remembers \
                      the id of each.",
        peer_name: "bare relay, RabbitMQ (AMQP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::None,
        size: SIZE,
        measure: |systems, side, messages| {
            over_rabbitmq(systems, side, Protocol::Amqp, Origin::Client, messages)
        },
    },
    Case {
        name: "stage-remote-hivewire",
        description: "A stage between two queues of a Hivewire broker in a process of its own, over \
                      STOMP, with commits in the broker's journal.",
        peer_name: "bare relay, RabbitMQ (AMQP)",
        peer: PeerFigure::Measured,
        unit: "messages/s",
        target: Target::AtLeast(5.0),
        size: SIZE,
        measure: |systems, side, messages| match side {
            Side::Ours => over_hivewire(systems, messages),
            Side::Peer => over_rabbitmq(systems, side, Protocol::Amqp, Origin::Stage, messages),
        },
    },
];

/// How RabbitMQ is spoken to.
#[derive(Clone, Copy)]
enum Protocol {
    Amqp,
    Stomp,
}

/// Where RabbitMQ and the shared store are.
struct Addresses {
    amqp: String,
    stomp: SocketAddr,
    store: String,
}

fn addresses(systems: &mut Systems) -> Result<Addresses> {
    let store = systems.postgres()?.uri();
    let rabbitmq = systems.rabbitmq()?;
    Ok(Addresses {
        store,
        amqp: rabbitmq.amqp_uri(),
        stomp: rabbitmq.stomp_address(),
    })
}

/// Connects over AMQP.
pub(super) fn amqp_bus(uri: &str) -> workers::Result<Arc<dyn Bus>> {
    let bus = AmqpBus::start(&AmqpSettings::new(uri)).map_err(refused("connect"))?;
    Ok(Arc::new(bus))
}

/// Connects over STOMP, as a node if it has a name.
pub(super) async fn stomp_bus(
    address: SocketAddr,
    node: Option<Name>,
) -> workers::Result<Arc<dyn Bus>> {
    let mut settings = StompSettings::new(format!("stomp://guest:guest@{address}"));
    settings.node = node;
    let connect = async || -> std::result::Result<StompBus, BusError> {
        let bus = StompBus::start(&settings)?;
        bus.connected(PATIENCE).await?;
        Ok(bus)
    };
    Ok(Arc::new(connect().await.map_err(refused("connect"))?))
}

async fn bus_over(protocol: Protocol, addresses: &Addresses) -> workers::Result<Arc<dyn Bus>> {
    match protocol {
        Protocol::Amqp => amqp_bus(&addresses.amqp),
        Protocol::Stomp => stomp_bus(addresses.stomp, None).await,
    }
}

/// Starts a stage or, as the peer, a bare relay.
async fn start(
    side: Side,
    protocol: Protocol,
    addresses: &Addresses,
    queues: &Queues,
) -> workers::Result<Box<dyn Running>> {
    match (side, protocol) {
        (Side::Ours, _) => {
            let store = PostgresStore::start(&PostgresSettings::new(&addresses.store));
            let store = store.map_err(refused("connect to the store"))?;
            let engine = bus_over(protocol, addresses).await?;
            let bus = Arc::new(StoredBus::new(engine, Arc::new(store)));
            stage::start(bus, queues).await
        }
        (Side::Peer, Protocol::Amqp) => amqp::start(&addresses.amqp, queues).await,
        (Side::Peer, Protocol::Stomp) => stomp::start(addresses.stomp, queues),
    }
}

/// One repetition over RabbitMQ, whose queues are looked at over AMQP.
fn over_rabbitmq(
    systems: &mut Systems,
    side: Side,
    protocol: Protocol,
    origin: Origin,
    messages: u32,
) -> Result<Measurement> {
    let addresses = addresses(systems)?;
    let queues = Queues::named(&systems.fresh_destination())?;
    let tokio = tokio_runtime()?;
    let keeper = tokio.block_on(amqp::Keeper::start(&addresses.amqp))?;
    let relay = tokio.block_on(async {
        let bus = bus_over(protocol, &addresses).await?;
        relays::fill(&bus, &queues, origin, messages).await?;
        start(side, protocol, &addresses, &queues).await
    })?;
    let rate = finish(&tokio, relay, messages, || {
        tokio.block_on(keeper.length(&queues.output))
    })?;
    let emptied: workers::Result<()> = tokio.block_on(async {
        relays::drain(&amqp_bus(&addresses.amqp)?, &queues, messages).await?;
        keeper.delete(&queues.input()).await?;
        keeper.delete(&queues.output).await
    });
    emptied?;
    Ok(rate)
}

fn over_hivewire(systems: &mut Systems, messages: u32) -> Result<Measurement> {
    let queues = Queues::named(&systems.fresh_destination())?;
    let hivewire = systems.hivewire()?;
    let address = hivewire.stomp_address();
    let tokio = tokio_runtime()?;
    let node = Name::new("bench").map_err(refused("name a node"))?;
    let bus = tokio.block_on(stomp_bus(address, Some(node)))?;
    tokio.block_on(relays::fill(&bus, &queues, Origin::Stage, messages))?;
    let relay = tokio.block_on(stage::start(bus.clone(), &queues))?;
    let rate = finish(&tokio, relay, messages, || {
        let length = hivewire.queue_messages(queues.output.as_str());
        length.map_err(refused("look at a queue"))
    })?;
    tokio.block_on(relays::drain(&bus, &queues, messages))?;
    Ok(rate)
}

/// Waits until everything has arrived and ends the relay. There must be no more than that.
fn finish(
    tokio: &Runtime,
    relay: Box<dyn Running>,
    messages: u32,
    mut length: impl FnMut() -> workers::Result<u32>,
) -> workers::Result<Measurement> {
    let rate = relays::watch(messages, &mut length);
    relay.stop(tokio)?;
    let value = rate?;
    relays::expect_length(messages, length()?)?;
    Ok(Measurement {
        value,
        note: String::new(),
    })
}
