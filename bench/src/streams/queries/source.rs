//! Gives what a generator makes.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Provided, Turn, Value, Worker};

use super::end::End;

/// How many events are made in one turn.
const TURN_EVENTS: u32 = 256;

/// Gives so many events, and then the end.
pub struct Source<V> {
    make: fn(u64) -> V,
    next: u32,
    events: u32,
}

impl<V> Source<V> {
    pub fn new(make: fn(u64) -> V, events: u32) -> Self {
        Self {
            make,
            next: 0,
            events,
        }
    }
}

#[async_trait]
impl<V: Value> Worker for Source<V> {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a provider has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let end = self.events.min(self.next.saturating_add(TURN_EVENTS));
        for number in self.next..end {
            turn.emit_value("out", Arc::new((self.make)(u64::from(number))))?;
        }
        self.next = end;
        if end < self.events {
            return Ok(Provided::More);
        }
        turn.emit_value("out", Arc::new(End))?;
        Ok(Provided::Done)
    }
}
