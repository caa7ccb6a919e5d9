//! STOMP, with the driver that measures every broker that speaks it.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::runtime::Runtime;

use super::{PREFETCH_COUNT, Queues, Running};
use crate::drivers::stomp::{Acknowledge, Received, Stomp, acknowledgement};
use crate::drivers::{
    Body, Client, Closer, Confirmation, Connection, Frame, LoadError, Step, Writer, consumer,
    producer,
};
use crate::workers::{self, BODY_BYTES, refused};

type Result<T> = std::result::Result<T, LoadError>;

struct Relay {
    closers: [Closer; 2],
    threads: [JoinHandle<Result<()>>; 2],
}

/// Starts a bare relay between queues that are there: one connection consumes, the other publishes.
pub fn start(address: SocketAddr, queues: &Queues) -> workers::Result<Box<dyn Running>> {
    connect(address, queues).map_err(refused("start a bare relay"))
}

fn connect(address: SocketAddr, queues: &Queues) -> Result<Box<dyn Running>> {
    let client = Stomp {
        acknowledge: Acknowledge::ClientIndividual {
            prefetch_count: u32::from(PREFETCH_COUNT),
        },
        persistent: true,
    };
    // These destinations are the queues as they are, whatever their kind.
    let existing = |name: &str| format!("/amq/queue/{name}");
    let frame = client.frame(
        &existing(queues.output.as_str()),
        &Body::new(BODY_BYTES),
        true,
    );
    let giving = producer(&client, address, true)?;
    let taking = consumer(&client, address, &existing(queues.input().as_str()))?;
    let closers = [giving.closer()?, taking.closer()?];
    let (publish, acknowledge) = (giving.writer()?, taking.writer()?);
    let (taken, to_acknowledge) = channel();
    let publishing = move || publish_all(taking, &frame, publish, &taken);
    let acknowledging = move || acknowledge_all(&client, giving, acknowledge, &to_acknowledge);
    Ok(Box::new(Relay {
        closers,
        threads: [
            std::thread::spawn(publishing),
            std::thread::spawn(acknowledging),
        ],
    }))
}

/// The ids by which messages are acknowledged, in the order in which they are published.
type Ids = Vec<Vec<u8>>;

/// Publishes what comes, without waiting for receipts, in one piece for each piece that was read.
fn publish_all(
    mut from: Connection,
    frame: &Frame,
    mut to: Writer,
    taken: &Sender<Ids>,
) -> Result<()> {
    let (mut out, mut number) = (Vec::new(), 0);
    loop {
        let mut ids = Ids::new();
        while let Step::Done(length, received) = Stomp::read_received(from.unread())? {
            if let Some(Received { id, body }) = received {
                frame.append_body(number, body, &mut out);
                ids.push(id.to_vec());
                number += 1;
            }
            from.consume(length);
        }
        if !ids.is_empty() {
            if taken.send(ids).is_err() {
                // Whoever acknowledges has an error to report.
                return Ok(());
            }
            to.write(&out)?;
            out.clear();
        }
        from.fill("waiting for messages")?;
    }
}

/// Acknowledges what has its receipt.
fn acknowledge_all(
    client: &Stomp,
    mut from: Connection,
    mut to: Writer,
    taken: &Receiver<Ids>,
) -> Result<()> {
    let (mut ids, mut out) = (Ids::new(), Vec::new());
    loop {
        while let Step::Done(length, receipt) = client.read_confirmation(from.unread())? {
            from.consume(length);
            if let Some(Confirmation::Numbered(number)) = receipt {
                while ids.len() <= number as usize {
                    match taken.recv() {
                        Ok(some) => ids.extend(some),
                        Err(_) => return Ok(()),
                    }
                }
                acknowledgement(&ids[number as usize], &mut out);
            }
        }
        to.write(&out)?;
        out.clear();
        from.fill("waiting for receipts")?;
    }
}

impl Running for Relay {
    fn stop(self: Box<Self>, _: &Runtime) -> workers::Result<()> {
        let Self { closers, threads } = *self;
        // Nothing is left to do, so that both wait for more. That they end now is no error.
        let is_waiting = threads.iter().all(|thread| !thread.is_finished());
        closers.iter().for_each(Closer::close);
        for thread in threads {
            let ended = thread.join().map_err(|_| "it panicked");
            let ended = ended.map_err(refused("relay"))?;
            if !is_waiting {
                ended.map_err(refused("relay"))?;
            }
        }
        Ok(())
    }
}
