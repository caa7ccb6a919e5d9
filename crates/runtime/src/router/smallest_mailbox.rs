//! The worker for which the fewest messages wait.

use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;

use super::{LOOKED_AT_MAX, Router, Workers, first_with_room};

/// How many of many workers are compared.
const SAMPLES: u32 = 8;

/// Chooses the worker with the smallest mailbox; of more than 64, the best of eight.
#[derive(Debug)]
struct SmallestMailbox;

pub(super) fn make() -> Arc<dyn Router> {
    Arc::new(SmallestMailbox)
}

impl Router for SmallestMailbox {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        let count = workers.count();
        if count == 0 {
            return Ok(());
        }
        let start = fastrand::u32(..count);
        chosen.extend(if count <= LOOKED_AT_MAX {
            // Of equal ones the first wins, so the first must not always be the same.
            smallest(workers, (start..count).chain(0..start))
        } else {
            let samples = (0..SAMPLES).map(|_| fastrand::u32(..count));
            smallest(workers, samples).or_else(|| first_with_room(workers, start))
        });
        Ok(())
    }
}

fn smallest(workers: &dyn Workers, among: impl Iterator<Item = u32>) -> Option<u32> {
    among
        .filter(|worker| workers.has_room(*worker))
        .min_by_key(|worker| workers.waiting(*worker))
}
