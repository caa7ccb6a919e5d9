//! Side-by-side benchmarks: Hivewire and the systems its users would otherwise take.
//!
//! Parts, each usable alone:
//!
//! - [`peers`] starts real brokers on loopback and ends them again, whatever happens. Other
//!   tests use it too; the main types are [`peers::rabbitmq::RabbitMq`],
//!   [`peers::nats::Nats`] and [`peers::hivewire::Hivewire`]. The shared store of some engines is
//!   here, too: [`peers::postgres::Postgres`].
//! - [`drivers`] puts load on a broker through one set of loops for all protocols, and checks
//!   every body that arrives.
//! - [`workers`] drives our workers and the actors of other libraries within this process.
//! - [`relays`] moves messages from queue to queue, with a stage and without.
//! - [`streams`] sends events through stages in memory, and through the operators of other engines.
//! - [`gateways`] runs programs whose workers are divided among several nodes.
//! - [`nodes`] starts clusters of nodes, and looks at what becomes of messages while nodes come and go.
//! - [`elastic`] puts a planned load on a stage while it grows, shrinks and moves its buckets.
//! - [`crawls`] crawls sites on this machine, with our crawler and with those of others.
//! - [`browser`] looks at the studio in a real browser.
//! - [`services`] puts load on HTTP services, ours and the same ones of others.
//! - [`cases`] lists what is compared, [`report`] writes down how it came out.
//!
//! Everything blocks; what needs an async runtime starts its own.
//!
//! ```no_run
//! use hivewire_bench::drivers::load::{Load, throughput};
//! use hivewire_bench::drivers::stomp::Stomp;
//! use hivewire_bench::peers::rabbitmq::RabbitMq;
//!
//! let rabbitmq = RabbitMq::start()?;
//! let load = Load {
//!     destination: "orders".to_owned(),
//!     messages: 10_000,
//!     body_bytes: 128,
//!     window: None,
//! };
//! let outcome = throughput(&Stomp::transient(), rabbitmq.stomp_address(), &load)?;
//! println!("{:.0} messages/s", outcome.rate());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It deliberately does not compare systems on different machines or over a real network, does
//! not tune any system, and does not judge delivery under failures: tests do that.

pub mod browser;
pub mod cases;
pub mod crawls;
pub mod drivers;
pub mod elastic;
pub mod gateways;
pub mod nodes;
pub mod peers;
pub mod relays;
pub mod report;
pub mod services;
pub mod streams;
pub mod workers;
