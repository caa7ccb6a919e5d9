//! `deduplicate`: what came before does not come again.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::event_time::{ahead_max, too_far_ahead};
use super::state::{self, group_of, key_at, key_of, time_and_text};
use super::worker::{OUT, REFUSED_OUTPUT, refuse, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::Event;

/// Parameters of `deduplicate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What makes two events the same, such as `event.id`. Take what the key of the stage is taken from.
    by: Formula,
    /// How long an event is remembered.
    within: Period,
    /// When an event happened: milliseconds since 1970, or a text such as `2026-01-31T12:00:00Z`. Without it, when it
    /// comes here.
    time: Option<Formula>,
    /// How far the time of an event may lie ahead of the clock. What is further ahead does not move time and goes to the
    /// output `refused`.
    #[serde(default = "ahead_max")]
    ahead_max: Period,
    /// How many events are remembered in one bucket of the stage; beyond that, the oldest is forgotten early.
    #[serde(default = "keys_max")]
    keys_max: u64,
    /// What happens with an event for which that cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

fn keys_max() -> u64 {
    100_000
}

pub(super) struct Deduplicate(Parameters);

/// How many events are remembered, and the latest time of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Remembered {
    keys: u64,
    latest: i64,
}

/// What a batch works with: each key is read once.
struct Desk {
    remembered: Remembered,
    /// When events were seen that are remembered, of the keys that were looked at.
    seen: HashMap<String, Option<i64>>,
}

const SEEN: u8 = b'k';
const ORDER: u8 = b't';
const REMEMBERED: &[u8] = b"n";
const DUPLICATES: &str = "duplicates";
const SCAN_MAX: usize = 256;

impl Plugin for Deduplicate {
    const ID: &'static str = "deduplicate";
    const DESCRIPTION: &'static str = "Lets each event pass once, within a time.\n\n\
        The first of equal events passes; the others go to the output `duplicates` until the first one is forgotten.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Events that did not come before."),
        (DUPLICATES, "Events that did."),
        (
            REFUSED_OUTPUT.0,
            "Events ahead of the clock beyond `ahead_max` and, if `on_error` is `refused`, others that could not be handled; as `event` beside the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "Orders that were sent twice",
            r#"{"by": "event.id", "within": "1h"}"#,
        ),
        (
            "By the time of the events",
            r#"{"by": "event.id", "within": "20s", "time": "event.at", "keys_max": 10}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

#[async_trait]
impl Worker for Deduplicate {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let stored: Option<Remembered> = state::load(turn, REMEMBERED).await?;
        let mut desk = Desk {
            remembered: stored.unwrap_or(Remembered {
                keys: 0,
                latest: i64::MIN,
            }),
            seen: HashMap::new(),
        };
        for message in messages {
            self.take(message, &mut desk, turn).await?;
        }
        self.forget(&mut desk, 0, turn).await?;
        match stored == Some(desk.remembered) || desk.remembered.latest == i64::MIN {
            true => Ok(()),
            false => state::store(turn, REMEMBERED.to_vec(), &desk.remembered),
        }
    }
}

impl Deduplicate {
    async fn take(
        &self,
        message: &Incoming,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let variables = variables(&event, message);
        let read = || {
            let time = match &self.0.time {
                Some(time) => time.time_ms(&variables)?,
                None => turn.now().as_millis() as i64,
            };
            Ok((time, group_of(Some(&self.0.by), &variables)?.1))
        };
        let (time, text) = match read() {
            Ok(read) => read,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        if let Some(reason) = too_far_ahead(time, self.0.ahead_max, turn) {
            return refuse(&event, reason, turn);
        }
        desk.remembered.latest = desk.remembered.latest.max(time);
        let seen = match desk.seen.get(&text) {
            Some(seen) => *seen,
            None => state::load(turn, &key_of(SEEN, &text)).await?,
        };
        if seen.is_some_and(|seen| !self.is_over(seen, &desk.remembered)) {
            desk.seen.insert(text, seen);
            return turn.emit_value(DUPLICATES, event);
        }
        match seen {
            Some(seen) => turn.remove_state(key_at(ORDER, seen, &text))?,
            None => desk.remembered.keys += 1,
        }
        state::store(turn, key_of(SEEN, &text), &time)?;
        turn.set_state(key_at(ORDER, time, &text), Bytes::new())?;
        desk.seen.insert(text, Some(time));
        let beyond = desk.remembered.keys.saturating_sub(self.0.keys_max);
        if beyond > 0 {
            self.forget(desk, beyond, turn).await?;
        }
        turn.emit_value(OUT, event)
    }

    fn is_over(&self, seen: i64, remembered: &Remembered) -> bool {
        seen.saturating_add(self.0.within.as_millis()) <= remembered.latest
    }

    /// Forgets what is over, and so many of the oldest whether they are over or not.
    async fn forget(
        &self,
        desk: &mut Desk,
        mut at_least: u64,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        loop {
            let oldest = turn.scan(&[ORDER], None, SCAN_MAX).await?;
            for (key, _) in &oldest {
                let (seen, text) = time_and_text(key)?;
                if at_least == 0 && !self.is_over(seen, &desk.remembered) {
                    return Ok(());
                }
                turn.remove_state(key_of(SEEN, text))?;
                turn.remove_state(key.clone())?;
                desk.seen.insert(text.to_owned(), None);
                desk.remembered.keys -= 1;
                at_least = at_least.saturating_sub(1);
            }
            if oldest.len() < SCAN_MAX {
                return Ok(());
            }
        }
    }
}
