//! What a stage is told about its size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::WORKERS_MAX;

/// How a stage finds its number of workers by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleRule {
    /// It never has fewer workers.
    pub min: u32,
    /// It never has more.
    pub max: u32,
    /// What tells that it has too few.
    pub by: ScaleBy,
    /// A probe that waited longer is late (MAX_LATENCY).
    pub latency_ms_max: u64,
    /// How often each worker gets a probe (PROBE_PERIOD).
    pub probe_period_ms: u64,
    /// Over how many periods probes are judged (OVERLOAD_REACTION_TIME).
    pub overload_periods: u32,
    /// The stage is overloaded if more than this share of them was late (OVERLOAD_REACTION_FACTOR).
    pub overload_share: f64,
    /// A period is low if the stage does less than this share of what one worker less could do (LOW_WATERMARK).
    pub low_watermark: f64,
    /// Over how many periods that is judged (UNDERLOAD_REACTION_TIME).
    pub underload_periods: u32,
    /// The stage is underloaded if more than this share of them was low (UNDERLOAD_REACTION_FACTOR).
    pub underload_share: f64,
    /// With [`ScaleBy::QueueLength`]: a period is late if more messages than this wait for each worker.
    pub queue_messages_max: u64,
}

/// What tells that a stage has too few workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleBy {
    /// How long messages wait.
    #[default]
    Latency,
    /// How many messages wait.
    QueueLength,
}

impl Default for ScaleRule {
    fn default() -> Self {
        Self {
            min: 1,
            max: 8,
            by: ScaleBy::Latency,
            latency_ms_max: 100,
            probe_period_ms: 100,
            overload_periods: 10,
            overload_share: 0.5,
            low_watermark: 0.7,
            underload_periods: 50,
            underload_share: 0.9,
            queue_messages_max: 1_000,
        }
    }
}

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScaleRuleError {
    /// The bounds contradict each other.
    #[error(
        "min is {min} and max is {max}: write a min of 1 or more, and a max from there to {WORKERS_MAX}"
    )]
    Bounds {
        /// The lower one.
        min: u32,
        /// The upper one.
        max: u32,
    },
    /// A number is zero that cannot be.
    #[error("{name} of a rule for scaling cannot be zero")]
    Zero {
        /// Which.
        name: &'static str,
    },
    /// A share is none.
    #[error("{name} of a rule for scaling is a share between 0 and 1, not {value}")]
    Share {
        /// Which.
        name: &'static str,
        /// What it was.
        value: f64,
    },
}

impl ScaleRule {
    /// Whether the numbers make sense.
    pub fn check(&self) -> Result<(), ScaleRuleError> {
        let (min, max) = (self.min, self.max);
        if min == 0 || min > max || max > WORKERS_MAX {
            return Err(ScaleRuleError::Bounds { min, max });
        }
        for (name, value) in [
            ("latency_ms_max", self.latency_ms_max),
            ("probe_period_ms", self.probe_period_ms),
            ("overload_periods", u64::from(self.overload_periods)),
            ("underload_periods", u64::from(self.underload_periods)),
            ("queue_messages_max", self.queue_messages_max),
        ] {
            if value == 0 {
                return Err(ScaleRuleError::Zero { name });
            }
        }
        for (name, value) in [
            ("overload_share", self.overload_share),
            ("low_watermark", self.low_watermark),
            ("underload_share", self.underload_share),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ScaleRuleError::Share { name, value });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        assert_eq!(ScaleRule::default().check(), Ok(()));
        let wrong = [
            ScaleRule {
                min: 0,
                ..ScaleRule::default()
            },
            ScaleRule {
                min: 9,
                ..ScaleRule::default()
            },
            ScaleRule {
                probe_period_ms: 0,
                ..ScaleRule::default()
            },
            ScaleRule {
                low_watermark: 1.5,
                ..ScaleRule::default()
            },
            ScaleRule {
                overload_share: f64::NAN,
                ..ScaleRule::default()
            },
        ];
        for rule in wrong {
            let refused = rule.check();
            assert!(refused.is_err(), "{rule:?}");
        }
    }
}
