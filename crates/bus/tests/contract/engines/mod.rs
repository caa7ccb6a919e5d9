//! The engines that the suite runs against, and deliberately broken ones.

mod amqp;
pub mod broken;
mod embedded;

pub use amqp::{AmqpFixture, Server};
pub use embedded::EmbeddedFixture;
