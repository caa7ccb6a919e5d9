//! Services as clients see them.

#![allow(elided_lifetimes_in_paths)]

mod explained;
mod extracting;
mod later;
mod metrics;
mod outcomes;
mod panics;
mod registration;
mod rig;
mod sharing;
mod sockets;
mod stages;
mod thens;
