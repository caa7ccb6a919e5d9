//! Gives what a generator makes.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Provided, Turn, Value, Worker};

use super::end::End;

/// How many events are made in one turn.
const TURN_EVENTS: u32 = 256;

/// One of several that give all events together, each the same part of them, and then the end.
pub struct Source<V> {
    make: fn(u64) -> V,
    next: u32,
    step: u32,
    events: u32,
}

impl<V> Source<V> {
    /// The one of this number among so many.
    pub fn new(make: fn(u64) -> V, events: u32, number: u32, sources: u32) -> Self {
        Self {
            make,
            next: number,
            step: sources,
            events,
        }
    }
}

#[async_trait]
impl<V: Value + Clone> Worker for Source<V> {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a provider has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let end = self.next.saturating_add(TURN_EVENTS * self.step);
        let numbers = (self.next..end.min(self.events)).step_by(self.step as usize);
        let events = numbers.map(|number| (self.make)(u64::from(number)));
        turn.emit_series("out", events.collect::<Vec<V>>())?;
        self.next = end;
        if end < self.events {
            return Ok(Provided::More);
        }
        turn.emit_value("out", Arc::new(End))?;
        Ok(Provided::Done)
    }
}
