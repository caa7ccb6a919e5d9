//! Brings together what the buckets of a keyed stage gave.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use runtime::BUCKETS;
use serde::Serialize;

use super::bucketed::Out;
use super::end::End;
use super::keyed::{Given, Mark};
use crate::streams::state::State;

/// Has one state for what all buckets give. Time passes for it once it has passed for all of them.
#[derive(Default)]
pub struct Gather<S> {
    state: S,
    /// How many buckets have passed a time.
    passed: BTreeMap<u64, u32>,
}

#[async_trait]
impl<S> Worker for Gather<S>
where
    S: State,
    S::Input: Serialize + Debug + Send + Sync + Sized + 'static,
    S::Output: Serialize + Debug + Send + Sync + 'static,
{
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            self.one(message, turn)?;
        }
        Ok(())
    }
}

impl<S> Gather<S>
where
    S: State,
    S::Input: Serialize + Debug + Send + Sync + Sized + 'static,
    S::Output: Serialize + Debug + Send + Sync + 'static,
{
    fn one(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let mut out = Out::new(turn);
        if let Some(given) = message.value::<Given<S::Input>>() {
            self.state.take(&given.0, |given| out.give(given));
            return out.outcome;
        }
        let Some(mark) = message.value::<Mark>() else {
            return Err(Failure::new("this is neither a result nor a mark"));
        };
        if !self.is_last(mark.time_ms) {
            return Ok(());
        }
        self.state.pass(mark.time_ms, |given| out.give(given));
        out.outcome?;
        match mark.is_end() {
            true => turn.emit_value("out", Arc::new(End)),
            false => Ok(()),
        }
    }
}

impl<S> Gather<S> {
    /// Whether this mark is that of the last bucket.
    fn is_last(&mut self, time_ms: u64) -> bool {
        let passed = self.passed.entry(time_ms).or_default();
        *passed += 1;
        let is_last = *passed == BUCKETS;
        if is_last {
            self.passed.remove(&time_ms);
        }
        is_last
    }
}
