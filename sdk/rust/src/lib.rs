//! Write a Hivewire worker in Rust.
//!
//! The main trait is [`Worker`]; the macro [`worker!`] makes a component of a type that has it.
//! This is a complete worker:
//!
//! ```
//! use hivewire_sdk::{Context, Message, Result, Worker};
//!
//! #[derive(Default)]
//! struct Counter;
//!
//! impl Worker for Counter {
//!     fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
//!         let count = context.state().get::<u64>("count")?.unwrap_or(0) + 1;
//!         context.state().set("count", &count);
//!         context.reply(message, count.to_string())
//!     }
//! }
//!
//! hivewire_sdk::worker!(Counter);
//! ```
//!
//! `hivewire new worker NAME` makes a project around it, `hivewire build` the component. The world
//! that it fits is in `wit/worker.wit` beside this crate.
//!
//! What it deliberately does not do: it has no way to wait, to open files or sockets, or to start
//! threads. A worker gets a message, does something, and is done; what takes time comes back as
//! another message ([`Context::ask`], [`Context::set_timer`]).

mod bindings;
mod context;
mod emitted;
#[cfg(all(target_arch = "wasm32", feature = "heap"))]
#[allow(unsafe_code)]
mod heap;
mod message;
mod outgoing;
mod router;
mod state;
mod worker;

#[doc(hidden)]
pub mod exports;

pub use bindings::worker::hivewire::worker::surroundings::Level;
pub use bindings::worker::hivewire::worker::types::{Kind, Ticket};
pub use context::Context;
pub use message::Message;
pub use outgoing::Outgoing;
pub use router::{Candidate, Router};
pub use state::{State, Value};
pub use worker::Worker;

/// Why something cannot be done. Every error becomes one by `?`, and a text by `.into()`.
pub type Failure = Box<dyn std::error::Error>;

/// What most functions give.
pub type Result<T = ()> = std::result::Result<T, Failure>;
