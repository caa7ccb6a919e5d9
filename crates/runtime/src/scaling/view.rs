//! What can be seen of how a stage finds its size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::ScaleDecision;

/// How a stage that finds its number of workers by itself is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingView {
    /// It never has fewer workers.
    pub workers_min: u32,
    /// It never has more.
    pub workers_max: u32,
    /// Messages that come in a second.
    pub arrivals_per_second: f64,
    /// Messages that are finished in a second.
    pub done_per_second: f64,
    /// Messages that one worker finishes in a second of work.
    pub service_per_second: f64,
    /// The share of their time that workers work.
    pub busy_share: f64,
    /// Messages that wait, here and in the queues of the bus as far as those can be asked.
    pub depth: u64,
    /// How long a message waits in front of the workers.
    pub upstream_ms: f64,
    /// Half of the last probes took no longer.
    pub probe_ms_p50: f64,
    /// Ninety-nine of a hundred took no longer.
    pub probe_ms_p99: f64,
    /// What was decided last, the oldest first; [`crate::Runtime::decisions`] gives more.
    pub decisions: Vec<ScaleDecision>,
}
