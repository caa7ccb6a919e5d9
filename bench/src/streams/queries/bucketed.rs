//! A worker of a keyed stage, which keeps what belongs to its buckets in its memory.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use runtime::{BUCKETS, bucket_of};
use serde::Serialize;

use super::keyed::{Given, HasKey, Mark};
use crate::streams::state::State;

/// Has a state for each bucket. Gives what they give, and passes marks on.
pub struct Bucketed<V, S> {
    states: Vec<S>,
    values: PhantomData<fn(V)>,
}

impl<V, S: State> Bucketed<V, S> {
    pub fn new() -> Self {
        Self {
            states: (0..BUCKETS).map(|_| S::default()).collect(),
            values: PhantomData,
        }
    }
}

#[async_trait]
impl<V, S> Worker for Bucketed<V, S>
where
    V: HasKey,
    S: State<Input = V::Event>,
    S::Output: Serialize + Debug + Send + Sync + 'static,
{
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let Some(first) = messages.first() else {
            return Ok(());
        };
        // All of them belong to one bucket.
        let state = &mut self.states[bucket::<V>(first)? as usize];
        for message in messages {
            if let Some(value) = message.value::<V>() {
                let mut out = Out::new(turn);
                state.take(value.event(), |given| out.give(given));
                out.outcome?;
            } else if let Some(mark) = message.value::<Mark>() {
                let mut out = Out::new(turn);
                state.pass(mark.time_ms, |given| out.give(given));
                out.outcome?;
                turn.emit_value("out", message.value.clone().ok_or_else(unknown)?)?;
            } else {
                return Err(unknown());
            }
        }
        Ok(())
    }
}

fn bucket<V: HasKey>(message: &Incoming) -> Result<u32, Failure> {
    let key = match (message.value::<V>(), message.value::<Mark>()) {
        (Some(value), _) => value.key(),
        (None, Some(mark)) => mark.key(),
        (None, None) => return Err(unknown()),
    };
    Ok(bucket_of(key.as_bytes()))
}

fn unknown() -> Failure {
    Failure::new("this is neither an event of the query nor a mark")
}

/// Takes what a state gives.
pub(super) struct Out<'a> {
    turn: &'a mut Turn,
    /// Whether all of it was taken.
    pub outcome: Result<(), Failure>,
}

impl<'a> Out<'a> {
    pub fn new(turn: &'a mut Turn) -> Self {
        Self {
            turn,
            outcome: Ok(()),
        }
    }

    pub fn give<T: Serialize + Debug + Send + Sync + 'static>(&mut self, given: T) {
        if self.outcome.is_ok() {
            self.outcome = self.turn.emit_value("out", Arc::new(Given(given)));
        }
    }
}
