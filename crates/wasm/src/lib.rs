//! Workers and routers as WebAssembly components, behind the kernel's contract of a worker.
//!
//! The main type is [`Host`]: it checks and compiles components ([`Host::load`]) and gives them out as
//! [`kernel::worker::Code`], from which whoever runs workers makes instances. Each instance has its
//! own memory and can neither see nor stop another.
//!
//! ```
//! use wasm::{Host, LoadError, Settings};
//!
//! let host = Host::new(Settings { instances_max: 100, ..Settings::default() })?;
//! let refused = host.load(b"#!/bin/sh").unwrap_err();
//! assert!(matches!(refused, LoadError::NotWebAssembly { .. }));
//! # Ok::<(), wasm::HostError>(())
//! ```
//!
//! What holds for every call:
//!
//! - It ends within some 10 ms of its deadline. One thread counts deadline ticks of 5 ms; compiled code looks
//!   at them in every loop and function. Host functions that wait, sleeping among them, wait no
//!   longer than the call has left.
//! - Memory, stack, host calls and everything that a turn collects are bounded. Who reaches a bound gets
//!   a failure that names it; after a trap the instance is gone, and its memory with it.
//! - It blocks its thread. That thread needs a stack larger than [`Settings::stack_bytes_max`] by at
//!   least 512 KiB; the 2 MiB that Rust gives to threads are enough.
//! - It needs no tokio runtime, and it may be made from within one.
//!
//! The limits of the operating system count too: an instance takes about four memory mappings, so
//! beyond some 15,000 resident instances Linux wants a higher `vm.max_map_count`.
//!
//! What it deliberately does not do: it gives components no files, no network and no variables. It
//! loads no precompiled code but what wasmtime keeps in a folder of the owner's. It does not decide
//! when workers run, nor what becomes of their messages.

mod bindings;
mod check;
mod compile;
mod data;
mod engine;
mod error;
mod failures;
mod host;
mod imports;
mod instance;
mod nobody;
mod output;
mod router;
mod settings;
mod ticks;
mod waiting;
mod wasi;
mod worker;

pub use error::{HostError, LoadError};
pub use host::Host;
pub use router::{Candidate, Router};
pub use settings::Settings;
pub use worker::WorkerCode;
