//! What windows, aggregates and joins are made of: what is computed over events, and which span of time each belongs to.

pub(crate) mod compute;
pub(crate) mod sketch;
pub(crate) mod spans;
