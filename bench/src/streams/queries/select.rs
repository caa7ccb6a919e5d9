//! Takes out of all events what a query looks at, and gives it a key.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Stretch, Turn, Worker};
use serde::Serialize;

use super::keyed::{Keyed, Marks};
use crate::streams::events::Event;
use crate::streams::state::END_MS;

/// What a query looks at, and its key.
pub type Select<T> = fn(&Event) -> Option<(u64, T)>;

/// Passes on what a query looks at. It is the only worker of its stage, so it sees events in the order of their
/// time, and now and then it marks how far time is.
pub struct Selecting<T> {
    select: Select<T>,
    marks: Marks,
    mark_every_ms: u64,
    next_mark_ms: u64,
}

impl<T> Selecting<T> {
    /// Time is marked this often.
    pub fn new(select: Select<T>, mark_every_ms: u64) -> Self {
        Self {
            select,
            marks: Marks::new(),
            mark_every_ms,
            next_mark_ms: mark_every_ms,
        }
    }

    fn pass(&mut self, time_ms: u64, turn: &mut Turn) -> Result<(), Failure> {
        for mark in self.marks.at(time_ms) {
            turn.emit_value("out", Arc::new(mark))?;
        }
        self.next_mark_ms = time_ms.saturating_add(self.mark_every_ms);
        Ok(())
    }
}

impl<T: Serialize + Debug + Send + Sync + 'static> Selecting<T> {
    fn look_at(&mut self, event: &Event, turn: &mut Turn) -> Result<(), Failure> {
        let time_ms = event.time_ms();
        if time_ms >= self.next_mark_ms {
            self.pass(time_ms - time_ms % self.mark_every_ms, turn)?;
        }
        match (self.select)(event) {
            Some((key, selected)) => turn.emit_value("out", Arc::new(Keyed::new(key, selected))),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl<T: Serialize + Debug + Send + Sync + 'static> Worker for Selecting<T> {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            match message.value::<Event>() {
                Some(event) => self.look_at(event, turn)?,
                None => self.pass(END_MS, turn)?,
            }
        }
        Ok(())
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Event>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for event in series.iter().filter_map(Stretch::values).flatten() {
            self.look_at(event, turn)?;
        }
        Ok(())
    }
}
