//! What every layer of Hivewire shares: names, addresses, messages, the contract of a worker, limits,
//! time and counters.
//!
//! The main type is [`Message`]: a body of opaque bytes with [`Headers`] beside it. It travels
//! through the broker, the journal and the bus without being copied.
//!
//! ```
//! use kernel::{Destination, Headers, Message, Name};
//!
//! let orders = Destination::Queue(Name::new("orders")?);
//! let headers = Headers::from_pairs([("reply-to", "/queue/answers")])?;
//! let message = Message::new("one coffee").with_headers(headers);
//! assert_eq!(message.headers.get("reply-to"), Some("/queue/answers"));
//! assert_eq!(orders.to_string(), "queue orders");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The kernel does no I/O and reads no clock but the one it is given; it knows no protocol.

mod address;
mod clock;
pub mod descriptor;
mod grant;
mod headers;
pub mod limits;
mod message;
pub mod metrics;
mod name;
pub mod net;
mod plugin;
pub mod worker;

pub use address::{Address, AddressError, PART_BYTES_MAX, StageAddress, WorkerAddress};
pub use clock::{Clock, ManualClock, Timestamp};
pub use grant::{Grant, GrantError};
pub use headers::{Headers, HeadersBuilder, HeadersError};
pub use message::Message;
pub use name::{Destination, Name, NameError};
pub use plugin::{PluginId, PluginIdError};
