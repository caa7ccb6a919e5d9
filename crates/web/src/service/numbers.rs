//! What locks and event loops tell about themselves, in words.

use std::sync::Arc;

use crate::locks::{LockId, Locks};
use crate::loops::Loops;

/// What happened to a lock so far.
pub(super) fn of_lock(locks: &Arc<Locks>, lock: LockId) -> String {
    let numbers = locks.numbers(lock);
    format!(
        "taken at once {}, after waiting {}, refused {}",
        numbers.taken_at_once, numbers.parked, numbers.refused
    )
}

/// What happened on the event loops so far.
pub(super) fn of_loops(loops: &Loops) -> String {
    let numbers = loops.numbers();
    format!(
        "{}, {} calls wait, {} done",
        numbers.loops, numbers.queued, numbers.done
    )
}
