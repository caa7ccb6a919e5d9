//! Nexmark's query 0: every event as it came.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Stretch, Turn, Worker};

pub struct PassOn;

#[async_trait]
impl Worker for PassOn {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let value = message.value.clone();
        let value = value.ok_or_else(|| Failure::new("this is no value"))?;
        turn.emit_value("out", value)
    }

    fn takes_series(&self, _messages: &Stretch) -> bool {
        true
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for stretch in series {
            turn.emit_series("out", stretch.clone())?;
        }
        Ok(())
    }
}
