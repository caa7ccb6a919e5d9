//! Hivewire in one process: configuration, the node with all its listeners, the REST interface
//! and the commands of the binary.
//!
//! The main type is [`Node`]: it opens the data folder, starts the broker and every listener, and
//! drains them again.
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
//! What it deliberately does not do: it decides nothing about messages (that is `broker`) and
//! speaks no message protocol (that is `listeners`); it puts them together and shows them.

mod client;
pub mod commands;
pub mod config;
mod data_folder;
mod docs;
pub mod exit;
mod http;
mod logging;
mod metrics;
mod node;
mod rates;
pub mod rest;
mod secret;

pub use config::Config;
pub use data_folder::DataError;
pub use node::{Node, StartError};
pub use secret::Secret;
