//! STOMP 1.0, 1.1 and 1.2: frames to bytes and back.
//!
//! [`Decoder`] reads frames in place: a [`Frame`] borrows its headers and its body from the bytes
//! it was read from, and ordinary frames allocate nothing. [`encode`] writes a whole frame; a
//! server that writes millions of them puts them together from [`begin`], [`header`],
//! [`header_number`], [`header_raw`] and [`finish`].
//!
//! The versions differ in three ways that matter here:
//!
//! | | 1.0 | 1.1 | 1.2 |
//! |---|---|---|---|
//! | escapes in headers | none | `\n` `\c` `\\` | also `\r` |
//! | a line ends in | LF | LF | LF or CR LF |
//! | headers are | UTF-8, else read as Latin-1 | UTF-8 | UTF-8 |
//!
//! CONNECT, STOMP and CONNECTED are never escaped. A header that is repeated counts the first time.
//! Where readers may be lenient without harm they are: a value may hold a plain colon, and any
//! command may carry a body.

pub mod additions;
mod decode;
mod encode;
mod error;
mod frame;
mod negotiate;
pub mod state;

pub use decode::{Decoded, Decoder, Limits};
pub use encode::{HEARTBEAT, begin, encode, finish, header, header_number, header_raw};
pub use error::DecodeError;
pub use frame::{Frame, Headers};
pub use negotiate::{BadHeartBeat, HeartBeat, UnknownVersion, Version, negotiate};

/// What a frame asks for or tells: its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// A client opens a session.
    Connect,
    /// The same as CONNECT, under a name that no HTTP request has.
    Stomp,
    /// A client sends a message.
    Send,
    /// A client wants messages.
    Subscribe,
    /// A client wants no more messages of a subscription.
    Unsubscribe,
    /// A client has dealt with a message.
    Ack,
    /// A client could not deal with a message.
    Nack,
    /// A client starts a transaction.
    Begin,
    /// A client makes a transaction count.
    Commit,
    /// A client undoes a transaction.
    Abort,
    /// A client ends the session.
    Disconnect,
    /// The server has opened a session.
    Connected,
    /// The server delivers a message.
    Message,
    /// The server has dealt with a frame that asked for a receipt.
    Receipt,
    /// The server refuses something and ends the session.
    Error,
}

impl Command {
    /// The command as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Stomp => "STOMP",
            Self::Send => "SEND",
            Self::Subscribe => "SUBSCRIBE",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::Ack => "ACK",
            Self::Nack => "NACK",
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Abort => "ABORT",
            Self::Disconnect => "DISCONNECT",
            Self::Connected => "CONNECTED",
            Self::Message => "MESSAGE",
            Self::Receipt => "RECEIPT",
            Self::Error => "ERROR",
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            b"SEND" => Self::Send,
            b"MESSAGE" => Self::Message,
            b"ACK" => Self::Ack,
            b"NACK" => Self::Nack,
            b"RECEIPT" => Self::Receipt,
            b"CONNECT" => Self::Connect,
            b"STOMP" => Self::Stomp,
            b"SUBSCRIBE" => Self::Subscribe,
            b"UNSUBSCRIBE" => Self::Unsubscribe,
            b"BEGIN" => Self::Begin,
            b"COMMIT" => Self::Commit,
            b"ABORT" => Self::Abort,
            b"DISCONNECT" => Self::Disconnect,
            b"CONNECTED" => Self::Connected,
            b"ERROR" => Self::Error,
            _ => return None,
        })
    }

    /// Frames exchanged before both sides know the version cannot be escaped by its rules.
    const fn precedes_version(self) -> bool {
        matches!(self, Self::Connect | Self::Stomp | Self::Connected)
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
