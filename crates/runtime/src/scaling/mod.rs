//! How a stage finds its number of workers by itself.
//!
//! Probes that wait behind the messages decide that a stage is too slow or too idle; measured rates decide how many
//! workers it needs. The [controller] only decides; what measures and changes the stage is beside it.

mod controller;
mod periods;
mod record;
mod rule;
mod sample;
mod shares;
#[cfg(test)]
mod simulation;

pub use record::{
    BucketMove, ScaleAchieved, ScaleChange, ScaleDecision, ScaleNumbers, ScaleReason,
};
pub use rule::{ScaleBy, ScaleRule, ScaleRuleError};
