//! The engines that the suite runs against, and deliberately broken ones.

mod amqp;
pub mod broken;
mod embedded;
mod stomp;
mod stored;

pub use amqp::{AmqpFixture, Server};
pub use embedded::EmbeddedFixture;
pub use stomp::{StompFixture, StompServer};
pub use stored::{StoreServer, StoredFixture, start_store};
