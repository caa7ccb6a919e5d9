//! What a server counts.

use super::refusal::Refusal;

/// How it goes with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Adds those of another server.
    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connections_accepted += other.connections_accepted;
        self.requests += other.requests;
        self.requests_under_way += other.requests_under_way;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        for (sum, refused) in self.refused.iter_mut().zip(other.refused) {
            *sum += refused;
        }
    }

    /// What was counted so far, without what there is now.
    pub(crate) fn of_the_past(self) -> Self {
        Self {
            connections: 0,
            requests_under_way: 0,
            ..self
        }
    }
}
