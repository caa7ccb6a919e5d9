//! All workers.

use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;

use super::{Router, Workers};

/// Chooses all workers, also those without room: each has a queue of its own, where its copy waits.
#[derive(Debug)]
struct Broadcast;

pub(super) fn make() -> Arc<dyn Router> {
    Arc::new(Broadcast)
}

impl Router for Broadcast {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        chosen.extend(0..workers.count());
        Ok(())
    }
}
