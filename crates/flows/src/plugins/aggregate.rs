//! `aggregate`: running values over all events of a key.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::state::{self, group_of, key_of};
use super::worker::{OUT, REFUSED_OUTPUT, emit, refuse, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::{Data, Event};
use crate::window::compute::{Accumulators, Computations};

/// Parameters of `aggregate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The key: events of the same key belong together. Take what the key of the stage is taken from. Without it all
    /// events of a worker belong together.
    by: Option<Formula>,
    /// What is computed, by name: `"count"`, or one of `sum`, `min`, `max`, `average`, `distinct`, `top` and `collect`
    /// with its expression, such as `{"total": {"sum": "event.price"}}`.
    compute: Computations,
    /// How often results come out: without it, after each event; with it, after this time for keys that changed.
    every: Option<Period>,
    /// How many keys there may be in one bucket of the stage; events of further keys are refused.
    #[serde(default = "keys_max")]
    keys_max: u64,
    /// What happens with an event for which something cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

pub(super) fn keys_max() -> u64 {
    100_000
}

pub(super) struct Aggregate(Parameters);

/// What is known of one key.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Group {
    #[serde(rename = "k")]
    key: Data,
    #[serde(rename = "a")]
    accumulators: Accumulators,
}

/// What a batch works with: each group is read once and written once.
#[derive(Default)]
struct Desk {
    groups: BTreeMap<String, Group>,
    /// How many keys there are, once that is known, and whether that changed.
    keys: Option<u64>,
    has_new_keys: bool,
}

const GROUP: u8 = b'k';
const CHANGED: u8 = b'd';
const KEYS: &[u8] = b"n";
const TIMER_IS_SET: &[u8] = b"t";
const TIMER: &str = "emit";
/// So many results are emitted in one turn.
const EMITS_MAX: usize = 1_000;

impl Plugin for Aggregate {
    const ID: &'static str = "aggregate";
    const DESCRIPTION: &'static str = "Computes running values over all events of a key: count, sum, min, max, average, distinct, top, collect.\n\n\
        What comes out is a record with the `key` and the computed values. State is kept for each key and survives restarts and moves.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "The values of a key that changed, with the `key`."),
        (
            REFUSED_OUTPUT.0,
            "Events of keys beyond `keys_max` and, if `on_error` is `refused`, others that could not be handled; as `event` beside the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "How often each word came",
            r#"{"by": "event.word", "compute": {"count": "count"}}"#,
        ),
        (
            "Sales of each shop, every ten seconds",
            r#"{"by": "event.shop", "every": "10s", "compute": {"total": {"sum": "event.price"}, "customers": {"distinct": "event.customer"}, "best": {"top": {"of": "event.article", "k": 3}}}}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        parameters.compute.check("compute")?;
        Ok(Self(parameters))
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        parameters.compute.check("compute")
    }
}

#[async_trait]
impl Worker for Aggregate {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut desk = Desk::default();
        for message in messages {
            match &message.kind {
                Kind::Timer(name) if &**name == TIMER => {
                    self.write(&mut desk, turn).await?;
                    self.emit_changed(turn).await?;
                }
                Kind::Woken => {}
                _ => self.add(message, &mut desk, turn).await?,
            }
        }
        self.write(&mut desk, turn).await
    }
}

impl Aggregate {
    async fn add(
        &self,
        message: &Incoming,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let variables = variables(&event, message);
        let found = group_of(self.0.by.as_ref(), &variables)
            .and_then(|group| Ok((group, self.0.compute.inputs(&variables)?)));
        let ((key, text), inputs) = match found {
            Ok(found) => found,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        if !desk.groups.contains_key(&text) && !self.load(key, &text, desk, turn).await? {
            let reason = format!(
                "there are {} keys already; raise keys_max, or use fewer keys",
                self.0.keys_max
            );
            return refuse(&event, reason, turn);
        }
        if let Some(group) = desk.groups.get_mut(&text) {
            self.0.compute.add(&mut group.accumulators, &inputs);
            if self.0.every.is_none() {
                return self.emit(group, turn);
            }
        }
        Ok(())
    }

    /// Brings a group to the desk; false if there is no room for another key.
    async fn load(
        &self,
        key: Data,
        text: &str,
        desk: &mut Desk,
        turn: &Turn,
    ) -> Result<bool, Failure> {
        let stored: Option<Group> = state::load(turn, &key_of(GROUP, text)).await?;
        if let Some(group) = stored {
            if !self.0.compute.fit(&group.accumulators) {
                let reason = "the values kept so far were computed with other parameters; put them back, or remove the stage and add it anew";
                return Err(Failure::new(reason));
            }
            desk.groups.insert(text.to_owned(), group);
            return Ok(true);
        }
        let keys = match desk.keys {
            Some(keys) => keys,
            None => state::load(turn, KEYS).await?.unwrap_or(0),
        };
        desk.keys = Some(keys);
        if keys >= self.0.keys_max {
            return Ok(false);
        }
        desk.keys = Some(keys + 1);
        desk.has_new_keys = true;
        let accumulators = self.0.compute.start();
        desk.groups
            .insert(text.to_owned(), Group { key, accumulators });
        Ok(true)
    }

    async fn write(&self, desk: &mut Desk, turn: &mut Turn) -> Result<(), Failure> {
        let changed = !desk.groups.is_empty();
        for (text, group) in std::mem::take(&mut desk.groups) {
            state::store(turn, key_of(GROUP, &text), &group)?;
            if self.0.every.is_some() {
                turn.set_state(key_of(CHANGED, &text), bytes::Bytes::new())?;
            }
        }
        if std::mem::take(&mut desk.has_new_keys) {
            state::store(turn, KEYS.to_vec(), &desk.keys)?;
        }
        match self.0.every {
            Some(every) if changed => self.set_timer(every, turn).await,
            _ => Ok(()),
        }
    }

    async fn set_timer(&self, every: Period, turn: &mut Turn) -> Result<(), Failure> {
        if turn.state(TIMER_IS_SET).await?.is_some() {
            return Ok(());
        }
        turn.set_state(TIMER_IS_SET, "1")?;
        turn.set_timer(TIMER, every.duration(), bytes::Bytes::new())
    }

    /// Emits the groups that changed since the last time.
    async fn emit_changed(&self, turn: &mut Turn) -> Result<(), Failure> {
        let changed = turn.scan(&[CHANGED], None, EMITS_MAX).await?;
        let has_more = changed.len() == EMITS_MAX;
        for (mark, _) in changed {
            let key = [&[GROUP], &mark[1..]].concat();
            if let Some(group) = state::load::<Group>(turn, &key).await? {
                self.emit(&group, turn)?;
            }
            turn.remove_state(mark)?;
        }
        turn.remove_state(TIMER_IS_SET)?;
        if has_more {
            self.set_timer(Period::from_millis(1), turn).await?;
        }
        Ok(())
    }

    fn emit(&self, group: &Group, turn: &mut Turn) -> Result<(), Failure> {
        let key = self.0.by.as_ref().map(|_| ("key", group.key.clone()));
        let results = self
            .0
            .compute
            .results(&group.accumulators, key.into_iter().collect());
        emit(turn, OUT, results.into())
    }
}
