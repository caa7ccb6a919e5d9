//! Keeps results until all have come.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use tokio::sync::mpsc;

/// When the last result came, and all of them.
pub type Said = (Instant, Vec<Arc<dyn Value>>);

/// Keeps results.
pub struct Sink {
    due: usize,
    results: Vec<Arc<dyn Value>>,
    done: mpsc::UnboundedSender<Said>,
}

impl Sink {
    pub fn new(due: usize, done: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            due,
            results: Vec::new(),
            done,
        }
    }
}

#[async_trait]
impl Worker for Sink {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], _turn: &mut Turn) -> Result<(), Failure> {
        let results = messages.iter().map(|message| message.value.clone());
        self.results.extend(results.flatten());
        if self.results.len() == self.due {
            let results = std::mem::take(&mut self.results);
            // Whoever no longer waits has reported an error already.
            let _ = self.done.send((Instant::now(), results));
        }
        Ok(())
    }
}
