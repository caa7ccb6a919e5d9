//! The locks with words where marking that somebody waits takes two steps, so that a release in between is lost; and with
//! counts that go down in two steps, so that one of two grants is lost.

mod sync {
    pub use crate::mutex::{Mutex, MutexGuard};
    pub use loom::thread_local;
    use std::sync::atomic::Ordering;

    pub const KEY_SHARDS: usize = 1;

    pub struct AtomicUsize(loom::sync::atomic::AtomicUsize);

    impl AtomicUsize {
        pub fn new(value: usize) -> Self {
            Self(loom::sync::atomic::AtomicUsize::new(value))
        }

        pub fn load(&self, order: Ordering) -> usize {
            self.0.load(order)
        }

        pub fn store(&self, value: usize, order: Ordering) {
            self.0.store(value, order);
        }

        pub fn fetch_sub(&self, less: usize, _: Ordering) -> usize {
            let before = self.0.load(Ordering::Acquire);
            self.0.store(before - less, Ordering::Release);
            before
        }
    }

    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(value))
        }

        pub fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub fn compare_exchange_weak(
            &self,
            old: u64,
            new: u64,
            taken: Ordering,
            not: Ordering,
        ) -> Result<u64, u64> {
            self.0.compare_exchange_weak(old, new, taken, not)
        }

        pub fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
            self.0.fetch_sub(less, order)
        }

        pub fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
            let before = self.0.load(Ordering::Acquire);
            self.0.store(before | bits, Ordering::Release);
            before
        }

        pub fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
            self.0.fetch_and(bits, order)
        }
    }
}

include!("modules.rs");
