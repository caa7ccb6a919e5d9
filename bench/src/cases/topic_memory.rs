//! How much memory a topic takes whose many subscribers do not read.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::drivers::load::{Load, publish, receive_into};
use crate::drivers::stomp::Stomp;
use crate::drivers::{Client, Connection, LoadError, Tally, producer};
use crate::peers::hivewire::Hivewire;
use crate::peers::{PeerError, ResidentBytes, resident_bytes};

const SUBSCRIBERS: usize = 1_000;
const BODY_BYTES: usize = 1_024;
const WINDOW: u32 = 1_000;
/// Small, so that what is not read stays with the server instead of in the kernel.
const KERNEL_BUFFER_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 4 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const QUIET_TIMEOUT: Duration = Duration::from_secs(5);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub(super) const CASES: &[Case] = &[Case {
    name: "topic-memory",
    description: "How much the broker's memory grows at most while 1,000 subscribers of one topic, \
                  none of which reads, are sent 100,000 messages of 1 KiB over STOMP; compared \
                  with the size of those messages stored once.",
    peer_name: "the messages once",
    peer: PeerFigure::Measured,
    unit: "MiB",
    target: Target::AtMost(2.0),
    size: Size::Fixed {
        messages: 100_000,
        quick_messages: 5_000,
    },
    measure,
}];

fn measure(_: &mut Systems, side: Side, messages: u32) -> Result<Measurement> {
    match side {
        Side::Ours => measure_growth(messages),
        Side::Peer => Ok(Measurement {
            value: f64::from(messages) * BODY_BYTES as f64 / MEBIBYTE,
            note: String::new(),
        }),
    }
}

/// Takes a broker of its own, since memory that other cases left free would hide growth.
fn measure_growth(messages: u32) -> Result<Measurement> {
    let client = Stomp::transient();
    let hivewire = Hivewire::start()?;
    let address = hivewire.stomp_address();
    let load = Load {
        destination: "/topic/bench-memory".to_owned(),
        messages,
        body_bytes: BODY_BYTES,
        window: Some(WINDOW),
    };
    let at_start = memory(&hivewire)?;
    let mut subscribers = Vec::with_capacity(SUBSCRIBERS);
    for _ in 0..SUBSCRIBERS {
        subscribers.push(subscribe(&client, address, &load.destination)?);
    }
    let subscribed = memory(&hivewire)?;
    let mut publisher = producer(&client, address, true)?;
    publish(&client, &mut publisher, &load)?;
    let published = memory(&hivewire)?;
    let read = read_one(&client, &mut subscribers[0], &load)?;
    Ok(Measurement {
        value: mebibytes(published.peak, at_start.now),
        note: format!(
            "{:.0} MiB of it for {SUBSCRIBERS} connections; one subscriber then read {read}",
            mebibytes(subscribed.now, at_start.now)
        ),
    })
}

fn memory(hivewire: &Hivewire) -> Result<ResidentBytes> {
    let process_id = hivewire.process_id().ok_or(PeerError::UnexpectedAnswer {
        peer: "hivewire".to_owned(),
        answer: "it does not run".to_owned(),
    })?;
    Ok(resident_bytes(process_id)?)
}

fn mebibytes(after: u64, before: u64) -> f64 {
    after.saturating_sub(before) as f64 / MEBIBYTE
}

fn subscribe(client: &Stomp, address: SocketAddr, destination: &str) -> Result<Connection> {
    let stream = connect(address)
        .map_err(|error| LoadError::system(format!("connect a subscriber to {address}"), error))?;
    let mut connection = Connection::from_stream(stream, READ_BYTES)?;
    client.open(&mut connection)?;
    client.subscribe(&mut connection, destination)?;
    Ok(connection)
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_recv_buffer_size(KERNEL_BUFFER_BYTES)?;
    socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)?;
    Ok(socket.into())
}

/// Reads what one subscriber is owed, to show whether the broker kept it.
fn read_one(client: &Stomp, subscriber: &mut Connection, load: &Load) -> Result<String> {
    subscriber.set_wait_timeout(QUIET_TIMEOUT)?;
    let mut tally = Tally::new(load.messages);
    let outcome = receive_into(client, subscriber, load, &mut tally);
    let read = format!("{} of {} messages", tally.received(), load.messages);
    match outcome {
        Ok(()) => Ok(read),
        Err(error @ (LoadError::Closed { .. } | LoadError::Silent { .. })) => {
            Ok(format!("{read} ({error})"))
        }
        Err(error) => Err(error.into()),
    }
}
