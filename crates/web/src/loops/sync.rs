//! The few means of synchronisation that the queues stand on, in one place, so that a test can put others under them: `loops_loom`
//! runs the same source on loom's.

pub(super) use std::sync::MutexGuard;
use std::sync::PoisonError;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// A mutex that does not care whether somebody panicked while he held it: nothing of what it guards here is ever half done.
#[derive(Debug, Default)]
pub(super) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one waits for what a mutex guards to change.
#[derive(Debug, Default)]
pub(super) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(super) fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// A number that is only a hint or a statistic: nothing relies on when others see it.
#[derive(Debug, Default)]
pub(super) struct Hint(std::sync::atomic::AtomicU64);

impl Hint {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Only for numbers that one thread at a time writes.
    pub(super) fn raise(&self, by: u64) {
        self.set(self.get() + by);
    }

    pub(super) fn count_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A moment of spinning.
pub(super) fn spin(round: u32) {
    if round % 8 == 7 {
        // Whoever is to bring the next job may be waiting for this core.
        std::thread::yield_now();
    } else {
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
}
