//! Drives a keyed stage that counts, with a load that is planned beforehand: how late it is while it grows and shrinks, and
//! while its buckets move.

pub mod counter;
pub mod emitter;
pub mod log;
pub mod moves;
pub mod plot;
pub mod staircase;

use kernel::StageAddress;

/// The stage that counts.
pub fn counting() -> StageAddress {
    StageAddress::new("elastic", "count").expect("both are names")
}

/// The stage that emits.
pub fn emitting() -> StageAddress {
    StageAddress::new("elastic", "emit").expect("both are names")
}
