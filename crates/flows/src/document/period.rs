//! Times as people write them: `100ms`, `5s`, `1m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Units, the largest first: their names and what they have of milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A time, of which text says how long: a whole number and `ms`, `s`, `m` or `h`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Period {
    milliseconds: u64,
}

/// Why a text says no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no time: write a whole number and its unit, such as \"100ms\", \"5s\", \"1m\" or \"2h\""
)]
pub struct PeriodError {
    text: String,
}

impl Period {
    /// So many milliseconds.
    pub fn from_millis(milliseconds: u64) -> Self {
        Self { milliseconds }
    }

    /// How many milliseconds it has.
    pub fn as_millis(self) -> u64 {
        self.milliseconds
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        Self::from_millis(period.milliseconds)
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let error = || PeriodError {
            text: text.chars().take(40).collect(),
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let (_, milliseconds) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(error)?;
        let number: u64 = number.parse().map_err(|_| error())?;
        let milliseconds = number.checked_mul(*milliseconds).ok_or_else(error)?;
        Ok(Self { milliseconds })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, u64)| self.milliseconds.is_multiple_of(unit.1);
        let unit = UNITS.iter().find(fits).filter(|_| self.milliseconds > 0);
        let (name, milliseconds) = unit.unwrap_or(&("ms", 1));
        write!(f, "{}{name}", self.milliseconds / milliseconds)
    }
}

impl TryFrom<String> for Period {
    type Error = PeriodError;

    fn try_from(text: String) -> Result<Self, PeriodError> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_their_largest_unit() {
        for (text, milliseconds, written) in [
            ("100ms", 100, "100ms"),
            ("1500ms", 1_500, "1500ms"),
            ("5s", 5_000, "5s"),
            ("60 s", 60_000, "1m"),
            ("1m", 60_000, "1m"),
            ("48h", 172_800_000, "48h"),
            ("0s", 0, "0ms"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.as_millis(), milliseconds, "{text}");
            assert_eq!(period.to_string(), written);
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "1 d",
            "5sec",
            "99999999999999999999h",
            "ä",
        ] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }
}
