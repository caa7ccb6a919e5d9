//! `throttle`: not more than so many at a time.

use std::collections::BTreeMap;

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

/// What a batch works with: each allowance is read once and written once, all at the same time by the clock.
#[derive(Default)]
struct Desk {
    now: u64,
    allowances: BTreeMap<String, Allowance>,
    /// How many keys there are, once that is known.
    keys: Option<u64>,
    /// Whether there is no room for further keys, also after some were forgotten.
    is_full: bool,
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
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut desk = Desk {
            now: turn.now().as_millis(),
            ..Desk::default()
        };
        for message in messages {
            self.take(message, &mut desk, turn).await?;
        }
        write(&mut desk, turn)
    }
}

impl Throttle {
    async fn take(
        &self,
        message: &Incoming,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let text = match group_of(self.0.by.as_ref(), &variables(&event, message)) {
            Ok((_, text)) => text,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        if !desk.allowances.contains_key(&text) && !self.load(&text, desk, turn).await? {
            return turn.emit_value(EXCESS, event);
        }
        let mut passes = false;
        if let Some(allowance) = desk.allowances.get_mut(&text) {
            passes = allowance.events >= 1.0;
            allowance.events -= f64::from(u8::from(passes));
        }
        turn.emit_value(if passes { OUT } else { EXCESS }, event)
    }

    /// Brings the allowance of a key to the desk, as it is by now; false if there is no room for another key.
    async fn load(&self, text: &str, desk: &mut Desk, turn: &mut Turn) -> Result<bool, Failure> {
        let stored: Option<Allowance> = state::load(turn, &key_of(ALLOWANCE, text)).await?;
        if stored.is_none() && !self.has_room(desk, turn).await? {
            return Ok(false);
        }
        let all = f64::from(self.0.count);
        let allowance = Allowance {
            events: stored.map_or(all, |stored| self.grown(stored, desk.now)),
            at_ms: desk.now,
        };
        desk.allowances.insert(text.to_owned(), allowance);
        Ok(true)
    }

    /// What may be sent by now.
    fn grown(&self, stored: Allowance, now: u64) -> f64 {
        let passed = now.saturating_sub(stored.at_ms) as f64 / self.0.per.as_millis() as f64;
        let count = f64::from(self.0.count);
        (stored.events + passed * count).min(count)
    }

    /// Whether another key can be remembered, for which some may have to be forgotten.
    async fn has_room(&self, desk: &mut Desk, turn: &mut Turn) -> Result<bool, Failure> {
        let mut keys = match desk.keys {
            Some(keys) => keys,
            None => state::load(turn, KEYS).await?.unwrap_or(0),
        };
        if keys >= self.0.keys_max && !desk.is_full {
            keys -= self.forget(desk, turn).await?;
            // Nothing more can be forgotten before time goes on.
            desk.is_full = keys >= self.0.keys_max;
        }
        let has_room = keys < self.0.keys_max;
        desk.keys = Some(keys + u64::from(has_room));
        Ok(has_room)
    }

    /// Forgets keys that could send all again; gives how many.
    async fn forget(&self, desk: &mut Desk, turn: &mut Turn) -> Result<u64, Failure> {
        write(desk, turn)?;
        let mut forgotten = 0;
        for (key, stored) in turn.scan(&[ALLOWANCE], None, SCAN_MAX).await? {
            if self.grown(state::read(&stored)?, desk.now) >= f64::from(self.0.count) {
                turn.remove_state(key)?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }
}

/// Writes everything on the desk, and clears it of keys.
fn write(desk: &mut Desk, turn: &mut Turn) -> Result<(), Failure> {
    for (text, allowance) in std::mem::take(&mut desk.allowances) {
        state::store(turn, key_of(ALLOWANCE, &text), &allowance)?;
    }
    match desk.keys {
        Some(keys) => state::store(turn, KEYS.to_vec(), &keys),
        None => Ok(()),
    }
}
