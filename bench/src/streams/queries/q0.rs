//! Nexmark's query 0: every event as it came.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};

pub struct PassOn;

#[async_trait]
impl Worker for PassOn {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let value = message.value.clone();
        turn.emit_value(
            "out",
            value.ok_or_else(|| Failure::new("this is no value"))?,
        )
    }
}
