//! One worker after another until one answers.

use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;

use super::{Router, Workers};

/// Chooses all workers, in the order in which they are to be asked: at random, but those that have
/// room first. When the next one is asked is up to [`crate::routed::RouterWorker`].
#[derive(Debug)]
struct TailChopping;

pub(super) fn make() -> Arc<dyn Router> {
    Arc::new(TailChopping)
}

impl Router for TailChopping {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        chosen.extend(0..workers.count());
        fastrand::shuffle(chosen);
        chosen.sort_by_cached_key(|worker| !workers.has_room(*worker));
        Ok(())
    }
}
