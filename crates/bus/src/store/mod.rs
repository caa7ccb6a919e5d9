//! The shared store: what an engine that only delivers lacks for commits.
//!
//! The main type is the trait [`Store`]. It holds epochs, state, outboxes, the ids that were
//! consumed, and documents that change by compare-and-swap. [`PostgresStore`] implements it; with
//! any engine in front of it, [`crate::StoredBus`] gives the whole contract.

mod ids;
pub mod postgres;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};

use crate::capabilities::AckLevel;
use crate::commit::StateWrite;
use crate::document::{Document, Put};
use crate::error::BusError;
use crate::together::join_all;

pub use self::ids::{MessageId, Numbers};
pub use self::postgres::{PostgresSettings, PostgresStore};

/// Begins the names of buckets that hold the outboxes of commits without an owner.
pub(crate) const OWNERLESS_PREFIX: &str = "hivewire~ownerless~";

/// What becomes permanent in one transaction, if the epoch is the bucket's current one.
#[derive(Clone, Debug)]
pub struct StoreCommit {
    /// Whose state and outbox it is.
    pub bucket: Name,
    /// The epoch of its owner.
    pub epoch: u64,
    /// Numbers the commits of an epoch, from one on without gaps.
    pub number: u64,
    /// Tells this commit from any other of the same number, so that one whose answer was lost can
    /// be repeated without happening twice.
    pub token: u64,
    /// The changes of state, in order.
    pub writes: Vec<StateWrite>,
    /// What is to be published afterwards, in order.
    pub outbox: Vec<OutboxEntry>,
    /// What it consumes. If any of it was consumed before, nothing happens.
    pub consumed: Vec<ConsumedIds>,
    /// The outboxes of all commits of this epoch up to this number are published.
    pub published: u64,
}

/// A message on its way out, under an id that it keeps however often it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Where it goes.
    pub to: Destination,
    /// The message, with its id in the header [`crate::MESSAGE_ID`].
    pub message: Message,
}

/// Ids of messages of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedIds {
    /// The queue.
    pub queue: Name,
    /// The ids.
    pub ids: Vec<MessageId>,
}

/// Where a commit stands among all those of its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The epoch of its owner.
    pub epoch: u64,
    /// Its number within the epoch; none was made yet if it is zero.
    pub number: u64,
}

/// The outbox of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxCommit {
    /// Which commit.
    pub position: Position,
    /// What is to be published, in order.
    pub entries: Vec<OutboxEntry>,
}

/// Holds what all nodes share. Every call ends within its timeout.
///
/// A call that failed may be repeated; [`Store::commit`] with the same token.
#[async_trait]
pub trait Store: Send + Sync {
    /// What a commit is worth.
    fn level(&self) -> AckLevel;

    /// Gives a bucket a new owner and says its epoch. Commits of older epochs are refused from
    /// now on.
    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError>;

    /// The last commit of a bucket; the epoch is zero if it never had an owner.
    async fn position(&self, bucket: &Name, timeout: Duration) -> Result<Position, BusError>;

    /// The value of a key in a bucket.
    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError>;

    /// The values of several keys in a bucket, in the same order.
    async fn states(
        &self,
        bucket: &Name,
        keys: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<Option<Bytes>>, BusError> {
        let mut asked = Vec::with_capacity(keys.len());
        for key in keys {
            asked.push(self.state(bucket, key, timeout));
        }
        join_all(asked).await
    }

    /// Keys and values of a bucket in order, from the first key after `after`.
    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError>;

    /// Does all of a commit or nothing. It is [fenced](BusError::Fenced) if the epoch is not the
    /// current one, and [not held](BusError::NotHeld) if some of its input was consumed before.
    async fn commit(&self, commit: &StoreCommit, timeout: Duration) -> Result<(), BusError>;

    /// What a bucket committed after `after` and is not known to be published, in order.
    async fn outbox(
        &self,
        bucket: &Name,
        after: Position,
        commits_max: usize,
        timeout: Duration,
    ) -> Result<Vec<OutboxCommit>, BusError>;

    /// The outboxes of a bucket's commits up to this one are published. A crash right afterwards
    /// may bring them back.
    async fn published(
        &self,
        bucket: &Name,
        through: Position,
        timeout: Duration,
    ) -> Result<(), BusError>;

    /// Buckets with something in their outbox that is older than this. They are not named again,
    /// to whomever, before that time has passed once more.
    async fn abandoned(&self, age: Duration, timeout: Duration) -> Result<Vec<Name>, BusError>;

    /// Which of these messages of a queue were consumed, as far as is remembered.
    async fn consumed(
        &self,
        queue: &Name,
        ids: &[MessageId],
        timeout: Duration,
    ) -> Result<Vec<bool>, BusError>;

    /// Forgets consumed ids that are older than they need to be kept.
    async fn tidy(&self, timeout: Duration) -> Result<(), BusError>;

    /// A document as it is.
    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError>;

    /// Changes a document if it still has the expected revision: zero makes it, no body deletes
    /// it. Both give it a new revision.
    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError>;

    /// Documents whose names begin with `prefix`, in order, from the first one after `after`.
    /// Deleted ones are among them.
    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError>;
}
