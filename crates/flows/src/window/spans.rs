//! Which spans of time an event belongs to. All times are milliseconds since 1970.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::plugins::{ParameterError, Period};

/// In so many sliding windows an event may be at once.
const OVERLAPS_MAX: i64 = 1_000;

/// How time is cut into windows.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Cut {
    /// Windows of this length, one after another, the first one at the start of 1970.
    Tumbling(Period),
    /// Windows that overlap.
    Sliding {
        /// How long each is.
        size: Period,
        /// How long after the one before each begins.
        every: Period,
    },
    /// A window lasts until nothing came for this long.
    Session(Period),
}

/// From its start up to, but not including, its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub start: i64,
    pub end: i64,
}

impl Cut {
    pub fn check(self, field: &str) -> Result<(), ParameterError> {
        let wrong = |problem: String| Err(ParameterError::new(field, problem));
        if self.length_ms() == 0 {
            return wrong("a window has a length: write one such as 10s".to_owned());
        }
        match self {
            Self::Sliding { size, every } if every.as_millis() == 0 || every > size => {
                wrong(format!(
                    "a window of {size} begins after more than nothing and at most {size}, not {every}"
                ))
            }
            Self::Sliding { size, every }
                if size.as_millis() / every.as_millis() > OVERLAPS_MAX =>
            {
                wrong(format!(
                    "an event is in at most {OVERLAPS_MAX} windows; let windows of {size} begin less often"
                ))
            }
            _ => Ok(()),
        }
    }

    /// How long a window with one event is.
    pub fn length_ms(self) -> i64 {
        match self {
            Self::Tumbling(size) | Self::Sliding { size, .. } | Self::Session(size) => {
                size.as_millis()
            }
        }
    }

    /// Whether windows of the same key that meet become one.
    pub fn merges(self) -> bool {
        matches!(self, Self::Session(_))
    }

    /// The windows of an event at this time, the earliest first.
    pub fn spans(self, time: i64) -> impl Iterator<Item = Span> {
        let size = self.length_ms();
        let (first, step) = match self {
            Self::Session(_) => (time, size),
            Self::Tumbling(_) => (time - time.rem_euclid(size), size),
            Self::Sliding { every, .. } => {
                let every = every.as_millis();
                let last = time - time.rem_euclid(every);
                // The earliest start that is later than the time less the size.
                let steps = (size - 1 - (time - last)).div_euclid(every);
                (last - steps * every, every)
            }
        };
        let starts = (0..).map(move |number| first + number * step);
        let starts = starts.take_while(move |start| *start <= time);
        starts.map(move |start| Span {
            start,
            end: start + size,
        })
    }
}

impl Span {
    /// Whether both have time in common.
    pub fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// From the start of the earlier to the end of the later.
    pub fn with(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_event_is_in_exactly_the_windows_that_cover_it(time in 0_i64..100_000, size in 1_u64..500, every in 1_u64..500) {
            let every = every.min(size);
            let cut = Cut::Sliding { size: Period::from_millis(size), every: Period::from_millis(every) };
            let found: Vec<Span> = cut.spans(time).collect();
            let (size, every) = (size as i64, every as i64);
            let first = (time - size).div_euclid(every) - 1;
            let expected: Vec<Span> = (first..=time / every)
                .map(|number| Span { start: number * every, end: number * every + size })
                .filter(|span| span.start <= time && time < span.end)
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn tumbling_windows_are_sliding_ones_that_do_not_overlap(time in 0_i64..100_000, size in 1_u64..500) {
            let size = Period::from_millis(size);
            let tumbling: Vec<Span> = Cut::Tumbling(size).spans(time).collect();
            let sliding: Vec<Span> = Cut::Sliding { size, every: size }.spans(time).collect();
            prop_assert_eq!(tumbling, sliding);
        }
    }
}
