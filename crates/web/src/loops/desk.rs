//! Where threads without a loop wait for one.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Where threads without a loop wait for one.
#[derive(Debug)]
pub(super) struct Desk {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// A thread that nobody needed for so long ends.
    kept: Duration,
}

#[derive(Debug, Default)]
struct Waiting {
    /// How many threads wait here, or are on their way.
    spares: usize,
    /// For how many of them a loop is about to be given.
    reserved: usize,
    /// Loops that were given, and that no thread has fetched yet.
    given: VecDeque<usize>,
    is_closed: bool,
}

impl Waiting {
    fn is_any_free(&self) -> bool {
        self.spares > self.reserved + self.given.len()
    }
}

impl Desk {
    pub(super) fn new(kept: Duration) -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            kept,
        }
    }

    /// Keeps one of the threads here for the loop that is given next. False if there is none.
    pub(super) fn reserve(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_any_free = waiting.is_any_free();
        if is_any_free {
            waiting.reserved += 1;
        }
        is_any_free
    }

    /// A thread is on its way here, and is kept for the loop that is given next.
    pub(super) fn expect_reserved(&self) {
        let mut waiting = self.waiting.lock();
        waiting.spares += 1;
        waiting.reserved += 1;
    }

    /// The thread could not be started.
    pub(super) fn expect_one_less(&self) {
        let mut waiting = self.waiting.lock();
        waiting.spares -= 1;
        waiting.reserved -= 1;
    }

    /// No loop is given after all.
    pub(super) fn release(&self) {
        self.waiting.lock().reserved -= 1;
    }

    /// Gives a loop to the thread that was kept for it.
    pub(super) fn give(&self, lane: usize) {
        let mut waiting = self.waiting.lock();
        waiting.reserved -= 1;
        waiting.given.push_back(lane);
        self.changed.notify_one();
    }

    /// A thread comes back, if it is wanted.
    pub(super) fn rejoin(&self, spares_max: usize) -> bool {
        let mut waiting = self.waiting.lock();
        let is_wanted = waiting.spares < spares_max && !waiting.is_closed;
        if is_wanted {
            waiting.spares += 1;
        }
        is_wanted
    }

    /// The loop that the calling thread, which was counted before, is to drive; none if it is not needed any more.
    pub(super) fn wait(&self) -> Option<usize> {
        let mut waiting = self.waiting.lock();
        let mut is_late = false;
        loop {
            let given = match waiting.is_closed {
                true => None,
                false => waiting.given.pop_front(),
            };
            // A thread for which a loop is on its way stays, or nobody would drive that loop.
            let may_leave = waiting.is_closed || is_late && waiting.is_any_free();
            if given.is_some() || may_leave {
                waiting.spares -= 1;
                return given;
            }
            is_late = self.changed.wait_for(&mut waiting, self.kept).timed_out();
        }
    }

    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn each_loop_goes_to_one_spare_thread() {
        let desk = Desk::new(SHORT);
        assert!(!desk.reserve(), "there is no thread");
        desk.expect_reserved();
        desk.give(3);
        assert!(!desk.reserve(), "it is spoken for");
        assert!(desk.rejoin(2));
        assert!(desk.reserve());
        desk.give(5);
        assert_eq!(desk.wait(), Some(3));
        assert_eq!(desk.wait(), Some(5));
        assert_eq!(desk.waiting.lock().spares, 0);
    }

    #[test]
    fn only_so_many_come_back_and_none_after_the_end() {
        let desk = Desk::new(SHORT);
        assert!(desk.rejoin(1));
        assert!(!desk.rejoin(1));
        desk.close();
        assert_eq!(desk.wait(), None);
        assert!(!desk.rejoin(1));
    }

    #[test]
    fn a_thread_that_is_reserved_does_not_leave() {
        let desk = Desk::new(SHORT);
        assert!(desk.rejoin(1));
        assert!(desk.reserve());
        thread::scope(|scope| {
            let spare = scope.spawn(|| desk.wait());
            // Long enough that it would have left, as in the test below.
            thread::sleep(SHORT * 10);
            desk.give(7);
            assert_eq!(spare.join().ok(), Some(Some(7)));
        });
    }

    #[test]
    fn a_thread_that_nobody_needs_leaves() {
        let desk = Desk::new(SHORT);
        assert!(desk.rejoin(1));
        assert_eq!(desk.wait(), None);
        assert!(!desk.reserve());
    }
}
