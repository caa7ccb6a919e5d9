//! Gives what comes of each event by itself.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Stretch, Turn, Value, Worker};

use super::end::End;
use crate::streams::events::Event;

/// Gives what a function makes of each event, if it makes anything.
pub struct Each<R> {
    make: fn(&Event) -> Option<R>,
    /// As many as it gave of the last series, so that the list need not grow.
    given: usize,
}

impl<R> Each<R> {
    pub fn new(make: fn(&Event) -> Option<R>) -> Self {
        Self { make, given: 0 }
    }
}

#[async_trait]
impl<R: Value + Clone> Worker for Each<R> {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        match message.value::<Event>().map(self.make) {
            Some(Some(result)) => turn.emit_value("out", Arc::new(result)),
            Some(None) => Ok(()),
            None => turn.emit_value("out", Arc::new(End)),
        }
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Event>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for events in series.iter().filter_map(Stretch::values) {
            let mut results = Vec::with_capacity(self.given);
            results.extend(events.iter().filter_map(self.make));
            self.given = results.len();
            turn.emit_series("out", results)?;
        }
        Ok(())
    }
}
