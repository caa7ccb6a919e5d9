//! Load drivers: one file per protocol, all of the same shape.
//!
//! A protocol says only how a message is written and how an answer is read ([`Client`]). The
//! loops that move bytes, keep a window of unconfirmed messages, check what arrives and take the
//! time ([`load`]) are the same for every system, so that no system gets a better client.

mod body;
mod connection;
pub mod gamq;
pub mod gamq_udp;
pub mod load;
pub mod nats;
pub mod stomp;

use std::net::SocketAddr;

pub use body::{Body, Tally};
pub use connection::{Closer, Connection, Writer};

/// What can go wrong while a load runs.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The server closed the connection.
    #[error("the server closed the connection while {waiting_for}")]
    Closed {
        /// What the driver was waiting for.
        waiting_for: &'static str,
    },
    /// Nothing came for too long.
    #[error("nothing came for {timeout_seconds} s while {waiting_for}")]
    Silent {
        /// What the driver was waiting for.
        waiting_for: &'static str,
        /// How long was waited.
        timeout_seconds: u64,
    },
    /// The server answered something that was not expected.
    #[error("the server answered unexpectedly: {0}")]
    Refused(String),
    /// What arrived is not what was sent.
    #[error("wrong delivery: {0}")]
    WrongDelivery(String),
}

impl LoadError {
    pub(crate) fn system(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::System {
            action: action.into(),
            source,
        }
    }

    /// An error that shows the start of what the server sent.
    pub(crate) fn refused(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(400)];
        Self::Refused(String::from_utf8_lossy(shown).into_owned())
    }
}

/// The result of running a load.
pub type Result<T> = std::result::Result<T, LoadError>;

/// One published message as bytes, with the places where its numbers go.
///
/// A copy of it with a few digits changed is the cheapest possible encoder, and the same for
/// every protocol.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The whole message as it goes over the wire.
    pub bytes: Vec<u8>,
    /// Where the body's sequence number starts.
    pub sequence_at: usize,
    /// Where the number that the server repeats in its confirmation starts, if it does.
    pub confirmation_at: Option<usize>,
}

impl Frame {
    /// Appends the message with this sequence number.
    pub fn append(&self, sequence: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = body::digits(sequence);
        for at in [Some(self.sequence_at), self.confirmation_at]
            .into_iter()
            .flatten()
        {
            out[start + at..start + at + digits.len()].copy_from_slice(&digits);
        }
    }

    /// Appends the message with another body of the same length; only its confirmation has this
    /// number.
    pub fn append_body(&self, number: u32, body: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.append(number, out);
        let at = start + self.sequence_at;
        out[at..at + body.len()].copy_from_slice(body);
    }
}

/// What the server confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// The message with this sequence number.
    Numbered(u32),
    /// One message; the protocol does not say which.
    Unnumbered,
}

/// One step of reading what a server sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The rest has not come yet.
    Incomplete,
    /// So many bytes are done with, and may have held something of interest.
    Done(usize, Option<T>),
}

/// How one protocol writes and reads.
pub trait Client: Sync {
    /// Greets the server on a new connection.
    fn open(&self, connection: &mut Connection) -> Result<()>;

    /// Makes the connection a consumer. On return the subscription is in force.
    fn subscribe(&self, connection: &mut Connection, destination: &str) -> Result<()>;

    /// Makes the connection a producer whose messages are confirmed or not.
    fn prepare_to_publish(&self, connection: &mut Connection, confirmed: bool) -> Result<()>;

    /// Writes a message to `destination`.
    fn frame(&self, destination: &str, body: &Body, confirmed: bool) -> Frame;

    /// Reads the body of a message; what has to be answered at once goes to `replies`.
    fn read_message<'a>(&self, bytes: &'a [u8], replies: &mut Vec<u8>) -> Result<Step<&'a [u8]>>;

    /// Reads a confirmation.
    fn read_confirmation(&self, bytes: &[u8]) -> Result<Step<Confirmation>>;
}

/// Connects a consumer.
pub fn consumer<C: Client>(
    client: &C,
    address: SocketAddr,
    destination: &str,
) -> Result<Connection> {
    let mut connection = Connection::open(address)?;
    client.open(&mut connection)?;
    client.subscribe(&mut connection, destination)?;
    Ok(connection)
}

/// Connects a producer.
pub fn producer<C: Client>(client: &C, address: SocketAddr, confirmed: bool) -> Result<Connection> {
    let mut connection = Connection::open(address)?;
    client.open(&mut connection)?;
    client.prepare_to_publish(&mut connection, confirmed)?;
    Ok(connection)
}

/// Checks that a message is read only once it is whole, however it is cut into pieces.
#[cfg(test)]
fn check_pieces(client: &impl Client, bytes: &[u8], body: &[u8]) {
    let mut replies = Vec::new();
    for length in 0..bytes.len() {
        let step = client.read_message(&bytes[..length], &mut replies);
        assert_eq!(step.expect("no error"), Step::Incomplete, "{length} bytes");
    }
    let mut followed = bytes.to_vec();
    followed.extend_from_slice(bytes);
    let step = client.read_message(&followed, &mut replies);
    assert_eq!(step.expect("no error"), Step::Done(bytes.len(), Some(body)));
}
