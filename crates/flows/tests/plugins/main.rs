//! Built-in plug-ins: one suite that all of them pass, and models of those that compute over many events.

mod answers;
mod contract;
mod examples;
mod models;
mod postgres;
mod rig;
mod samples;
mod sinks;
