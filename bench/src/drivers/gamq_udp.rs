//! gamq's text protocol over UDP, where messages may be lost: losses are counted.
//!
//! Each command, body and final full stop is a datagram of its own, as existing clients send
//! them. The consumer is connected over TCP, so what is missing was lost on the way in.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::gamq::{ACKNOWLEDGEMENT, Gamq};
use super::load::Load;
use super::{Body, Client, Connection, LoadError, Result, Step, Tally, body};

/// After so long without an acknowledgement those outstanding are taken for lost.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_millis(50);
/// After so long without a message the rest is taken for lost, once all are sent.
const QUIET_TIMEOUT: Duration = Duration::from_millis(500);
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// How a lossy load went.
#[derive(Debug, Clone, Copy)]
pub struct LossyThroughput {
    /// How many messages were sent.
    pub sent: u32,
    /// How many arrived whole.
    pub received: u32,
    /// How many arrived changed, because datagrams in their middle were lost.
    pub changed: u32,
    /// How many acknowledgements were asked for and did not come.
    pub unacknowledged: u32,
    /// From the first datagram until the last message was received.
    pub elapsed: Duration,
}

impl LossyThroughput {
    /// Messages that arrived, per second.
    pub fn rate(&self) -> f64 {
        f64::from(self.received) / self.elapsed.as_secs_f64()
    }

    /// The share of messages that did not arrive whole.
    pub fn loss(&self) -> f64 {
        f64::from(self.sent - self.received) / f64::from(self.sent)
    }
}

/// Publishes over UDP, receives over TCP, and counts what was lost.
pub fn throughput(address: SocketAddr, load: &Load) -> Result<LossyThroughput> {
    let mut consumer = super::consumer(&Gamq, address, &load.destination)?;
    let socket = open(address, load.window.is_some())?;
    let all_sent = AtomicBool::new(false);
    let started = Instant::now();
    let (sent, received) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sent = publish(&socket, load);
            all_sent.store(true, Ordering::Release);
            sent
        });
        let received = receive(&mut consumer, load, &all_sent);
        (sending.join(), received)
    });
    let unacknowledged = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let received = received?;
    if received.tally.doubled() > 0 {
        received.tally.expect_exact()?;
    }
    Ok(LossyThroughput {
        sent: load.messages,
        received: received.tally.received(),
        changed: received.changed,
        unacknowledged,
        elapsed: received.last_at.duration_since(started),
    })
}

fn open(address: SocketAddr, acknowledged: bool) -> Result<UdpSocket> {
    let failed = |error| LoadError::system(format!("open UDP to {address}"), error);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    socket.connect(address).map_err(failed)?;
    socket
        .set_read_timeout(Some(ACKNOWLEDGEMENT_TIMEOUT))
        .map_err(failed)?;
    SockRef::from(&socket)
        .set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
        .map_err(failed)?;
    if acknowledged {
        socket.send(b"SETACK on\r\n").map_err(failed)?;
    }
    Ok(socket)
}

/// Sends all messages and gives back how many acknowledgements did not come.
fn publish(socket: &UdpSocket, load: &Load) -> Result<u32> {
    let command = format!("PUB {}\r\n", load.destination);
    let mut body = Body::new(load.body_bytes).bytes().to_vec();
    let mut window = Window::default();
    for sequence in 0..load.messages {
        body[..body::DIGITS].copy_from_slice(&body::digits(sequence));
        for datagram in [command.as_bytes(), &body, b".\r\n"] {
            send(socket, datagram)?;
        }
        if let Some(most) = load.window {
            window.outstanding += 1;
            window.wait_until_below(socket, most)?;
        }
    }
    window.wait_until_below(socket, 1)?;
    Ok(window.lost)
}

fn send(socket: &UdpSocket, datagram: &[u8]) -> Result<()> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        // An earlier datagram found no listener. What is lost shows at the consumer.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(LoadError::system("send a datagram", error)),
    }
}

/// Acknowledgements that are awaited.
#[derive(Default)]
struct Window {
    outstanding: u32,
    lost: u32,
}

impl Window {
    /// Waits until fewer than `most` are outstanding; after a silence all of them are lost.
    fn wait_until_below(&mut self, socket: &UdpSocket, most: u32) -> Result<()> {
        let mut answer = [0; 64];
        while self.outstanding >= most {
            match socket.recv(&mut answer) {
                Ok(length) if &answer[..length] == ACKNOWLEDGEMENT => self.outstanding -= 1,
                // A complaint about a piece whose command was lost on the way.
                Ok(_) => {}
                Err(error) if is_silence(&error) => {
                    self.lost += self.outstanding;
                    self.outstanding = 0;
                }
                Err(error) => {
                    return Err(LoadError::system("wait for an acknowledgement", error));
                }
            }
        }
        Ok(())
    }
}

fn is_silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

struct Received {
    tally: Tally,
    changed: u32,
    last_at: Instant,
}

fn receive(connection: &mut Connection, load: &Load, all_sent: &AtomicBool) -> Result<Received> {
    let body = Body::new(load.body_bytes);
    let mut received = Received {
        tally: Tally::new(load.messages),
        changed: 0,
        last_at: Instant::now(),
    };
    connection.set_wait_timeout(QUIET_TIMEOUT)?;
    while !received.tally.is_full() {
        // Read before the wait: a message that comes during it must not be missed.
        let was_all_sent = all_sent.load(Ordering::Acquire);
        match connection.fill("waiting for messages") {
            Ok(()) => count_messages(connection, &body, &mut received)?,
            Err(LoadError::Silent { .. }) if was_all_sent => break,
            Err(LoadError::Silent { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn count_messages(connection: &mut Connection, sent: &Body, received: &mut Received) -> Result<()> {
    while let Step::Done(length, message) =
        Gamq.read_message(connection.unread(), &mut Vec::new())?
    {
        match message {
            Some(message) if message.len() == sent.bytes().len() => {
                received.tally.count_body(message, sent)?;
                received.last_at = Instant::now();
            }
            Some(_) => received.changed += 1,
            None => {}
        }
        connection.consume(length);
    }
    Ok(())
}
