//! What politeness is, for all hosts alike.

use flows::plugins::Period;
use schemars::JsonSchema;
use serde::Deserialize;

/// No time here may be longer: a day.
const PERIOD_MAX: Period = Period::from_millis(86_400_000);

/// How fast one host is asked. By default the delay between two requests adapts itself to how long the host takes to answer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceRule {
    /// What lies between the starts of two requests, such as `"6s"`. If it is missing, that is as many times as long as the
    /// host takes to answer, as `factor` says, between `delay_min` and `delay_max`.
    pub(super) delay: Option<Period>,
    /// Whether there is neither a delay nor a bound on connections: for servers of one's own. A host that answers 429 or 503 is
    /// left alone nevertheless.
    #[serde(default)]
    pub(super) unlimited: bool,
    /// How many times as long as an answer takes the delay is that adapts itself.
    #[serde(default = "factor")]
    pub(super) factor: f64,
    /// The shortest delay that adapts itself, and the least for a host that was slowed down.
    #[serde(default = "delay_min")]
    pub(super) delay_min: Period,
    /// The longest delay that adapts itself.
    #[serde(default = "delay_max")]
    pub(super) delay_max: Period,
    /// How many requests may be under way to one host.
    #[serde(default = "connections_per_host")]
    pub(super) connections_per_host: u32,
    /// How long a host is left alone at least after it answered 429 or 503 or failed. It doubles each time, unless the host says
    /// itself how long.
    #[serde(default = "back_off_min")]
    pub(super) back_off_min: Period,
    /// How long it is left alone at most, whatever it says.
    #[serde(default = "back_off_max")]
    pub(super) back_off_max: Period,
}

fn factor() -> f64 {
    2.0
}

fn delay_min() -> Period {
    Period::from_millis(250)
}

fn delay_max() -> Period {
    Period::from_millis(60_000)
}

fn connections_per_host() -> u32 {
    1
}

fn back_off_min() -> Period {
    Period::from_millis(1_000)
}

fn back_off_max() -> Period {
    Period::from_millis(600_000)
}

impl Default for PaceRule {
    fn default() -> Self {
        Self {
            delay: None,
            unlimited: false,
            factor: factor(),
            delay_min: delay_min(),
            delay_max: delay_max(),
            connections_per_host: connections_per_host(),
            back_off_min: back_off_min(),
            back_off_max: back_off_max(),
        }
    }
}

impl PaceRule {
    /// As fast as the host can.
    pub fn unlimited() -> Self {
        Self {
            unlimited: true,
            ..Self::default()
        }
    }

    /// With this delay, whatever the host takes to answer.
    pub fn fixed(delay: Period) -> Self {
        Self {
            delay: Some(delay),
            ..Self::default()
        }
    }

    /// The same with so many connections to one host.
    #[must_use]
    pub fn with_connections(self, connections_per_host: u32) -> Self {
        Self {
            connections_per_host,
            ..self
        }
    }

    /// Whether there is neither a delay nor a bound on connections.
    pub fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// How many requests may be under way to one host.
    pub fn connections_per_host(&self) -> u32 {
        match self.unlimited {
            true => u32::MAX,
            false => self.connections_per_host,
        }
    }

    /// Tells what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |reason: &str| Err(reason.to_owned());
        if self.unlimited && self.delay.is_some() {
            return wrong("write either delay or unlimited, not both");
        }
        if !(0.0..=1_000.0).contains(&self.factor) {
            return wrong("factor must be from 0 to 1000");
        }
        if self.delay_min > self.delay_max {
            return wrong("delay_min must not be more than delay_max");
        }
        if self.connections_per_host == 0 {
            return wrong("connections_per_host must be 1 or more: with none, nothing is fetched");
        }
        if self.back_off_min > self.back_off_max {
            return wrong("back_off_min must not be more than back_off_max");
        }
        let longest = self
            .delay_max
            .max(self.back_off_max)
            .max(self.delay.unwrap_or(PERIOD_MAX));
        match longest > PERIOD_MAX {
            true => wrong("delay, delay_max and back_off_max must not be more than a day, 1d"),
            false => Ok(()),
        }
    }
}

/// A period in milliseconds, as times are counted here.
pub(super) fn ms(period: Period) -> u64 {
    u64::try_from(period.as_millis()).unwrap_or(0)
}
