//! Silences: for a time, nobody is told of some alerts.

use kernel::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observation::Labels;
use super::rule::fits;

/// How many there may be at a time.
const SILENCES_MAX: usize = 200;
/// How many labels one may name.
const LABELS_MAX: usize = 16;
/// How long each text of one may be.
const TEXT_BYTES_MAX: usize = 1_024;

/// For a time, nobody is told of some alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Silence {
    /// Its number, counted over all that ever were.
    pub id: u64,
    /// The rule; a `*` at its end stands for any rest. None: all rules.
    #[serde(default)]
    pub rule: Option<String>,
    /// Labels that an alert must have; a `*` at the end of a value stands for any rest.
    #[serde(default)]
    pub labels: Labels,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when, in milliseconds since 1970.
    pub until_ms: u64,
    /// Why, for people.
    #[serde(default)]
    pub why: String,
}

impl Silence {
    /// Whether it is over.
    pub const fn is_over(&self, now: Timestamp) -> bool {
        self.until_ms <= now.as_millis()
    }

    /// Whether an alert is silenced by it.
    pub(super) fn covers(&self, rule: &str, labels: &Labels, now: Timestamp) -> bool {
        let has = |(key, pattern): (&String, &String)| {
            let value = labels.get(key);
            value.is_some_and(|value| fits(pattern, value))
        };
        let is_meant = self.rule.as_ref().is_none_or(|pattern| fits(pattern, rule));
        !self.is_over(now) && is_meant && self.labels.iter().all(has)
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        self.rule.iter().chain([&self.why]).chain(labels)
    }
}

/// Why a silence is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SilenceError {
    /// It names neither a rule nor a label.
    Everything,
    /// It is over before it begins.
    Over,
    /// There are too many.
    TooMany,
    /// A text of it is too long, or there are too many labels.
    TooLong,
}

impl std::fmt::Display for SilenceError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everything => {
                formatter.write_str("a silence names a rule, or labels: `*` stands for all rules")
            }
            Self::Over => formatter.write_str("the silence would be over before it begins"),
            Self::TooMany => write!(
                formatter,
                "there are {SILENCES_MAX} silences already: end some of them first"
            ),
            Self::TooLong => write!(
                formatter,
                "a silence has at most {LABELS_MAX} labels, and texts of at most {TEXT_BYTES_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for SilenceError {}

/// All silences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Silences {
    /// The number of the last one.
    last_id: u64,
    silences: Vec<Silence>,
}

impl Silences {
    /// Adds one, which gets a number, and forgets those that are over.
    pub fn add(&mut self, mut silence: Silence, now: Timestamp) -> Result<Silence, SilenceError> {
        self.forget(now);
        if silence.rule.is_none() && silence.labels.is_empty() {
            return Err(SilenceError::Everything);
        }
        if silence.is_over(now) {
            return Err(SilenceError::Over);
        }
        let is_long = |text: &String| text.len() > TEXT_BYTES_MAX;
        if silence.labels.len() > LABELS_MAX || silence.texts().any(is_long) {
            return Err(SilenceError::TooLong);
        }
        if self.silences.len() >= SILENCES_MAX {
            return Err(SilenceError::TooMany);
        }
        self.last_id += 1;
        silence.id = self.last_id;
        self.silences.push(silence.clone());
        Ok(silence)
    }

    /// Ends one. Gives it, if there was one of this number that was not over.
    pub fn remove(&mut self, id: u64, now: Timestamp) -> Option<Silence> {
        self.forget(now);
        let index = self.silences.iter().position(|silence| silence.id == id)?;
        Some(self.silences.remove(index))
    }

    /// Those that are not over.
    pub fn list(&self, now: Timestamp) -> impl Iterator<Item = &Silence> {
        self.silences.iter().filter(move |one| !one.is_over(now))
    }

    /// The first one that silences an alert.
    pub(super) fn covering(&self, rule: &str, labels: &Labels, now: Timestamp) -> Option<u64> {
        let covering = self.silences.iter();
        let mut covering = covering.filter(|silence| silence.covers(rule, labels, now));
        covering.next().map(|silence| silence.id)
    }

    fn forget(&mut self, now: Timestamp) {
        self.silences.retain(|silence| !silence.is_over(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(1_000 * ms)
    }

    fn silence(rule: Option<&str>, labels: &[(&str, &str)], until_ms: u64) -> Silence {
        let labels = labels.iter();
        Silence {
            id: 0,
            rule: rule.map(str::to_owned),
            labels: labels
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            since_ms: 0,
            until_ms,
            why: String::new(),
        }
    }

    #[test]
    fn a_silence_is_for_its_rule_its_labels_and_its_time() {
        let labels = silence(None, &[("stage", "f/a")], 9).labels;
        let covers = |one: Silence, ms| one.covers("stage-failed", &labels, at(ms));
        assert!(covers(silence(Some("stage-failed"), &[], 9), 8));
        assert!(!covers(silence(Some("stage-failed"), &[], 9), 9));
        assert!(covers(silence(Some("stage-*"), &[("stage", "f/*")], 9), 8));
        assert!(!covers(silence(Some("disk"), &[], 9), 8));
        assert!(!covers(silence(None, &[("stage", "f/b")], 9), 8));
        assert!(!covers(silence(None, &[("queue", "*")], 9), 8));
    }

    #[test]
    fn silences_are_numbered_bounded_and_forgotten() {
        let mut silences = Silences::default();
        let one = silences.add(silence(Some("a"), &[], 5), at(0)).unwrap();
        let two = silences.add(silence(Some("b"), &[], 9), at(0)).unwrap();
        assert_eq!((one.id, two.id), (1, 2));
        assert_eq!(silences.list(at(5)).count(), 1);
        assert_eq!(silences.remove(1, at(5)), None);
        assert_eq!(silences.remove(2, at(5)).unwrap().id, 2);
        let refused = |silences: &mut Silences, one| silences.add(one, at(0)).unwrap_err();
        let everything = silence(None, &[], 5);
        assert_eq!(refused(&mut silences, everything), SilenceError::Everything);
        assert_eq!(
            refused(&mut silences, silence(Some("a"), &[], 0)),
            SilenceError::Over
        );
        let long = silence(Some(&"a".repeat(2_000)), &[], 5);
        assert_eq!(refused(&mut silences, long), SilenceError::TooLong);
        for _ in 0..SILENCES_MAX {
            silences.add(silence(Some("a"), &[], 5), at(0)).unwrap();
        }
        assert_eq!(
            refused(&mut silences, silence(Some("a"), &[], 5)),
            SilenceError::TooMany
        );
        let again = serde_json::to_vec(&silences).unwrap();
        assert_eq!(
            serde_json::from_slice::<Silences>(&again).unwrap(),
            silences
        );
    }
}
