//! The contract itself. It depends on no engine.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};

use crate::capabilities::{AckLevel, Capabilities};
use crate::commit::{Commit, Submitted};
use crate::delivery::{Delivery, Receipt, Reject};
use crate::document::{Document, Put};
use crate::error::BusError;
use crate::together::join_all;

/// How a queue behaves. One that nobody declared has the default settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whether its messages survive a restart of the engine.
    pub durable: bool,
    /// After that many failed tries a message goes to the dead letters. An engine whose own limit
    /// is lower keeps to that one.
    pub tries_max: u32,
    /// Whether subscribers take turns: only the one that came first gets messages. When it is gone,
    /// the next one gets what it had not acknowledged, and then the rest, in order. An engine that
    /// cannot do so serves all: see [`Capabilities::in_turn`].
    pub in_turn: bool,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            durable: true,
            tries_max: 5,
            in_turn: false,
        }
    }
}

/// Messages on their way to the engine.
pub struct Begun {
    /// The connection that they take.
    pub(crate) connection: Arc<dyn Any + Send + Sync>,
    pub(crate) outcome: Pin<Box<dyn Future<Output = Result<(), Vec<Message>>> + Send>>,
}

impl Begun {
    /// Waits for the engine's promise for all of them. Without it, gives those that were not taken or
    /// are in doubt; they may be published again.
    pub async fn outcome(self) -> Result<(), Vec<Message>> {
        self.outcome.await
    }
}

/// What became of the messages of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBook {
    /// Those that wait or are not acknowledged.
    pub waits: u64,
    /// Those that were acknowledged since the engine started or the queue was made.
    pub done: u64,
    /// Those that went to the dead letters since then.
    pub dead: u64,
}

/// Carries messages between workers. Every call ends within its timeout.
///
/// Delivery is at least once. What is delivered again is marked as such, or carries the
/// [message id](Delivery::message_id) of a publish that had to be repeated.
#[async_trait]
pub trait Bus: Send + Sync {
    /// What the engine promises.
    fn capabilities(&self) -> Capabilities;

    /// Makes a queue with these settings, or changes those that its engine lets change. Every
    /// process that uses a queue declares it alike.
    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError>;

    /// Publishes messages in order and returns once the engine has given its promise for all of
    /// them. What was promised leaves the batch; after an error, what is left in it was not
    /// taken or is in doubt, and may be published again.
    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError>;

    /// Begins to publish messages to one destination and returns at once, so that more can be begun
    /// before the engine has given its promise. What is begun `behind` something arrives behind it:
    /// both go over the same connection, and nothing is repeated by itself. The messages come back if
    /// that is not possible at the moment, or never with this engine.
    fn begin_publish(
        &self,
        _to: &Destination,
        messages: Vec<Message>,
        _behind: Option<&Begun>,
    ) -> Result<Begun, Vec<Message>> {
        Err(messages)
    }

    /// Subscribes to a queue, of which each message reaches one subscriber, or to a topic, of
    /// which each reaches all. At most `credit_messages` are unacknowledged at a time. What is
    /// published to a topic after this returned arrives.
    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError>;

    /// Does all of a commit or nothing, and returns once it is permanent. A commit of an older
    /// epoch is [refused](BusError::Fenced): its owner must stop.
    ///
    /// After [`BusError::InDoubt`] the commit may have happened: raise the epoch and read the
    /// state before doing anything else in its bucket.
    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError>;

    /// Like [`Bus::commit`], but returns as soon as the commit has its place, so that the next one
    /// can be prepared meanwhile. State that it wrote can be read at once; what it sends leaves
    /// when it is permanent. An error here means that nothing happened, except after
    /// [`BusError::InDoubt`].
    ///
    /// An engine that cannot do this waits until the commit is permanent.
    async fn submit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<Submitted, BusError> {
        let level = self.commit(commit, timeout).await?;
        Ok(Submitted::Done(level))
    }

    /// Whether [`Bus::submit`] waits for an answer from elsewhere. Then it is worth it to submit
    /// commits of different buckets side by side.
    fn submit_waits(&self) -> bool {
        true
    }

    /// How many messages of a queue wait or are not acknowledged, if the engine knows that without asking anybody.
    fn depth(&self, _queue: &Name) -> Option<u64> {
        None
    }

    /// What became of the messages of a queue, all at one moment, if the engine knows that without asking anybody.
    fn book(&self, _queue: &Name) -> Option<QueueBook> {
        None
    }

    /// Makes the caller the owner of a bucket and gives it the new epoch. Commits of older
    /// epochs are refused from now on.
    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError>;

    /// The value of a key in a bucket.
    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError>;

    /// The values of several keys in a bucket, in the same order. All are asked for before the first answer is awaited.
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

    /// A document as it is. What is read is permanent. An engine that keeps no state keeps no
    /// documents either.
    async fn document(&self, _name: &Name, _timeout: Duration) -> Result<Document, BusError> {
        Err(no_documents(self.capabilities().engine))
    }

    /// Changes a document if it still has the expected revision: zero makes it, no body deletes
    /// it. Both give it a new revision, and both are permanent when this returns. After an error
    /// it may have happened; the same call can be repeated.
    async fn put_document(
        &self,
        _name: &Name,
        _expected_revision: u64,
        _body: Option<&[u8]>,
        _timeout: Duration,
    ) -> Result<Put, BusError> {
        Err(no_documents(self.capabilities().engine))
    }

    /// Documents whose names begin with `prefix`, in order, from the first one after `after`.
    /// Deleted ones are among them.
    async fn documents(
        &self,
        _prefix: &str,
        _after: Option<&Name>,
        _documents_max: usize,
        _timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        Err(no_documents(self.capabilities().engine))
    }
}

fn no_documents(engine: &'static str) -> BusError {
    BusError::Unsupported {
        engine,
        what: "keep documents",
        remedy: "it needs the shared store",
    }
}

/// A subscriber's side of a queue or topic. Dropping it gives back what it has not acknowledged;
/// to hand over without disorder, acknowledge everything first.
#[async_trait]
pub trait Subscription: Any + Send + Sync {
    /// Up to `messages_max` deliveries, in order, as soon as there is at least one; none when the
    /// time is up. An engine that lost its connection goes on connecting meanwhile.
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError>;

    /// These are done. In the order of their delivery they cost least. A crash of the engine
    /// right afterwards may bring them again, marked as redelivered.
    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError>;

    /// These were not looked at. When the subscription is dropped they are given back as if they
    /// had not been delivered, where the engine can tell; otherwise like all that was not
    /// acknowledged.
    fn release(&self, _receipts: &[Receipt]) {}

    /// Turns one message down, which must be as it was delivered.
    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError>;
}
