//! Commits over two servers: crashes between the steps, repeats, and the shared store itself.
//!
//! All tests share a RabbitMQ and a PostgreSQL server, which end with the process.

mod acknowledging;
mod crash;
mod mortal;
mod repeats;
mod rig;
mod store;
