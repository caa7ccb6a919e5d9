//! How fast one host is asked.

use std::str::FromStr;

use serde_json::{Value, json};

/// How fast one host is asked, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// A request every so many milliseconds.
    Every(u64),
    /// As fast as it answers.
    Unlimited,
}

const DAY_MS: f64 = 86_400_000.0;
const UNITS_MS: &[(&str, f64)] = &[
    ("s", 1_000.0),
    ("sec", 1_000.0),
    ("second", 1_000.0),
    ("m", 60_000.0),
    ("min", 60_000.0),
    ("minute", 60_000.0),
    ("h", 3_600_000.0),
    ("hour", 3_600_000.0),
];

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let wrong = || {
            format!(
                "{text:?} is no rate: write 10/min, 2/s or 100/h, or unlimited for a server of your own"
            )
        };
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let unit = UNITS_MS.iter().find(|(name, _)| *name == unit.trim());
        let (_, unit_ms) = unit.ok_or_else(wrong)?;
        let delay_ms = (unit_ms / number).round();
        match (1.0..=DAY_MS).contains(&delay_ms) {
            true => Ok(Self::Every(delay_ms as u64)),
            false => Err(wrong()),
        }
    }
}

impl Rate {
    /// The parameter `pace` of a frontier.
    pub fn pace(self) -> Value {
        match self {
            Self::Every(ms) => {
                let delay = flows::plugins::Period::from_millis(ms).to_string();
                json!({ "delay": delay })
            }
            Self::Unlimited => json!({ "unlimited": true }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!("10/min".parse(), Ok(Rate::Every(6_000)));
        assert_eq!("2/s".parse(), Ok(Rate::Every(500)));
        assert_eq!("0.5/s".parse(), Ok(Rate::Every(2_000)));
        assert_eq!("60/hour".parse(), Ok(Rate::Every(60_000)));
        assert_eq!("unlimited".parse(), Ok(Rate::Unlimited));
        for wrong in ["", "10", "0/s", "-1/s", "10/week", "x/s", "1e9/s", "nan/s"] {
            let error = wrong.parse::<Rate>().unwrap_err();
            assert!(error.contains("10/min"), "{error}");
        }
    }

    #[test]
    fn a_rate_is_a_pace() {
        assert_eq!(Rate::Every(6_000).pace(), json!({ "delay": "6s" }));
        assert_eq!(Rate::Every(1_500).pace(), json!({ "delay": "1500ms" }));
        assert_eq!(Rate::Unlimited.pace(), json!({ "unlimited": true }));
    }
}
