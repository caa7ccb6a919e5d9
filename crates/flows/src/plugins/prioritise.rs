//! `prioritise`: what matters most comes out first.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::state;
use super::worker::{OUT, REFUSED_OUTPUT, emit, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::{Data, Event};

/// Parameters of `prioritise`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The priority, a number: the highest comes out first; of equal ones, the earliest.
    priority: Formula,
    /// How many events wait at most; with one more, the first of them comes out.
    #[serde(default = "size")]
    size: u64,
    /// So long after the first event began to wait, all come out.
    #[serde(default = "wait")]
    wait: Period,
    /// What happens with an event for which the priority cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

fn size() -> u64 {
    100
}

fn wait() -> Period {
    Period::from_millis(1_000)
}

pub(super) struct Prioritise(Parameters);

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Waiting {
    count: u64,
    /// The number of the next event.
    next: u64,
}

/// What a batch works with: an event that comes out within the batch is never written.
struct Desk {
    waiting: Waiting,
    /// The new ones, and the first of those that are stored, in the order in which they come out.
    events: BTreeMap<Bytes, Held>,
}

/// An event that waits.
enum Held {
    Stored(Bytes),
    New(Arc<Event>),
}

const SIZE_MAX: u64 = 5_000;
const EVENT: u8 = b'e';
const WAITING: &[u8] = b"n";
const TIMER: &str = "all";

impl Plugin for Prioritise {
    const ID: &'static str = "prioritise";
    const DESCRIPTION: &'static str = "Lets events wait a little, so that the most important ones overtake the others.\n\n\
        Those of one bucket of the stage, or of one worker, are compared with each other.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "The events, the most important of those that wait first.",
        ),
        REFUSED_OUTPUT,
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Urgent tickets first",
        r#"{"priority": "event.urgency", "size": 20, "wait": "2s"}"#,
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
    match (1..=SIZE_MAX).contains(&parameters.size) {
        true => Ok(()),
        false => Err(ParameterError::new(
            "size",
            format!("write 1 to {SIZE_MAX}"),
        )),
    }
}

#[async_trait]
impl Worker for Prioritise {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let stored: Option<Waiting> = state::load(turn, WAITING).await?;
        let mut desk = Desk {
            waiting: stored.unwrap_or_default(),
            events: BTreeMap::new(),
        };
        self.load_first(messages, &mut desk, turn).await?;
        for message in messages {
            match is_timer(message) {
                true => desk.emit_first(desk.waiting.count, turn)?,
                false if message.kind == Kind::Woken => {}
                false => self.add(message, &mut desk, turn)?,
            }
        }
        desk.write_new(turn)?;
        match stored == Some(desk.waiting) {
            true => Ok(()),
            false => state::store(turn, WAITING.to_vec(), &desk.waiting),
        }
    }
}

fn is_timer(message: &Incoming) -> bool {
    matches!(&message.kind, Kind::Timer(name) if &**name == TIMER)
}

impl Prioritise {
    /// Brings those to the desk that may come out: all if their time is up, and otherwise at most one for each event
    /// that comes, the first of them.
    async fn load_first(
        &self,
        messages: &[Incoming],
        desk: &mut Desk,
        turn: &Turn,
    ) -> Result<(), Failure> {
        let count = desk.waiting.count as usize;
        let beyond = (count + messages.len()).saturating_sub(self.0.size as usize);
        let wanted = match messages.iter().any(is_timer) {
            true => count,
            false => beyond.min(count),
        };
        if wanted > 0 {
            let first = turn.scan(&[EVENT], None, wanted).await?;
            let stored = first.into_iter();
            desk.events
                .extend(stored.map(|(key, event)| (key, Held::Stored(event))));
        }
        Ok(())
    }

    fn add(&self, message: &Incoming, desk: &mut Desk, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let priority = match self.0.priority.number(&variables(&event, message)) {
            Ok(priority) => priority,
            Err(error) => return self.0.on_error.refuse(&event, error.into(), turn),
        };
        if desk.waiting.count == 0 {
            turn.set_timer(TIMER, self.0.wait.duration(), Bytes::new())?;
        }
        let key = key(priority, desk.waiting.next);
        desk.events.insert(key.into(), Held::New(event));
        desk.waiting.next += 1;
        desk.waiting.count += 1;
        match desk.waiting.count > self.0.size {
            true => desk.emit_first(1, turn),
            false => Ok(()),
        }
    }
}

impl Desk {
    fn emit_first(&mut self, count: u64, turn: &mut Turn) -> Result<(), Failure> {
        for _ in 0..count {
            let Some((key, held)) = self.events.pop_first() else {
                return Ok(());
            };
            self.waiting.count -= 1;
            match held {
                Held::New(event) => turn.emit_value(OUT, event)?,
                Held::Stored(event) => {
                    emit(turn, OUT, state::read::<Data>(&event)?)?;
                    turn.remove_state(key)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the new ones that still wait.
    fn write_new(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        for (key, held) in std::mem::take(&mut self.events) {
            if let Held::New(event) = held {
                state::store(turn, key.to_vec(), event.data())?;
            }
        }
        Ok(())
    }
}

/// Keys are sorted by falling priority and rising number.
fn key(priority: f64, number: u64) -> Vec<u8> {
    let bits = priority.to_bits();
    // As bytes, the bits of numbers below zero are sorted the other way round.
    let rising = if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    };
    let mut key = vec![EVENT];
    key.extend_from_slice(&(!rising).to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}
