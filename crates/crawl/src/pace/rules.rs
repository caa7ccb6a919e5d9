//! What politeness is, for all hosts alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wrong::WrongParameter;

/// What a day has of milliseconds: no time here may be longer.
const DAY_MS: u64 = 86_400_000;

/// What lies between the starts of two requests to one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// As many times as long as the host takes to answer, as `factor` says, between `delay_min_ms` and `delay_max_ms`.
    #[default]
    Adaptive,
    /// Nothing. A host that says that it is too much is slowed down nevertheless.
    Unlimited,
    /// So many milliseconds.
    FixedMs(u32),
}

/// What politeness is, for all hosts alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PaceRules {
    /// What lies between the starts of two requests to one host: `"adaptive"`, `"unlimited"`, or `{"fixed_ms": 1000}`.
    pub delay: Delay,
    /// How many times as long as an answer takes an adaptive delay is.
    pub factor: f64,
    /// The shortest adaptive delay, and the least that a host is given that was slowed down.
    pub delay_min_ms: u64,
    /// The longest adaptive delay.
    pub delay_max_ms: u64,
    /// How many requests may be under way to one host.
    pub connections_per_host: u16,
    /// Whether a longer delay that a site asks for in its `robots.txt` counts, also with a fixed delay or none.
    pub crawl_delay_obeyed: bool,
    /// How long a host is left alone at least after it answered 429 or 503 or failed. It doubles each time, unless the host says
    /// itself how long.
    pub back_off_min_ms: u64,
    /// How long it is left alone at most, whatever it says.
    pub back_off_max_ms: u64,
}

impl Default for PaceRules {
    fn default() -> Self {
        Self {
            delay: Delay::Adaptive,
            factor: 2.0,
            delay_min_ms: 250,
            delay_max_ms: 60_000,
            connections_per_host: 1,
            crawl_delay_obeyed: true,
            back_off_min_ms: 1_000,
            back_off_max_ms: 600_000,
        }
    }
}

impl PaceRules {
    /// Tells what is wrong with them.
    pub fn check(&self) -> Result<(), WrongParameter> {
        let wrong = |field: &str, reason: &str| Err(WrongParameter::new(field, reason));
        if !(0.0..=1_000.0).contains(&self.factor) {
            return wrong("factor", "must be from 0 to 1000");
        }
        if self.delay_min_ms > self.delay_max_ms {
            return wrong("delay_min_ms", "must not be more than delay_max_ms");
        }
        if self.delay_max_ms > DAY_MS {
            return wrong(
                "delay_max_ms",
                "must not be more than a day, which is 86400000",
            );
        }
        if self.connections_per_host == 0 {
            return wrong(
                "connections_per_host",
                "must be 1 or more: with none, nothing is fetched",
            );
        }
        if self.back_off_min_ms > self.back_off_max_ms {
            return wrong("back_off_min_ms", "must not be more than back_off_max_ms");
        }
        if self.back_off_max_ms > DAY_MS {
            return wrong(
                "back_off_max_ms",
                "must not be more than a day, which is 86400000",
            );
        }
        Ok(())
    }
}
