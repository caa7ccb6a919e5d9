//! `prioritise`: what matters most comes out first.

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
        let stored: Option<Waiting> = state::load(turn, WAITING).await?;
        let mut waiting = stored.unwrap_or_default();
        match &message.kind {
            Kind::Timer(name) if &**name == TIMER => {
                emit_first(waiting.count as usize, turn).await?;
                waiting.count = 0;
            }
            _ => self.add(message, &mut waiting, turn).await?,
        }
        match stored == Some(waiting) {
            true => Ok(()),
            false => state::store(turn, WAITING.to_vec(), &waiting),
        }
    }
}

impl Prioritise {
    async fn add(
        &self,
        message: &Incoming,
        waiting: &mut Waiting,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let priority = match self.0.priority.number(&variables(&event, message)) {
            Ok(priority) => priority,
            Err(error) => return self.0.on_error.refuse(&event, error.into(), turn),
        };
        if waiting.count == 0 {
            turn.set_timer(TIMER, self.0.wait.duration(), Bytes::new())?;
        }
        state::store(turn, key(priority, waiting.next), event.data())?;
        waiting.next += 1;
        waiting.count += 1;
        if waiting.count > self.0.size {
            emit_first(1, turn).await?;
            waiting.count -= 1;
        }
        Ok(())
    }
}

async fn emit_first(count: usize, turn: &mut Turn) -> Result<(), Failure> {
    for (key, event) in turn.scan(&[EVENT], None, count).await? {
        emit(turn, OUT, state::read::<Data>(&event)?)?;
        turn.remove_state(key)?;
    }
    Ok(())
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
