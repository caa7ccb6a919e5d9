//! Hivewire in one process: configuration, the node with all its listeners, the REST interface
//! and the commands of the binary.
//!
//! The main type is [`Node`]: it opens the data folder, starts the broker, what was deployed, and every
//! listener, and drains them again.
//!
//! ```no_run
//! use std::time::Duration;
//! use hivewire::{Config, Node};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::start(Config::default()).await?;
//! for bound in node.bound() {
//!     println!("{} listens on {}", bound.protocol, bound.address);
//! }
//! node.drain(Duration::from_secs(10)).await?;
//! # Ok(()) }
//! ```
//!
//! Workers in Rust are linked in and deployed through [`Node::runtime`], as `examples/embedded.rs` shows;
//! components are deployed through [`Node::deployments`], the REST interface or the command line.
//!
//! What it deliberately does not do: it decides nothing about messages (that is `broker`), runs no
//! workers (that is `runtime`, and `wasm` for components) and speaks no message protocol (that is
//! `listeners`); it puts them together and shows them.

pub mod alerts;
mod client;
pub mod cluster;
pub mod commands;
pub mod config;
mod crawls;
mod data_folder;
pub mod deploy;
mod desk;
mod docs;
mod events;
pub mod examples;
mod exit;
mod flow_metrics;
mod http;
mod live;
mod load;
mod logging;
pub mod logs;
mod metrics;
mod node;
mod profile;
mod rates;
pub mod rest;
mod rotation;
mod secret;
pub mod services;

pub use async_trait::async_trait;
pub use config::Config;
pub use data_folder::DataError;
pub use kernel::worker::{
    Code, CodeInfo, Failure, FailureKind, Incoming, Kind, LogLevel, Start, Ticket, Turn, Worker,
    native,
};
pub use kernel::{Address, Grant, Headers, Message, Name, StageAddress, WorkerAddress};
pub use node::{Node, StartError};
pub use runtime::{
    Delivery, KeyRule, Router, RouterKind, Runtime, StageKind, StageSpec, StopTarget,
    SupervisionRule, Workers,
};
pub use secret::Secret;
pub use web;
