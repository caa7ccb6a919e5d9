//! What an engine promises, in words that can be compared and printed.

use std::fmt;

/// What an acknowledgement is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AckLevel {
    /// It is in memory: a crash of the engine loses it.
    Memory,
    /// It is on one disk: it survives a crash and loss of power.
    Synced,
    /// It is on the disks of several machines: it survives the loss of one.
    Replicated,
}

impl fmt::Display for AckLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Synced => "synced",
            Self::Replicated => "replicated",
        })
    }
}

/// Whether an engine gives a guarantee and, if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It does.
    Yes,
    /// It does not, for this reason.
    No(&'static str),
}

impl Given {
    /// Whether the guarantee is given.
    pub fn is_given(self) -> bool {
        self == Self::Yes
    }
}

/// What an engine promises beyond delivering at least once, which every engine must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The engine, for people.
    pub engine: &'static str,
    /// What an acknowledgement of a durable queue is worth.
    pub durable_level: AckLevel,
    /// [`crate::Bus::commit`], state and epochs.
    pub commit: Given,
    /// A message that is to be tried again comes back to its place in the queue, ahead of those
    /// behind it.
    pub order_after_retry: Given,
    /// What an outgoing subscriber had been handed and had not acknowledged counts as tried, so
    /// that a message which kills its workers ends in the dead letters.
    pub counts_lost_subscribers: Given,
    /// Subscribers of a queue can take turns ([`crate::QueueSettings::in_turn`]), so that the order
    /// holds when one gives way to another.
    pub in_turn: Given,
    /// There is a connection that can be lost, and that is made again by itself.
    pub reconnects: Given,
}
