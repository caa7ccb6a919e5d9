//! What a server counts.

use super::refusal::Refusal;

/// How it goes with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeNumbers {
    /// Connections there are now, with those that have switched to another protocol.
    pub connections: u64,
    /// Connections that were let in so far.
    pub connections_accepted: u64,
    /// Requests that were understood so far.
    pub requests: u64,
    /// Requests whose answer is not wholly written yet.
    pub requests_under_way: u64,
    /// Bytes read from sockets so far.
    pub bytes_read: u64,
    /// Bytes written to sockets so far.
    pub bytes_written: u64,
    pub(super) refused: [u64; Refusal::ALL.len()],
}

impl EdgeNumbers {
    /// How often something was refused for this reason.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }
}
