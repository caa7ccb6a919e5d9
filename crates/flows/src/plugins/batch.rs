//! `batch`: several events become one.

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::state;
use super::worker::{OUT, emit};
use super::{Environment, Outputs, ParameterError, Period};
use crate::event::{Data, Event};

/// Parameters of `batch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// After so many events a batch is complete; at most 10,000.
    #[serde(default = "count")]
    count: usize,
    /// After so many bytes a batch is complete; at most 4 MiB.
    #[serde(default = "bytes_max")]
    bytes: usize,
    /// So long after its first event a batch is complete.
    #[serde(default = "every")]
    every: Period,
}

fn count() -> usize {
    1_000
}

fn bytes_max() -> usize {
    BYTES_MAX
}

fn every() -> Period {
    Period::from_millis(1_000)
}

pub(super) struct Batch(Parameters);

const COUNT_MAX: usize = 10_000;
const BYTES_MAX: usize = 4 << 20;
const WAITING: &[u8] = b"b";
const TIMER: &str = "complete";

impl Plugin for Batch {
    const ID: &'static str = "batch";
    const DESCRIPTION: &'static str = "Gathers events into batches, by count, bytes or time.\n\n\
        A batch is a record with the list `events` and their `count`. Events of one bucket of the stage, or of one worker, are gathered.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "Batches: `events` and `count`.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Up to 30 at a time, at least every five seconds",
        r#"{"count": 30, "every": "5s"}"#,
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
    for (field, value, max) in [
        ("count", parameters.count, COUNT_MAX),
        ("bytes", parameters.bytes, BYTES_MAX),
    ] {
        if value == 0 || value > max {
            return Err(ParameterError::new(field, format!("write 1 to {max}")));
        }
    }
    Ok(())
}

#[async_trait]
impl Worker for Batch {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut waiting: Vec<Data> = state::load(turn, WAITING).await?.unwrap_or_default();
        let mut bytes: usize = waiting.iter().map(Data::len_bytes).sum();
        for message in messages {
            if message.kind == Kind::Woken {
                continue;
            }
            let is_due = matches!(&message.kind, Kind::Timer(name) if &**name == TIMER);
            if !is_due {
                let event = Event::into_data(Event::of(message)?);
                bytes += event.len_bytes();
                if waiting.is_empty() {
                    turn.set_timer(TIMER, self.0.every.duration(), Bytes::new())?;
                }
                waiting.push(event);
            }
            let is_full = waiting.len() >= self.0.count || bytes >= self.0.bytes;
            if (is_due || is_full) && !waiting.is_empty() {
                let count = waiting.len() as u64;
                let events = std::mem::take(&mut waiting);
                bytes = 0;
                emit(
                    turn,
                    OUT,
                    Data::record([("count", count.into()), ("events", events.into())]),
                )?;
                turn.cancel_timer(TIMER)?;
            }
        }
        state::store(turn, WAITING.to_vec(), &waiting)
    }
}
