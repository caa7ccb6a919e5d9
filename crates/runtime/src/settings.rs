//! What an operator may want to change about all stages of a process.

use serde::{Deserialize, Serialize};

/// Settings of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How many threads run turns; zero means one per core.
    pub turn_threads: usize,
    /// How many there may be when turns block or take long.
    pub turn_threads_max: usize,
    /// How long a send waits for room in a mailbox before it fails.
    pub send_timeout_ms: u64,
    /// How long a commit may take before it is in doubt.
    pub commit_timeout_ms: u64,
    /// How many messages of one queue may be on their way through workers. On a bus that several
    /// nodes share, fewer make shares more even and more make each node faster.
    pub prefetch_max: u32,
    /// How long a subscription stays open although no worker has room for a message. It is opened
    /// again when one has.
    pub subscription_idle_ms_max: u64,
    /// How many workers of a stage of components get an instance before a message comes.
    pub eager_workers_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            turn_threads: 0,
            turn_threads_max: 256,
            send_timeout_ms: 10_000,
            commit_timeout_ms: 30_000,
            prefetch_max: 65_536,
            subscription_idle_ms_max: 10_000,
            eager_workers_max: 256,
        }
    }
}
