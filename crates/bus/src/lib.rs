//! The contract between workers and whatever carries their messages, and the engines behind it.
//!
//! The main type is the trait [`Bus`]: publish, subscribe with credit, acknowledge, reject, and
//! commit several turns in one step. Layers above use it and nothing else; which engine stands
//! behind it is decided once, where the process is wired together.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use broker::{Broker, Settings, SystemClock};
//! use bus::{AckLevel, Bus, engines::EmbeddedBus};
//! use journal::{Options, testing::MemoryStorage};
//! use kernel::{Destination, Message, Name};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let storage = Arc::new(MemoryStorage::new(1));
//! let (broker, _) =
//!     Broker::start(storage, Options::default(), Settings::default(), Arc::new(SystemClock))?;
//! let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(broker));
//!
//! let orders = Destination::Queue(Name::new("orders")?);
//! let second = Duration::from_secs(1);
//! let level = bus.publish(&orders, &mut vec![Message::new("one coffee")], second).await?;
//! assert_eq!(level, AckLevel::Synced);
//!
//! let subscription = bus.subscribe(&orders, 10, second).await?;
//! let deliveries = subscription.next_batch(10, second).await?;
//! assert_eq!(&deliveries[0].message.body[..], b"one coffee");
//! subscription.acknowledge(&[deliveries[0].receipt], second).await?;
//! # Ok(()) }
//! ```
//!
//! An engine that only delivers gets commits from a shared [`store`]: see [`StoredBus`].
//!
//! What it deliberately does not do: it runs no workers, knows no flows, and never hides what an
//! engine cannot give. [`Bus::capabilities`] says so, and `tests/contract` proves it.

mod capabilities;
mod commit;
mod contract;
mod dead_letter;
mod deadline;
mod delivery;
mod document;
pub mod engines;
mod error;
pub mod store;
mod stored;
mod tls;
mod together;

pub use capabilities::{AckLevel, Capabilities, Given};
pub use commit::{Commit, Consumed, Owner, StateWrite, Submitted};
pub use contract::{Begun, Bus, QueueBook, QueueSettings, Subscription};
pub use delivery::{Delivery, MESSAGE_ID, Receipt, Reject, Tag};
pub use document::{Document, Put};
pub use error::BusError;
pub use stored::{StoredBus, StoredCounts, StoredSettings};

/// The name of the queue where dead letters wait, on every engine. It can be subscribed to.
pub const DEAD_LETTERS: &str = broker::DEAD_LETTERS;
