//! The limits of a service.

use crate::edge::EdgeLimits;

/// The limits of a service. Everything that waits has a time, everything that grows has a bound.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How large a body may be.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout_ms: u64,
    /// How many requests may wait for state, in all.
    pub waiting_max: usize,
    /// How long a request may wait for state.
    pub park_timeout_ms: u64,
    /// How many requests of a route may wait for computations that others began.
    pub computing_waiting_max: usize,
    /// How long a request may take from its first byte to its answer.
    pub answer_timeout_ms: u64,
    /// How many event loops there are. By default one for each core.
    pub loops: usize,
    /// How many calls may wait for an event loop, in all.
    pub queued_max: usize,
    /// A call that takes longer gets a thread of its own.
    pub long_after_ms: u64,
    /// How many long calls may run at once.
    pub long_max: usize,
    /// How many short calls may run on I/O threads at once. By default one less than there are I/O threads.
    pub inline_max: Option<usize>,
    /// What clients may take of the connections, where the service is served by itself. Bodies may be at least as large and take
    /// at least as long there as `body_bytes_max` and `body_timeout_ms` of these settings say.
    pub edge: EdgeLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            body_bytes_max: 2 << 20,
            body_timeout_ms: 30_000,
            waiting_max: 10_000,
            park_timeout_ms: 10_000,
            computing_waiting_max: 10_000,
            answer_timeout_ms: 300_000,
            loops: std::thread::available_parallelism().map_or(1, usize::from),
            queued_max: 10_000,
            long_after_ms: 2,
            long_max: 64,
            inline_max: None,
            edge: EdgeLimits::default(),
        }
    }
}

impl Settings {
    /// What connections may take, so that what the service takes gets through.
    pub(super) fn edge_limits(&self) -> EdgeLimits {
        let edge = self.edge.clone();
        EdgeLimits {
            body_bytes_max: edge.body_bytes_max.max(self.body_bytes_max as u64),
            body_timeout_ms: edge.body_timeout_ms.max(self.body_timeout_ms),
            ..edge
        }
    }
}
