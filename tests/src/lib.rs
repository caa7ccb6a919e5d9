//! Support for tests that drive the real binary over real sockets.
//!
//! The main type is [`hive::Hive`]: the broker as a process of its own. Around it stand raw
//! clients ([`stomp_client`], [`gamq_client`], [`http`], [`event_client`]), networks that misbehave ([`proxy`],
//! [`network`]),
//! disks that forget or fill up ([`lossy_fs`], [`small_disk`]), a [`site`] full of traps for crawlers, and the
//! [`oracle`] that judges what came of it.
//!
//! ```no_run
//! use hivewire_tests::hive::Hive;
//! use hivewire_tests::stomp_client::Stomp;
//!
//! let hive = Hive::start()?;
//! let mut client = Stomp::connect(hive.stomp_address())?;
//! client.send_durable("/queue/orders", b"one coffee")?;
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! With `HIVEWIRE_SOAK=100` the tests that repeat something do it a hundred times as often.
//!
//! It shares no code with the binary on purpose: a mistake in a codec must not hide itself.

pub mod crawl;
pub mod event_client;
pub mod gamq_client;
pub mod hive;
pub mod http;
pub mod lossy_fs;
pub mod network;
pub mod nodes;
pub mod oracle;
pub mod poll;
pub mod proxy;
pub mod site;
pub mod small_disk;
pub mod soak;
pub mod stomp_client;
pub mod workers;
pub mod workload;
