//! The loops that every system is measured with.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Body, Client, Confirmation, Connection, Frame, LoadError, Result, Step, Tally};

/// How many bytes are encoded before they are written in one go.
const WRITE_BYTES: usize = 64 * 1024;

/// One load: a producer, a consumer, and what passes between them.
#[derive(Debug, Clone)]
pub struct Load {
    /// The queue, topic or subject.
    pub destination: String,
    /// How many messages are sent.
    pub messages: u32,
    /// How long each body is.
    pub body_bytes: usize,
    /// How many messages may be unconfirmed; `None` asks for no confirmation.
    pub window: Option<u32>,
}

/// How a load went. Nothing was lost, doubled or changed, or there would be an error instead.
#[derive(Debug, Clone, Copy)]
pub struct Throughput {
    /// How many messages passed.
    pub messages: u32,
    /// From the first byte sent until the last message was received and confirmed.
    pub elapsed: Duration,
}

impl Throughput {
    /// Messages per second.
    pub fn rate(&self) -> f64 {
        f64::from(self.messages) / self.elapsed.as_secs_f64()
    }
}

/// Sends and receives on two connections at once and takes the time.
pub fn throughput<C: Client>(client: &C, address: SocketAddr, load: &Load) -> Result<Throughput> {
    let mut consumer = super::consumer(client, address, &load.destination)?;
    let mut producer = super::producer(client, address, load.window.is_some())?;
    let (close_consumer, close_producer) = (consumer.closer()?, producer.closer()?);
    let started = Instant::now();
    let (sent, received) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sent = publish(client, &mut producer, load);
            if sent.is_err() {
                close_consumer.close();
            }
            sent
        });
        let received = receive(client, &mut consumer, load);
        if received.is_err() {
            close_producer.close();
        }
        (sending.join(), received)
    });
    let elapsed = started.elapsed();
    let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    first_cause(sent, received)?;
    Ok(Throughput {
        messages: load.messages,
        elapsed,
    })
}

/// Of two ends, shows the error that came first: the other is but its consequence.
fn first_cause(sent: Result<()>, received: Result<()>) -> Result<()> {
    match (sent, received) {
        (Err(sent), Err(received @ (LoadError::Silent { .. } | LoadError::WrongDelivery(_)))) => {
            Err(LoadError::Refused(format!("{received}; sender: {sent}")))
        }
        (Err(sent), _) => Err(sent),
        (Ok(()), received) => received,
    }
}

/// Sends all messages, and waits for their confirmations if there is a window.
pub fn publish<C: Client>(client: &C, connection: &mut Connection, load: &Load) -> Result<()> {
    let body = Body::new(load.body_bytes);
    let frame = client.frame(&load.destination, &body, load.window.is_some());
    match load.window {
        None => publish_unconfirmed(connection, &frame, load.messages),
        Some(window) => publish_confirmed(client, connection, &frame, load.messages, window),
    }
}

fn publish_unconfirmed(connection: &mut Connection, frame: &Frame, messages: u32) -> Result<()> {
    let mut out = Vec::with_capacity(WRITE_BYTES + frame.bytes.len());
    for sequence in 0..messages {
        frame.append(sequence, &mut out);
        if out.len() >= WRITE_BYTES {
            connection.write(&out)?;
            out.clear();
        }
    }
    connection.write(&out)
}

fn publish_confirmed<C: Client>(
    client: &C,
    connection: &mut Connection,
    frame: &Frame,
    messages: u32,
    window: u32,
) -> Result<()> {
    let mut out = Vec::with_capacity(WRITE_BYTES + frame.bytes.len());
    let mut confirmed = Tally::new(messages);
    let mut sent = 0;
    while !confirmed.is_full() {
        while sent < messages && sent - confirmed.received() < window && out.len() < WRITE_BYTES {
            frame.append(sent, &mut out);
            sent += 1;
        }
        connection.write(&out)?;
        let written = out.len();
        out.clear();
        // A batch that was cut at its size goes on before answers are waited for.
        if written < WRITE_BYTES {
            connection.fill("waiting for confirmations")?;
        }
        count_confirmations(client, connection, &mut confirmed)?;
    }
    confirmed.expect_exact()
}

fn count_confirmations<C: Client>(
    client: &C,
    connection: &mut Connection,
    confirmed: &mut Tally,
) -> Result<()> {
    while let Step::Done(length, confirmation) = client.read_confirmation(connection.unread())? {
        connection.consume(length);
        match confirmation {
            Some(Confirmation::Numbered(sequence)) => confirmed.count(sequence)?,
            Some(Confirmation::Unnumbered) => confirmed.count(confirmed.received())?,
            None => {}
        }
        if connection.unread().is_empty() {
            break;
        }
    }
    Ok(())
}

/// Receives all messages and checks them.
pub fn receive<C: Client>(client: &C, connection: &mut Connection, load: &Load) -> Result<()> {
    let mut tally = Tally::new(load.messages);
    receive_into(client, connection, load, &mut tally)?;
    tally.expect_exact()
}

/// Receives until the tally is full or an error ends it; the tally then says how far it came.
pub fn receive_into<C: Client>(
    client: &C,
    connection: &mut Connection,
    load: &Load,
    tally: &mut Tally,
) -> Result<()> {
    let body = Body::new(load.body_bytes);
    let mut replies = Vec::new();
    while !tally.is_full() {
        connection.fill("waiting for messages")?;
        while let Step::Done(length, message) =
            client.read_message(connection.unread(), &mut replies)?
        {
            if let Some(message) = message {
                tally.count_body(message, &body)?;
            }
            connection.consume(length);
        }
        if !replies.is_empty() {
            connection.write(&replies)?;
            replies.clear();
        }
    }
    Ok(())
}

/// How long messages took from one connection to another.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// Half of them took no longer.
    pub p50: Duration,
    /// Ninety-nine in a hundred took no longer.
    pub p99: Duration,
}

/// Sends one message at a time and waits until it arrives on a second connection.
pub fn round_trip<C: Client>(client: &C, address: SocketAddr, load: &Load) -> Result<RoundTrip> {
    let mut consumer = super::consumer(client, address, &load.destination)?;
    let mut producer = super::producer(client, address, false)?;
    let body = Body::new(load.body_bytes);
    let frame = client.frame(&load.destination, &body, false);
    let mut tally = Tally::new(load.messages);
    let mut durations = Vec::with_capacity(load.messages as usize);
    let mut out = Vec::new();
    for sequence in 0..load.messages {
        out.clear();
        frame.append(sequence, &mut out);
        let started = Instant::now();
        producer.write(&out)?;
        receive_one(client, &mut consumer, &body, &mut tally)?;
        durations.push(started.elapsed());
    }
    tally.expect_exact()?;
    durations.sort_unstable();
    let at = |share: f64| durations[((durations.len() - 1) as f64 * share) as usize];
    Ok(RoundTrip {
        p50: at(0.50),
        p99: at(0.99),
    })
}

fn receive_one<C: Client>(
    client: &C,
    connection: &mut Connection,
    body: &Body,
    tally: &mut Tally,
) -> Result<()> {
    let mut replies = Vec::new();
    let before = tally.received();
    connection.wait_for("waiting for one message", |bytes| {
        match client.read_message(bytes, &mut replies)? {
            Step::Incomplete => Ok(Step::Incomplete),
            Step::Done(length, None) => Ok(Step::Done(length, None)),
            Step::Done(length, Some(message)) => {
                tally.count_body(message, body)?;
                Ok(Step::Done(length, Some(())))
            }
        }
    })?;
    if tally.received() != before + 1 {
        return Err(LoadError::WrongDelivery("more than one message".to_owned()));
    }
    if !replies.is_empty() {
        connection.write(&replies)?;
    }
    Ok(())
}
