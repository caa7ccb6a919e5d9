//! All workers, of which the fastest answers.

use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;

use super::{Router, Workers};

/// Chooses all workers. Which answer counts is up to [`crate::routed::RouterWorker`].
#[derive(Debug)]
struct ScatterGather;

pub(super) fn make() -> Arc<dyn Router> {
    Arc::new(ScatterGather)
}

impl Router for ScatterGather {
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
