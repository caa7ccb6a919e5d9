//! What the locks are built on. The tests put the stand-ins of a model checker in the place of this file.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize};
pub(super) use std::thread_local;

pub(super) use parking_lot::{Mutex, MutexGuard};

/// Into how many parts the table of keys is cut, so that keys seldom wait for each other's mutex. A power of two.
pub(super) const KEY_SHARDS: usize = 64;
