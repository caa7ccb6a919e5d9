//! What can go wrong, in words that help.

use journal::AppendError;
use kernel::Name;

use crate::queue::Full;
use crate::state::StateError;

/// Why a message was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The queue holds as much as it may.
    #[error(
        "queue {queue} is full ({limit}): consume from it, raise its limit, or let the oldest go to the dead letters"
    )]
    Full {
        /// The queue.
        queue: Name,
        /// The limit that was reached.
        limit: String,
    },
    /// The message has to be stored, and the journal takes nothing now.
    #[error(transparent)]
    Journal(#[from] AppendError),
    /// There are too many queues or topics.
    #[error(transparent)]
    Names(#[from] TooManyNames),
}

impl PublishError {
    pub(crate) fn full(queue: &Name, full: Full) -> Self {
        let limit = match full {
            Full::Messages(messages) => format!("at most {messages} messages"),
            Full::Bytes(bytes) => format!("at most {bytes} bytes"),
        };
        Self::Full {
            queue: queue.clone(),
            limit,
        }
    }
}

/// No further queue or topic can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are {names_max} queues or topics already: remove some or raise broker.names_max")]
pub struct TooManyNames {
    /// The limit.
    pub names_max: usize,
}

/// Why a commit changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another owner has taken over the bucket.
    #[error(
        "bucket {bucket} has moved on to epoch {current}, and this commit came with {given}: its owner must stop"
    )]
    Fenced {
        /// The bucket.
        bucket: Name,
        /// The epoch of the commit.
        given: u64,
        /// The epoch of the bucket's owner.
        current: u64,
    },
    /// A message that was to be consumed is not the subscriber's any more.
    #[error(
        "message {id} of queue {queue} is not waiting for an acknowledgement here: it may have been given to another subscriber"
    )]
    NotHeld {
        /// Its queue.
        queue: Name,
        /// Its id.
        id: u64,
    },
    /// One of the sends was refused.
    #[error(transparent)]
    Send(#[from] PublishError),
    /// The state grew beyond its limit.
    #[error(
        "the state of bucket {bucket} would take {bytes} bytes, and {bytes_max} are allowed: keep less or raise broker.bucket_bytes_max"
    )]
    StateTooLarge {
        /// The bucket.
        bucket: Name,
        /// What it would take.
        bytes: usize,
        /// What it may take.
        bytes_max: usize,
    },
    /// The bucket is for something else.
    #[error(
        "bucket {bucket} holds documents, which change only by their revision: choose another bucket"
    )]
    Reserved {
        /// The bucket.
        bucket: Name,
    },
    /// What the bucket has on disk could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// There are too many buckets.
    #[error("there are {buckets_max} buckets already: raise broker.buckets_max")]
    TooManyBuckets {
        /// The limit.
        buckets_max: usize,
    },
}

impl From<AppendError> for CommitError {
    fn from(error: AppendError) -> Self {
        Self::Send(error.into())
    }
}

impl From<TooManyNames> for CommitError {
    fn from(error: TooManyNames) -> Self {
        Self::Send(error.into())
    }
}
