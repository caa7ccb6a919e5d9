//! Codecs for the protocols Hivewire speaks.
//!
//! A codec turns bytes into frames and frames into bytes, the same for client and server. The
//! main types are [`stomp::Decoder`] and [`gamq::Decoder`]: hand them the bytes received so far,
//! and they hand back one frame, borrowed from those bytes, and how many bytes it took.
//!
//! ```
//! use wire::stomp::{self, Command, Decoded, Decoder, Limits, Version};
//!
//! let mut bytes = Vec::new();
//! let headers = [("destination", "/queue/orders")];
//! stomp::encode(&mut bytes, Version::V1_2, Command::Send, headers, Some(b"two apples"));
//!
//! let mut decoder = Decoder::new(Limits::default());
//! let Ok(Decoded::Frame { frame, consumed }) = decoder.decode(&bytes) else {
//!     panic!("a whole frame was given");
//! };
//! assert_eq!(frame.command, Command::Send);
//! assert_eq!(frame.header("destination").as_deref(), Some("/queue/orders"));
//! assert_eq!(frame.body, b"two apples");
//! assert_eq!(consumed, bytes.len());
//! ```
//!
//! What it deliberately does not do: no I/O, no clocks, no buffers of its own (but for datagrams,
//! within a bound), and no sessions: whether a frame makes sense at this moment, which headers it
//! must have and what it causes is for the listeners to say.

mod http;

pub mod gamq;
pub mod stomp;

/// At most this many bytes of what a peer sent are shown in an error.
const SHOWN_BYTES_MAX: usize = 32;

/// What a peer sent, cut short and with everything but printable ASCII escaped.
fn printable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    shown.escape_ascii().to_string()
}
