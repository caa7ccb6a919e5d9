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
    /// Since when each of those waits that wait now; those who are gone leave a gap for the next.
    since: Vec<Option<Instant>>,
    /// The longest wait that has ended since somebody looked.
    longest: Duration,
}

/// Somebody waits until this is dropped.
pub(super) struct Starved<'a> {
    entrance: &'a Entrance,
    place: usize,
}

impl Entrance {
    fn enter(&self) -> Starved<'_> {
        let mut waits = self.0.lock();
        let now = Some(Instant::now());
        let place = match waits.since.iter().position(Option::is_none) {
            Some(place) => {
                waits.since[place] = now;
                place
            }
            None => {
                waits.since.push(now);
                waits.since.len() - 1
            }
        };
        Starved {
            entrance: self,
            place,
        }
    }

    /// The longest wait since this was asked last, also of those who still wait.
    fn longest(&self, now: Instant) -> Duration {
        let mut waits = self.0.lock();
        let ended = std::mem::take(&mut waits.longest);
        let since = waits.since.iter().flatten().min();
        since.map_or(ended, |since| ended.max(now.duration_since(*since)))
    }
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        let mut waits = self.entrance.0.lock();
        if let Some(since) = waits.since[self.place].take() {
            let waited = since.elapsed();
            waits.longest = waits.longest.max(waited);
        }
    }
}

impl Stage {
    /// A sender waits for room from now on.
    pub(super) fn starved(&self) -> Starved<'_> {
        self.entrance.enter()
    }

    /// The longest that a sender has waited for room since this was asked last.
    #[expect(dead_code, reason = "whoever scales the stage asks")]
    pub fn longest_starved(&self, now: Instant) -> Duration {
        self.entrance.longest(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_while_they_last_and_once_after() {
        let entrance = Entrance::default();
        let first = entrance.enter();
        let second = entrance.enter();
        let later = Instant::now() + Duration::from_secs(5);
        assert!(entrance.longest(later) >= Duration::from_secs(4));
        drop(first);
        let third = entrance.enter();
        assert_eq!(entrance.0.lock().since.len(), 2, "a place is used again");
        drop((second, third));
        assert!(
            entrance.longest(later) < Duration::from_secs(4),
            "it has ended"
        );
        assert_eq!(entrance.longest(later), Duration::ZERO, "it is told once");
    }
}
