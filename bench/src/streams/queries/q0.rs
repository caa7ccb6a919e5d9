//! Nexmark's query 0: every event as it came.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};

pub struct PassOn;

#[async_trait]
impl Worker for PassOn {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            let value = message.value.clone();
            let value = value.ok_or_else(|| Failure::new("this is no value"))?;
            turn.emit_value("out", value)?;
        }
        Ok(())
    }
}
