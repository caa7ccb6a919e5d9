//! The sleep of the monitor.

use super::bell::Bell;
use super::sync::{AtomicBool, Ordering, fence};

/// Where the monitor sleeps while no loop has anything to do.
#[derive(Debug)]
pub(super) struct Watch {
    is_asleep: AtomicBool,
    bell: Bell,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            is_asleep: AtomicBool::new(false),
            bell: Bell::new(),
        }
    }

    /// Sleeps unless it is needed. As with the loops: first it is said, then it is looked once more.
    pub(super) fn sleep_unless(&self, is_needed: impl FnOnce() -> bool) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_needed() && self.is_asleep.swap(false, Ordering::Relaxed) {
            return;
        }
        self.bell.sleep();
    }

    /// Wakes the monitor if it sleeps. A fence must lie between this and what it is woken for.
    pub(super) fn wake(&self) {
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            self.bell.ring();
        }
    }
}
