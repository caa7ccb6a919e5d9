//! The engines: what can stand behind the contract.

pub mod amqp;
mod embedded;
mod held;

pub use amqp::{AmqpBus, AmqpSettings};
pub use embedded::EmbeddedBus;
