//! The engines: what can stand behind the contract.

pub mod amqp;
mod declared;
mod embedded;
mod held;
pub mod stomp;

pub use amqp::{AmqpBus, AmqpSettings};
pub use embedded::EmbeddedBus;
pub use stomp::{StompBus, StompSettings};
