//! How a stage finds its number of workers, as documents say it.

use runtime::{ScaleBy, ScaleRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::millis_or;
use super::period::Period;

/// How a stage finds its number of workers by itself. What is not said is as usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scale {
    /// It never has fewer workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// It never has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// What tells that it has too few: `latency`, which is usual, or `queue-length`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<ScaleBy>,
    /// An event that waited longer is late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Period>,
    /// How often each worker gets a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_period: Option<Period>,
    /// Over how many periods probes are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload_reaction_time: Option<u32>,
    /// The stage is overloaded if more than this share of them was late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload_reaction_factor: Option<f64>,
    /// A period is low if the stage does less than this share of what one worker less could do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_watermark: Option<f64>,
    /// Over how many periods that is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underload_reaction_time: Option<u32>,
    /// The stage is underloaded if more than this share of them was low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underload_reaction_factor: Option<f64>,
    /// With `by = "queue-length"`: it has too few workers if more events than this wait for each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<u64>,
}

impl Scale {
    /// The rule that the runtime gets.
    pub fn rule(&self) -> ScaleRule {
        let usual = ScaleRule::default();
        let min = self.min.unwrap_or(usual.min);
        ScaleRule {
            min,
            max: self.max.unwrap_or(usual.max.max(min)),
            by: self.by.unwrap_or(usual.by),
            latency_ms_max: millis_or(self.latency, usual.latency_ms_max),
            probe_period_ms: millis_or(self.probe_period, usual.probe_period_ms),
            overload_periods: self
                .overload_reaction_time
                .unwrap_or(usual.overload_periods),
            overload_share: self
                .overload_reaction_factor
                .unwrap_or(usual.overload_share),
            low_watermark: self.low_watermark.unwrap_or(usual.low_watermark),
            underload_periods: self
                .underload_reaction_time
                .unwrap_or(usual.underload_periods),
            underload_share: self
                .underload_reaction_factor
                .unwrap_or(usual.underload_share),
            queue_messages_max: self.queue_length.unwrap_or(usual.queue_messages_max),
        }
    }

    /// What contradicts itself, or makes no sense.
    pub(super) fn mistake(&self) -> Option<String> {
        let by = self.by.unwrap_or_default();
        if by == ScaleBy::Latency && self.queue_length.is_some() {
            return Some("queue_length is only looked at with by = \"queue-length\": add that, or take queue_length out".to_owned());
        }
        if by == ScaleBy::QueueLength && self.latency.is_some() {
            return Some(
                "latency is not looked at with by = \"queue-length\": take one of them out"
                    .to_owned(),
            );
        }
        self.rule()
            .check()
            .err()
            .map(|error| self.in_own_words(&error.to_string()))
    }

    /// The rule's names are those of the runtime; documents have others.
    fn in_own_words(&self, message: &str) -> String {
        const NAMES: [(&str, &str); 7] = [
            ("latency_ms_max", "latency"),
            ("probe_period_ms", "probe_period"),
            ("overload_periods", "overload_reaction_time"),
            ("underload_periods", "underload_reaction_time"),
            ("queue_messages_max", "queue_length"),
            ("underload_share", "underload_reaction_factor"),
            ("overload_share", "overload_reaction_factor"),
        ];
        let mut message = message.to_owned();
        for (name, own) in NAMES {
            message = message.replace(name, own);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_usual_and_what_contradicts_is_told() {
        assert_eq!(Scale::default().rule(), ScaleRule::default());
        assert_eq!(Scale::default().mistake(), None);
        let many = Scale {
            min: Some(20),
            ..Scale::default()
        };
        assert_eq!((many.rule().max, many.mistake()), (20, None));
        let mistake = |scale: Scale| scale.mistake().unwrap_or_default();
        let length = Scale {
            queue_length: Some(5),
            ..Scale::default()
        };
        assert!(mistake(length).contains("by ="));
        let never = Scale {
            underload_reaction_factor: Some(2.0),
            ..Scale::default()
        };
        assert!(mistake(never).starts_with("underload_reaction_factor"));
    }
}
