//! Where states live. The only place with unsafe code of services.
//!
//! A state is reached through a [`Held`] only. That knows which locks were taken, and remembers what it has lent, so that what is
//! said here about safety does not depend on what handlers declare.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::locks::{LockId, Locks, Mode};
use crate::shared::Concurrent;

use super::claim::Granted;
use super::panic::Recovery;

/// One state of a service.
pub struct StateCell<T> {
    pub(super) name: String,
    pub(super) lock: LockId,
    pub(super) locks: Arc<Locks>,
    /// Whether it may be used without a lock; then nobody ever has it alone.
    pub(super) is_concurrent: AtomicBool,
    pub(super) quarantine: Mutex<Option<String>>,
    pub(super) is_quarantined: AtomicBool,
    pub(super) recovery: Mutex<Recovery<T>>,
    value: UnsafeCell<T>,
}

// SAFETY: references to the value are given by `Held` only, `&T` to many threads (so `T: Sync`) and `&mut T` to any one
// thread (so `T: Send`), and those exclude each other as is said there. All else in here can be shared by itself.
unsafe impl<T: Send + Sync> Sync for StateCell<T> {}

impl<T> StateCell<T> {
    pub(super) fn new(
        name: String,
        value: T,
        lock: LockId,
        locks: Arc<Locks>,
        recovery: Recovery<T>,
    ) -> Self {
        Self {
            name,
            lock,
            locks,
            is_concurrent: AtomicBool::new(false),
            quarantine: Mutex::new(None),
            is_quarantined: AtomicBool::new(false),
            recovery: Mutex::new(recovery),
            value: UnsafeCell::new(value),
        }
    }
}

/// Locks that are held, and what was lent of the states behind them.
///
/// It lends each state either once for writing or any number of times for reading, as its locks allow.
pub struct Held {
    granted: Option<Granted>,
    /// One bit for each want of the claim.
    lent_read: Cell<u64>,
    lent_write: Cell<u64>,
}

impl Held {
    /// Without any lock.
    pub(crate) const fn nothing() -> Self {
        Self {
            granted: None,
            lent_read: Cell::new(0),
            lent_write: Cell::new(0),
        }
    }

    /// With locks that were taken.
    pub(crate) const fn of(granted: Granted) -> Self {
        Self {
            granted: Some(granted),
            lent_read: Cell::new(0),
            lent_write: Cell::new(0),
        }
    }

    /// All that was lent has been given back, or else this could not be had alone.
    pub(super) fn all_given_back(&mut self) {
        self.lent_read.set(0);
        self.lent_write.set(0);
    }

    /// A state to be read.
    pub(super) fn read<'r, T>(&'r self, cell: &'r StateCell<T>) -> &'r T {
        let bit = self.find(cell, false, |mode| mode == Mode::Read);
        assert!(
            self.lent_write.get() & bit == 0,
            "{} is lent already",
            cell.name
        );
        self.lent_read.set(self.lent_read.get() | bit);
        // SAFETY: the lock of the whole state is held for as long as `self` is (`find`), so no other `Held` lends it
        // mutably: `write` needs the exclusive lock. This one did not either, and will not while it lives: the bits say so,
        // and are cleared only through `&mut self`, when what was lent for `'r` is gone.
        unsafe { &*cell.value.get() }
    }

    /// A state to be written.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock is held, and what is lent is remembered"
    )]
    pub(super) fn write<'r, T>(&'r self, cell: &'r StateCell<T>) -> &'r mut T {
        let bit = self.find(cell, false, |mode| mode == Mode::Write);
        let lent = self.lent_write.get() | self.lent_read.get();
        assert!(lent & bit == 0, "{} is lent already", cell.name);
        assert!(
            !cell.is_concurrent.load(Ordering::Acquire),
            "{} is used without a lock",
            cell.name
        );
        self.lent_write.set(self.lent_write.get() | bit);
        // SAFETY: the exclusive lock of the whole state is held for as long as `self` is (`find`), so no other `Held` lends
        // it through `read` or `keyed`, which need a lock that excludes it; none lends it through `concurrent`, which is
        // done only for cells that are marked, and those never get here; the mark is set while the service is built, when
        // nobody holds anything. This one has not lent it and will not while it lives, as the bits say.
        unsafe { &mut *cell.value.get() }
    }

    /// A state of which one key is locked; the state itself sees to it that keys are apart.
    pub(super) fn keyed<'r, T>(&'r self, cell: &'r StateCell<T>) -> &'r T {
        self.find(cell, true, |_| true);
        // SAFETY: the lock of a key excludes the exclusive lock of the whole, for as long as `self` is held (`find`), so
        // no `Held` lends it mutably. A claim on keys and the whole of one state at once is none (`Claim::new`).
        unsafe { &*cell.value.get() }
    }

    /// A state that needs no lock.
    pub(super) fn concurrent<'r, T: Concurrent>(&'r self, cell: &'r StateCell<T>) -> &'r T {
        assert!(
            cell.is_concurrent.load(Ordering::Acquire),
            "{} needs a lock",
            cell.name
        );
        // SAFETY: a cell with this mark is never lent mutably (`write`), and the mark is never taken away.
        unsafe { &*cell.value.get() }
    }

    /// The bit of the want that covers this cell.
    #[inline]
    fn find<T>(&self, cell: &StateCell<T>, is_keyed: bool, fits: impl Fn(Mode) -> bool) -> u64 {
        let granted = self.granted.as_ref().expect("a lock is held");
        assert!(
            granted.is_of(&cell.locks),
            "{} is of another service",
            cell.name
        );
        let mut wants = granted.wants().iter();
        let place = wants.position(|want| {
            want.lock == cell.lock && want.key.is_some() == is_keyed && fits(want.mode)
        });
        1 << place.expect("the lock of this state is held")
    }
}

#[cfg(test)]
#[path = "storage_tests.rs"]
mod tests;
