//! Sums results up until all have come.

use std::time::Instant;

use async_trait::async_trait;
use flows::Event;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use tokio::sync::mpsc;

use super::results::Results;

/// When the last result came, and one number for all.
pub type Said = (Instant, u64);

/// Sums results up.
pub struct Sink {
    due: u64,
    results: Results,
    done: mpsc::UnboundedSender<Said>,
}

impl Sink {
    pub fn new(due: u64, results: Results, done: mpsc::UnboundedSender<Said>) -> Self {
        Self { due, results, done }
    }
}

#[async_trait]
impl Worker for Sink {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], _turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            let event = message.value::<Event>();
            let event = event.ok_or_else(|| Failure::new("this is no event"))?;
            self.results.add(event.data())?;
            self.due = self.due.saturating_sub(1);
            if self.due == 0 {
                // Whoever no longer waits has reported an error already.
                let _ = self.done.send((Instant::now(), self.results.checksum()));
            }
        }
        Ok(())
    }
}
