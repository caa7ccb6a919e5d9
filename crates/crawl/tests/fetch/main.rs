//! Drives a fetcher against servers that behave, and against servers that do not.

mod bodies;
mod connections;
mod encrypted;
mod guarded;
mod heads;
mod proxied;
mod redirects;
mod rig;
mod slow;
