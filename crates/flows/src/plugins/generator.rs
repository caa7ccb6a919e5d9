//! `generator`: makes events up.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::state;
use super::worker::{OUT, emit};
use super::{Environment, Formula, Outputs, ParameterError};
use crate::event::Data;
use crate::expression::Variables;

/// Parameters of `generator`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The event, of its number `n`, which begins with 0, and of `random`, a whole number from 0 to 999,999 that
    /// `n` and `seed` decide. Without it, the event is `{"n": n}`.
    event: Option<String>,
    /// How many there are; without it, they never end.
    count: Option<u64>,
    /// How many a second; without it, as many as the flow takes.
    per_second: Option<f64>,
    /// Decides what `random` is.
    #[serde(default)]
    seed: u64,
}

pub(super) struct Generator {
    parameters: Parameters,
    event: Option<Formula>,
    next: u64,
    pace: Pace,
}

/// When events are due. The pauses between them are only as exact as timers are, so what counts is the schedule.
#[derive(Debug, Default)]
struct Pace {
    /// In milliseconds; none before the first.
    due_ms: Option<f64>,
}

const POSITION: &[u8] = b"n";
/// So many events are made in one turn.
const BATCH_MAX: u64 = 500;
const RANDOM_BELOW: u64 = 1_000_000;
/// What could not be made for longer than this is not made up for.
const BEHIND_MS_MAX: f64 = 1_000.0;
const NAMES: &[&str] = &["n", "random"];

impl Plugin for Generator {
    const ID: &'static str = "generator";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Makes events up, for trying things out and for measuring.\n\n\
        The same parameters give the same events. After a restart it goes on where it was.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The events.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As many numbers as the flow takes", "{}"),
        (
            "Made-up temperatures",
            r#"{"event": "{'sensor': 's' + string(random % 10), 'celsius': double(random % 400) / 10.0, 'at': n * 100}", "count": 1000, "per_second": 50, "seed": 7}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        let event = check(&parameters)?;
        Ok(Self {
            parameters,
            event,
            next: 0,
            pace: Pace::default(),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters).map(drop)
    }
}

fn check(parameters: &Parameters) -> Result<Option<Formula>, ParameterError> {
    if let Some(rate) = parameters.per_second
        && !(rate > 0.0 && rate <= 1e9)
    {
        let wanted = format!("write a number above 0 and up to a billion, not {rate}");
        return Err(ParameterError::new("per_second", wanted));
    }
    let event = parameters.event.as_deref();
    let event = event
        .map(|event| Formula::compile(event, NAMES))
        .transpose();
    event.map_err(|error| ParameterError::new("event", error.to_string()))
}

#[async_trait]
impl Worker for Generator {
    async fn init(&mut self, _args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        self.next = state::load(turn, POSITION).await?.unwrap_or(0);
        Ok(())
    }

    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a generator has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        // The instance may be older than a turn that was undone, so only the state counts.
        self.next = state::load(turn, POSITION).await?.unwrap_or(0);
        let last = self.parameters.count.unwrap_or(u64::MAX);
        let (batch, period_ms) = self.batch();
        let end = self.next.saturating_add(batch).min(last);
        for n in self.next..end {
            emit(turn, OUT, self.event(n)?)?;
        }
        self.next = end;
        state::store(turn, POSITION.to_vec(), &self.next)?;
        Ok(match period_ms {
            _ if end == last => Provided::Done,
            Some(period_ms) => self.pace.next(turn.now().as_millis() as f64, period_ms),
            None => Provided::More,
        })
    }

    async fn load(&mut self, _: Bytes) -> Result<(), Failure> {
        Ok(())
    }
}

impl Pace {
    /// A batch was made, and the next one is due so much later than it was.
    fn next(&mut self, now_ms: f64, period_ms: f64) -> Provided {
        let due_ms = self.due_ms.unwrap_or(now_ms) + period_ms;
        let due_ms = match now_ms - due_ms > BEHIND_MS_MAX {
            true => now_ms,
            false => due_ms,
        };
        self.due_ms = Some(due_ms);
        match due_ms > now_ms {
            true => Provided::After(Duration::from_secs_f64((due_ms - now_ms) / 1_000.0)),
            false => Provided::More,
        }
    }
}

impl Generator {
    /// How many events come next, and for how many milliseconds they count.
    fn batch(&self) -> (u64, Option<f64>) {
        let Some(rate) = self.parameters.per_second else {
            return (BATCH_MAX, None);
        };
        // A hundred times a second, or for each event if there are fewer.
        let batch = ((rate / 100.0) as u64).clamp(1, BATCH_MAX);
        (batch, Some(batch as f64 / rate * 1_000.0))
    }

    fn event(&self, n: u64) -> Result<Data, Failure> {
        let Some(event) = &self.event else {
            return Ok(Data::record([("n", Data::from(n))]));
        };
        let random =
            fastrand::Rng::with_seed(self.parameters.seed ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .u64(..RANDOM_BELOW);
        let more = [("n", Data::from(n)), ("random", random.into())];
        Ok(event.evaluate(&Variables::of(&Data::Null).with(&more))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long so many batches take if every pause ends late.
    fn takes_ms(batches: u32, period_ms: f64, late_ms: f64, is_scheduled: bool) -> f64 {
        let mut pace = Pace::default();
        let mut now_ms = 0.0;
        for _ in 0..batches {
            if !is_scheduled {
                pace = Pace::default();
            }
            if let Provided::After(pause) = pace.next(now_ms, period_ms) {
                now_ms += pause.as_secs_f64() * 1_000.0 + late_ms;
            }
        }
        now_ms
    }

    #[test]
    fn late_timers_do_not_slow_it_down() {
        let taken = takes_ms(1_000, 12.5, 3.0, true);
        assert!((taken - 12_500.0).abs() < 20.0, "{taken}");
        // The control: without a schedule, what was late adds up.
        let taken = takes_ms(1_000, 12.5, 3.0, false);
        assert!(taken > 15_000.0, "{taken}");
    }

    #[test]
    fn what_was_missed_for_long_is_not_made_up_for() {
        let mut pace = Pace::default();
        pace.next(0.0, 10.0);
        assert_eq!(pace.next(60_000.0, 10.0), Provided::More);
        let Provided::After(pause) = pace.next(60_000.0, 10.0) else {
            panic!("it hurries");
        };
        assert_eq!(pause, Duration::from_millis(10));
    }
}
