//! The locks as they are.

mod sync {
    pub use crate::mutex::{Mutex, MutexGuard};
    pub use loom::sync::atomic::{AtomicU64, AtomicUsize};
    pub use loom::thread_local;

    pub const KEY_SHARDS: usize = 1;
}

include!("modules.rs");
