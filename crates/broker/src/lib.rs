//! Queues, topics, acknowledgements and state, behind a [`Broker`].
//!
//! A session of whatever protocol gets a [`Channel`] for a destination, publishes batches to it,
//! or subscribes with an [`Outbox`] in which its deliveries gather. Decisions are made by state
//! machines without I/O, one behind a lock per queue or topic; nothing is written to a client
//! while a lock is held. What is durable goes through the journal, and a position there tells
//! when it is permanent.
//!
//! ```
//! use std::sync::Arc;
//! use broker::{AckMode, Broker, Credit, Outbox, Publication, Settings, SystemClock};
//! use journal::{Options, testing::MemoryStorage};
//! use kernel::{Destination, Message, Name};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let storage = Arc::new(MemoryStorage::new(1));
//! let (broker, _) =
//!     Broker::start(storage, Options::default(), Settings::default(), Arc::new(SystemClock))?;
//! let orders = broker.channel(&Destination::Queue(Name::new("orders")?))?;
//!
//! let message = Message::new("one coffee");
//! orders.publish(&mut vec![Publication { message, durable: false }]);
//!
//! let outbox = Arc::new(Outbox::default());
//! let subscription = orders.subscribe(1, AckMode::Individual, Credit::default(), outbox.clone());
//! outbox.filled().await;
//! let mut deliveries = Vec::new();
//! outbox.take(&mut deliveries);
//! assert_eq!(&deliveries[0].entry.message.body[..], b"one coffee");
//! subscription.sent(&deliveries);
//! subscription.acknowledge(deliveries[0].entry.id, false);
//! # Ok(()) }
//! ```
//!
//! The broker knows no protocol and no socket.

mod broker;
mod clock;
mod commit;
mod counters;
mod dead;
mod delivery;
mod documents;
mod error;
mod queue;
mod records;
mod recovery;
mod settings;
mod shared;
mod start;
mod state;
mod topic;

pub use broker::{Broker, Channel, Subscription};
pub use clock::SystemClock;
pub use commit::{Commit, Consumed, StateCommit};
pub use counters::Counters;
pub use dead::{DEAD_LETTERS, DeadFilter, DeadLetter};
pub use delivery::{AckMode, Delivery, Entry, Outbox};
pub use documents::{DOCUMENT_BYTES_MAX, DOCUMENTS, Document, DocumentError};
pub use error::{CommitError, PublishError, TooManyNames};
pub use journal::{AppendError, Durable, Position};
pub use queue::{
    Acknowledged, Credit, Publication, Published, Queue, QueueStats, QueueSubscription, Reject,
    Totals,
};
pub use settings::{
    Durability, QueueRule, QueueSettings, Settings, StateSettings, TopicSettings, WhenFull,
};
pub use start::StartError;
pub use state::{StateBytes, StateError, StateWrite};
pub use topic::{Topic, TopicStats, TopicSubscription, TopicTotals};
