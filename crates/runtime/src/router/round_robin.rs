//! One worker after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::Message;
use kernel::worker::Failure;

use super::{Router, Workers, first_with_room};

/// Chooses the next worker that has room.
#[derive(Debug, Default)]
struct RoundRobin {
    next: AtomicU32,
}

pub(super) fn make() -> Arc<dyn Router> {
    Arc::<RoundRobin>::default()
}

impl Router for RoundRobin {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        let mut found = None;
        // The turn goes on after the one that was chosen, so that whoever follows a full worker
        // does not get its share as well.
        let _ = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                let start = if next < workers.count() { next } else { 0 };
                found = first_with_room(workers, start);
                found.map(|worker| worker + 1)
            });
        chosen.extend(found);
        Ok(())
    }
}
