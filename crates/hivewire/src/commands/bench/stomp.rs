//! The benchmark's STOMP client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use wire::stomp::{self, Command, Decoded, Decoder, Limits, Version};

use super::link::Link;
use super::load::{Consumer, Endpoints, Producer};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What all connections of one run have in common.
#[derive(Clone)]
pub(super) struct Session {
    pub address: SocketAddr,
    pub queue: String,
    pub durable: bool,
    pub window: usize,
    pub login: Option<(String, String)>,
}

pub(super) fn endpoints(session: Session) -> Endpoints {
    let other = session.clone();
    Endpoints {
        producer: Box::new(move || Ok(Box::new(StompProducer::new(&session)?))),
        consumer: Box::new(move || {
            let mut connection = Connection::open(&other)?;
            let destination = format!("/queue/{}", other.queue);
            let headers = [
                ("id", "0"),
                ("destination", &destination),
                ("ack", "auto"),
                ("receipt", "s"),
            ];
            connection.send(Command::Subscribe, headers, None);
            connection.expect(Command::Receipt)?;
            Ok(Box::new(StompConsumer(connection)))
        }),
    }
}

struct Connection {
    link: Link,
    decoder: Decoder,
}

impl Connection {
    fn open(session: &Session) -> anyhow::Result<Self> {
        let mut connection = Self {
            link: Link::connect(session.address)?,
            decoder: Decoder::new(Limits::default()),
        };
        let mut headers = vec![
            ("accept-version", "1.2"),
            ("host", "localhost"),
            ("heart-beat", "0,0"),
        ];
        if let Some((login, passcode)) = &session.login {
            headers.extend([("login", login.as_str()), ("passcode", passcode.as_str())]);
        }
        connection.send(Command::Connect, headers, None);
        connection.expect(Command::Connected)?;
        Ok(connection)
    }

    fn send<'h>(
        &mut self,
        command: Command,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: Option<&[u8]>,
    ) {
        stomp::encode(&mut self.link.output, Version::V1_2, command, headers, body);
    }

    /// Sends what is there and waits for one frame of this kind.
    fn expect(&mut self, expected: Command) -> anyhow::Result<()> {
        self.link.flush()?;
        let end = Instant::now() + CONNECT_TIMEOUT;
        let mut found = false;
        while !found {
            ensure!(
                Instant::now() < end,
                "the node did not answer with {expected}"
            );
            self.frames(|command, _| found |= command == expected)?;
        }
        Ok(())
    }

    /// Reads once and hands on every frame that is complete.
    fn frames(&mut self, mut each: impl FnMut(Command, &[u8])) -> anyhow::Result<()> {
        self.link.read()?;
        let mut used = 0;
        loop {
            match self.decoder.decode(&self.link.input[used..])? {
                Decoded::Incomplete => break,
                Decoded::HeartBeat { consumed } => used += consumed,
                Decoded::Frame { frame, consumed } => {
                    if frame.command == Command::Error {
                        let reason = frame.header("message").unwrap_or_default();
                        bail!("the node refused: {reason}");
                    }
                    each(frame.command, frame.body);
                    used += consumed;
                }
            }
        }
        self.link.input.drain(..used);
        Ok(())
    }
}

struct StompProducer {
    connection: Connection,
    destination: String,
    durable: bool,
    /// Every so many messages one asks for a receipt, which confirms all before it.
    receipt_every: usize,
    since_receipt: usize,
    unconfirmed: usize,
}

impl StompProducer {
    fn new(session: &Session) -> anyhow::Result<Self> {
        // What is stored is confirmed one by one; for the rest a few receipts in a window will do.
        let receipt_every = if session.durable {
            1
        } else {
            (session.window / 4).max(1)
        };
        Ok(Self {
            connection: Connection::open(session)?,
            destination: format!("/queue/{}", session.queue),
            durable: session.durable,
            receipt_every,
            since_receipt: 0,
            unconfirmed: 0,
        })
    }

    fn ask_for_receipt(&mut self) -> Option<(&'static str, &'static str)> {
        self.since_receipt += 1;
        if self.since_receipt < self.receipt_every {
            return None;
        }
        self.since_receipt = 0;
        self.unconfirmed += self.receipt_every;
        Some(("receipt", "r"))
    }
}

impl Producer for StompProducer {
    fn push(&mut self, body: &[u8]) -> anyhow::Result<usize> {
        let receipt = self.ask_for_receipt();
        let persistent = self.durable.then_some(("persistent", "true"));
        let headers = [("destination", self.destination.as_str())];
        let headers = headers.into_iter().chain(persistent).chain(receipt);
        let output = &mut self.connection.link.output;
        stomp::encode(output, Version::V1_2, Command::Send, headers, Some(body));
        Ok(output.len())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.connection.link.flush()
    }

    fn read_confirmations(&mut self) -> anyhow::Result<usize> {
        let mut receipts = 0;
        self.connection
            .frames(|command, _| receipts += usize::from(command == Command::Receipt))?;
        self.unconfirmed = self
            .unconfirmed
            .saturating_sub(receipts * self.receipt_every);
        Ok(self.unconfirmed)
    }

    fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }
}

struct StompConsumer(Connection);

impl Consumer for StompConsumer {
    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
        self.0.frames(|command, body| {
            if command == Command::Message {
                each(body);
            }
        })
    }
}
