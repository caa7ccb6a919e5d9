//! How a stage finds its number of workers by itself.
//!
//! Probes that wait behind the messages decide that a stage is too slow or too idle; measured rates decide how many
//! workers it needs. The [controller] only decides; what measures and changes the stage is beside it.

mod controller;
mod driver;
mod gauge;
mod pauses;
mod periods;
mod record;
mod rule;
mod sample;
mod shares;
#[cfg(test)]
mod simulation;
mod view;

pub(crate) use driver::Scaler;
pub(crate) use gauge::Gauge;
pub use pauses::MovePauses;
pub(crate) use pauses::{Pauses, percentile};
pub use record::{
    BucketMove, ScaleAchieved, ScaleChange, ScaleDecision, ScaleNumbers, ScaleReason,
};
pub use rule::{ScaleBy, ScaleRule, ScaleRuleError};
pub(crate) use sample::{BucketSample, Probe, Sample, WorkerSample};
pub use view::ScalingView;
