//! gamq: lines of text in, bodies out.
//!
//! A client sends commands, one per line; a publish goes on with body lines and ends in a line that
//! is a single full stop. [`Decoder`] reads them from a stream and [`DatagramDecoder`] from
//! datagrams. To a subscriber the server sends bodies, each followed by [`DELIVERY_END`], which
//! [`DeliveryDecoder`] splits again.
//!
//! ```
//! use wire::gamq::{self, Command, Decoded, Decoder, Limits};
//!
//! let mut bytes = Vec::new();
//! gamq::encode_publish(&mut bytes, "orders", b"two apples\n").unwrap();
//! assert_eq!(bytes, b"PUB orders\r\ntwo apples\n.\r\n");
//!
//! let mut decoder = Decoder::new(Limits::default());
//! let Ok(Decoded::Command { command, consumed }) = decoder.decode(&bytes) else {
//!     panic!("a whole command was given");
//! };
//! assert_eq!(command, Command::Publish { name: "orders", body: b"two apples\n" });
//! assert_eq!(consumed, bytes.len());
//! ```
//!
//! The protocol has no escape for a line that is a single full stop, so a body that holds one
//! cannot be sent; [`holds_end_line`] tells.

mod command;
mod datagram;
mod decode;
mod delivery;
mod encode;

pub use command::{BadArgument, Command};
pub use datagram::DatagramDecoder;
pub use decode::{DecodeError, Decoded, Decoder, Limits};
pub use delivery::{DeliveredBody, DeliveryDecoder};
pub use encode::{
    EncodeError, encode_close, encode_delivery, encode_publish, encode_set_ack, encode_subscribe,
    holds_end_line,
};

/// What a client sends to end the session.
pub const DISCONNECT: &[u8] = b"DISCONNECT\r\n";

/// What a client sends to see whether the server is there.
pub const PING_REQUEST: &[u8] = b"PINGREQ\r\n";

/// The answer to a publish once `SETACK on` was sent. Known clients read exactly these 8 bytes.
pub const PUBACK: &[u8] = b"PUBACK\n\n";

/// The answer to `PINGREQ`.
pub const PING_RESPONSE: &[u8] = b"PINGRESP\n";

/// The answer to a command that does not exist.
pub const UNRECOGNISED: &[u8] = b"Unrecognised command\n";

/// What follows each body on its way to a subscriber.
pub const DELIVERY_END: &[u8] = b"\r\n.\r\n";

/// The answer to `HELP`. Not for datagrams: no answer to one may be larger than the request, or
/// the server could be used to flood others.
pub const fn help_text() -> &'static str {
    "Available commands:\
     \n\tHELP: prints this text\
     \n\tPUB <name>: publishes the lines that follow, up to a line with a single full stop\
     \n\tSUB <name>: subscribes to a queue, or to a topic if the name is topic:<name>\
     \n\tPINGREQ: answers PINGRESP\
     \n\tSETACK on|off: answers each PUB with PUBACK, or no longer\
     \n\tCLOSE <name>: ends a queue and drops what it holds\
     \n\tDISCONNECT: ends the session\n"
}
