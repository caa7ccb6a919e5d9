//! The locks with words whose steps order nothing else: every `Acquire` and `Release` becomes `Relaxed`.

mod sync {
    pub use crate::mutex::{Mutex, MutexGuard};
    pub use loom::sync::atomic::AtomicUsize;
    pub use loom::thread_local;
    use std::sync::atomic::Ordering::{self, Relaxed};

    pub const KEY_SHARDS: usize = 1;

    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(value))
        }

        pub fn load(&self, _: Ordering) -> u64 {
            self.0.load(Relaxed)
        }

        pub fn compare_exchange_weak(
            &self,
            old: u64,
            new: u64,
            _: Ordering,
            _: Ordering,
        ) -> Result<u64, u64> {
            self.0.compare_exchange_weak(old, new, Relaxed, Relaxed)
        }

        pub fn fetch_sub(&self, less: u64, _: Ordering) -> u64 {
            self.0.fetch_sub(less, Relaxed)
        }

        pub fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
            self.0.fetch_or(bits, Relaxed)
        }

        pub fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
            self.0.fetch_and(bits, Relaxed)
        }
    }
}

include!("modules.rs");
