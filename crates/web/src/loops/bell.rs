//! What wakes one thread.

use super::sync::{Condvar, Mutex};

/// A bell by which one thread sleeps. It remembers that it was rung.
#[derive(Debug)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            rung: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    pub(super) fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_one();
    }

    /// Sleeps until the bell rings. There is no limit of time: whoever sleeps here has announced it, and is rung for.
    pub(super) fn sleep(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            rung = self.changed.wait(rung);
        }
        *rung = false;
    }
}
