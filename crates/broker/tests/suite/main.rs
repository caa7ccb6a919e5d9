//! The broker over a disk in memory that crashes, fills up and fails on demand.

mod commits;
mod compaction;
mod concurrency;
mod dead_letters;
mod documents;
mod durability;
mod failures;
mod names;
mod rig;
mod spilling;
mod turns;
