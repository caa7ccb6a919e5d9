//! Programs whose workers are divided among several gateways to one broker.
//!
//! A gateway is a node: a process of the real binary with its own connection to the bus. Four of them
//! are started, and a [`plan`] says which of them run what, so that the number of gateways is that of
//! the nodes in it; the others only send their heartbeats. The workers are components.
//!
//! Rates are taken from the turns that the gateways have committed, or from the length of a queue.
//! Afterwards every message is accounted for.

mod access;
pub mod ask;
mod census;
mod cluster;
pub mod plan;
pub mod stream;

pub use access::{Access, Lengths};
pub use cluster::Gateways;
