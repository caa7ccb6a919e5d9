//! The version that a stage runs now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::RwLock;

use super::Version;

/// The version that a stage runs now, and what every message asks of it, without a lock.
pub(super) struct Current {
    version: RwLock<Arc<Version>>,
    messages_max: AtomicU32,
    spill_messages_max: AtomicU32,
    is_native: AtomicBool,
}

impl Current {
    pub fn new(version: Arc<Version>) -> Self {
        Self {
            messages_max: AtomicU32::new(version.spec.intake.mailbox_messages_max),
            spill_messages_max: AtomicU32::new(version.spec.intake.spill_messages_max),
            is_native: AtomicBool::new(version.code.info().native),
            version: RwLock::new(version),
        }
    }

    pub fn get(&self) -> Arc<Version> {
        self.version.read().clone()
    }

    /// How many messages may wait for one worker.
    pub fn messages_max(&self) -> u32 {
        self.messages_max.load(Ordering::Relaxed)
    }

    /// No more may wait from now on, and never more than the version allows.
    pub fn limit_messages(&self, messages_max: u32) {
        let most = self.version.read().spec.intake.mailbox_messages_max;
        let messages_max = messages_max.min(most);
        if self.messages_max() != messages_max {
            self.messages_max.store(messages_max, Ordering::Relaxed);
        }
    }

    /// How many messages from inside its cycle may wait for one worker.
    pub fn spill_messages_max(&self) -> u32 {
        self.spill_messages_max.load(Ordering::Relaxed)
    }

    /// So many may wait from now on, if that is more; whether it is.
    pub fn raise_spill(&self, messages_max: u32) -> bool {
        let before = &self.spill_messages_max;
        before.fetch_max(messages_max, Ordering::Relaxed) < messages_max
    }

    /// So many may wait as the version says.
    pub fn settle_spill(&self) {
        let version = self.version.read();
        let max = version.spec.intake.spill_messages_max;
        self.spill_messages_max.store(max, Ordering::Relaxed);
    }

    /// Whether its code is linked into this program.
    pub fn is_native(&self) -> bool {
        self.is_native.load(Ordering::Relaxed)
    }

    pub fn set(&self, version: &Arc<Version>) {
        self.set_if(version, |_| true);
    }

    /// Sets the version if the present one is the one expected; whether it was.
    pub fn set_if(&self, version: &Arc<Version>, expected: impl FnOnce(&Version) -> bool) -> bool {
        let mut current = self.version.write();
        if !expected(&current) {
            return false;
        }
        let max = version.spec.intake.mailbox_messages_max;
        self.messages_max.store(max, Ordering::Relaxed);
        let max = version.spec.intake.spill_messages_max;
        self.spill_messages_max.store(max, Ordering::Relaxed);
        let is_native = version.code.info().native;
        self.is_native.store(is_native, Ordering::Relaxed);
        *current = version.clone();
        true
    }
}
