//! What can go wrong, whether trying again can help, and what to do.

use std::time::Duration;

use kernel::Name;

/// Why a call to the bus failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// Nothing happened, because the engine could not be reached or was not ready in time.
    #[error("{what} was not possible within {waited:?} and nothing happened: {reason}; try again")]
    Timeout {
        /// What was to be done.
        what: String,
        /// How long was waited.
        waited: Duration,
        /// What stood in the way.
        reason: String,
    },
    /// It may have happened or not.
    #[error(
        "{what} is in doubt, no answer came within {waited:?}: {reason}; repeat it under the same message ids"
    )]
    InDoubt {
        /// What was to be done.
        what: String,
        /// How long was waited.
        waited: Duration,
        /// What stood in the way.
        reason: String,
    },
    /// The engine is full for now.
    #[error("no room: {reason}; try again once messages were consumed or space was freed")]
    Full {
        /// What is full.
        reason: String,
    },
    /// The engine refuses this for good.
    #[error("refused: {reason}")]
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// Messages are no longer the subscriber's; they come again to it or to another one.
    #[error(
        "{messages} messages are not held by this subscription any more: drop what was done with them, they are delivered again"
    )]
    NotHeld {
        /// How many.
        messages: usize,
    },
    /// Another owner has taken over the bucket.
    #[error(
        "bucket {bucket} has moved on to epoch {current}, and this commit came with {given}: its owner must stop"
    )]
    Fenced {
        /// The bucket.
        bucket: Name,
        /// The epoch of the commit.
        given: u64,
        /// The epoch of the owner.
        current: u64,
    },
    /// The engine cannot do this at all.
    #[error("the engine {engine} cannot {what}: {remedy}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The engine has stopped for good.
    #[error("the engine has stopped: {reason}")]
    Stopped {
        /// Why, and what to do.
        reason: String,
    },
}

impl BusError {
    /// Whether the same call can succeed later. After [`BusError::InDoubt`] it may then have
    /// happened twice.
    pub fn can_retry(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::InDoubt { .. } | Self::Full { .. } => true,
            Self::Refused { .. }
            | Self::NotHeld { .. }
            | Self::Fenced { .. }
            | Self::Unsupported { .. }
            | Self::Stopped { .. } => false,
        }
    }
}
