//! How long senders wait until a stage has room.
//!
//! Mailboxes have a bound, so under overload the queue grows at the senders, and what workers see looks healthy. What
//! counts there is how long senders waited.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Stage;

/// Who waits for room in a stage.
#[derive(Default)]
pub(super) struct Entrance(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    /// How many wait now.
    count: usize,
    /// Since when somebody waits, or since somebody looked.
    since: Option<Instant>,
    /// How long somebody waited, since somebody looked.
    starved: Duration,
}

/// Somebody waits until this is dropped.
pub(super) struct Starved<'a>(&'a Entrance);

impl Entrance {
    fn enter(&self, now: Instant) -> Starved<'_> {
        let mut waits = self.0.lock();
        waits.count += 1;
        waits.since.get_or_insert(now);
        drop(waits);
        Starved(self)
    }

    fn leave(&self, now: Instant) {
        let mut waits = self.0.lock();
        waits.count -= 1;
        if waits.count == 0
            && let Some(since) = waits.since.take()
        {
            waits.starved += now.saturating_duration_since(since);
        }
    }

    /// How long somebody waited since this was asked last; the time of several at once counts once.
    fn take(&self, now: Instant) -> Duration {
        let mut waits = self.0.lock();
        let mut starved = std::mem::take(&mut waits.starved);
        if let Some(since) = &mut waits.since {
            starved += now.saturating_duration_since(*since);
            *since = now.max(*since);
        }
        starved
    }
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.leave(Instant::now());
    }
}

impl Stage {
    /// A sender waits for room from now on.
    pub(super) fn starved(&self) -> Starved<'_> {
        self.entrance.enter(Instant::now())
    }

    /// How long senders have waited for room since this was asked last.
    pub(super) fn take_starved(&self, now: Instant) -> Duration {
        self.entrance.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_while_they_last_and_once() {
        let entrance = Entrance::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = entrance.enter(at(0));
        let second = entrance.enter(at(1));
        assert_eq!(entrance.take(at(2)), Duration::from_secs(2));
        entrance.leave(at(3));
        assert_eq!(entrance.take(at(4)), Duration::from_secs(2));
        entrance.leave(at(5));
        assert_eq!(entrance.take(at(9)), Duration::from_secs(1), "it has ended");
        assert_eq!(entrance.take(at(10)), Duration::ZERO, "it is told once");
        // They have left already.
        std::mem::forget((first, second));
    }
}
