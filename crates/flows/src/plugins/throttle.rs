//! `throttle`: not more than so many at a time.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::state::{self, group_of, key_of};
use super::worker::{OUT, REFUSED_OUTPUT, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::Event;

/// Parameters of `throttle`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How many events pass within `per`. As many may come at once after a pause.
    count: u32,
    /// The time for them.
    #[serde(default = "per")]
    per: Period,
    /// The key: each has a rate of its own. Take what the key of the stage is taken from. Without it all events of a
    /// worker share one.
    by: Option<Formula>,
    /// How many keys are remembered in one bucket of the stage. Those that could send all again are forgotten; if there
    /// are none, events of further keys are in excess.
    #[serde(default = "keys_max")]
    keys_max: u64,
    /// What happens with an event for which the key cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

fn per() -> Period {
    Period::from_millis(1_000)
}

fn keys_max() -> u64 {
    100_000
}

pub(super) struct Throttle(Parameters);

/// What a key may still send.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Allowance {
    #[serde(rename = "a")]
    events: f64,
    #[serde(rename = "t")]
    at_ms: u64,
}

const ALLOWANCE: u8 = b'k';
const KEYS: &[u8] = b"n";
const EXCESS: &str = "excess";
const SCAN_MAX: usize = 1_000;

impl Plugin for Throttle {
    const ID: &'static str = "throttle";
    const DESCRIPTION: &'static str = "Lets at most so many events pass in a time, for each key.\n\n\
        The others go to the output `excess`: if that leads nowhere, they are dropped, and counted as such by the stage.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Events within the rate."),
        (EXCESS, "Events beyond it."),
        REFUSED_OUTPUT,
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Five alerts a minute for each user",
        r#"{"count": 5, "per": "1m", "by": "event.user"}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        Ok(Self(parameters))
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    match (parameters.count, parameters.per.as_millis()) {
        (0, _) => Err(ParameterError::new("count", "write 1 or more")),
        (_, 0) => Err(ParameterError::new(
            "per",
            "write a time above nothing, such as 1s",
        )),
        _ => Ok(()),
    }
}

#[async_trait]
impl Worker for Throttle {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let text = match group_of(self.0.by.as_ref(), &variables(&event, message)) {
            Ok((_, text)) => text,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        let now = turn.now().as_millis();
        let stored: Option<Allowance> = state::load(turn, &key_of(ALLOWANCE, &text)).await?;
        if stored.is_none() && !self.has_room(now, turn).await? {
            return turn.emit_value(EXCESS, event);
        }
        let mut events = stored.map_or(f64::from(self.0.count), |stored| self.grown(stored, now));
        let passes = events >= 1.0;
        if passes {
            events -= 1.0;
        }
        state::store(
            turn,
            key_of(ALLOWANCE, &text),
            &Allowance { events, at_ms: now },
        )?;
        turn.emit_value(if passes { OUT } else { EXCESS }, event)
    }
}

impl Throttle {
    /// What may be sent by now.
    fn grown(&self, stored: Allowance, now: u64) -> f64 {
        let passed = now.saturating_sub(stored.at_ms) as f64 / self.0.per.as_millis() as f64;
        let count = f64::from(self.0.count);
        (stored.events + passed * count).min(count)
    }

    /// Whether another key can be remembered, for which some may have to be forgotten.
    async fn has_room(&self, now: u64, turn: &mut Turn) -> Result<bool, Failure> {
        let mut keys: u64 = state::load(turn, KEYS).await?.unwrap_or(0);
        if keys >= self.0.keys_max {
            for (key, stored) in turn.scan(&[ALLOWANCE], None, SCAN_MAX).await? {
                if self.grown(state::read(&stored)?, now) >= f64::from(self.0.count) {
                    turn.remove_state(key)?;
                    keys -= 1;
                }
            }
        }
        let has_room = keys < self.0.keys_max;
        state::store(turn, KEYS.to_vec(), &(keys + u64::from(has_room)))?;
        Ok(has_room)
    }
}
