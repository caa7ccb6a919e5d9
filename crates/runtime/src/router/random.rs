//! Any worker.

use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;

use super::{LOOKED_AT_MAX, Router, Workers, first_with_room};

/// How often a guess is made before all workers are looked at.
const GUESSES_MAX: u32 = 16;

/// Chooses at random among those that have room.
#[derive(Debug)]
struct Random;

pub(super) fn make() -> Arc<dyn Router> {
    Arc::new(Random)
}

impl Router for Random {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        chosen.extend(match workers.count() {
            0 => None,
            1..=LOOKED_AT_MAX => one_of_all(workers),
            _ => one_of_many(workers),
        });
        Ok(())
    }
}

/// Every worker with room has the same chance.
fn one_of_all(workers: &dyn Workers) -> Option<u32> {
    let with_room = || (0..workers.count()).filter(|worker| workers.has_room(*worker));
    let count = with_room().count();
    // Room may change in between; then the first that still has some is as good.
    let chosen = with_room().nth(fastrand::usize(..count.max(1)));
    chosen.or_else(|| with_room().next())
}

/// Guesses first, because looking at all would take long.
fn one_of_many(workers: &dyn Workers) -> Option<u32> {
    let count = workers.count();
    let guess = (0..GUESSES_MAX)
        .map(|_| fastrand::u32(..count))
        .find(|worker| workers.has_room(*worker));
    guess.or_else(|| first_with_room(workers, fastrand::u32(..count)))
}
