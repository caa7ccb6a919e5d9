//! The engine in this process: all of the contract, over a [`Broker`].
//!
//! It is thin: a batch is one call to the broker, nothing is copied, and the only wait is that
//! for the journal. The broker's dead letters and limits hold here too.

mod subscription;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use broker::{
    AckMode, Broker, Channel, CommitError, Credit, DocumentError, Outbox, Publication, PublishError,
};
use bytes::Bytes;
use journal::{AppendError, JournalFailed, Position};
use kernel::{Destination, Message, Name, Timestamp};

use self::subscription::EmbeddedSubscription;
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::commit::{Commit, StateWrite, Submitted};
use crate::contract::{Bus, QueueBook, QueueSettings, Subscription};
use crate::deadline::Deadline;
use crate::document::{Document, Put};
use crate::engines::declared::Declared;
use crate::error::BusError;

/// How many bytes a subscriber is sent ahead of what it asks for.
const UNSENT_BYTES_MAX: u32 = 4 << 20;

/// A bus over a broker in this process.
pub struct EmbeddedBus {
    broker: Arc<Broker>,
    declared: Declared,
    next_token: AtomicU32,
}

impl EmbeddedBus {
    /// A bus over this broker. Others may use the broker beside it.
    pub fn new(broker: Arc<Broker>) -> Self {
        Self {
            broker,
            declared: Declared::default(),
            next_token: AtomicU32::new(0),
        }
    }

    /// Hands over what the broker takes, waiting for the journal where it has to; what was
    /// refused stays in `publications`.
    async fn hand_over(
        &self,
        channel: &Channel,
        publications: &mut Vec<Publication>,
        deadline: Deadline,
    ) -> (Option<Position>, Option<BusError>) {
        let mut stored = None;
        loop {
            let published = channel.publish(publications);
            stored = stored.max(published.stored);
            let error = match published.refused {
                None => return (stored, None),
                Some(PublishError::Journal(AppendError::NotReady)) => {
                    match deadline.limit(self.broker.ready()).await {
                        Ok(()) if !deadline.is_over() => continue,
                        _ => deadline.timeout("a publish", "the journal takes nothing"),
                    }
                }
                Some(error) => publish_error(error),
            };
            return (stored, Some(error));
        }
    }

    /// Commits, waiting for the journal where it has to.
    async fn commit_when_ready(
        &self,
        commit: &Commit<'_>,
        deadline: Deadline,
    ) -> Result<Option<Position>, BusError> {
        loop {
            let ready = async {
                match commit.writes.is_empty() {
                    true => self.broker.ready().await,
                    false => self.broker.ready_for_state().await,
                }
            };
            if deadline.limit(ready).await.is_err() || deadline.is_over() {
                return Err(deadline.timeout("a commit", "the journal takes nothing"));
            }
            match self.broker.commit(self.broker_commit(commit)?) {
                Err(CommitError::Send(PublishError::Journal(AppendError::NotReady))) => {}
                outcome => return outcome.map_err(commit_error),
            }
        }
    }

    fn broker_commit<'a>(&self, commit: &'a Commit<'_>) -> Result<broker::Commit<'a>, BusError> {
        let now = self.broker.clock().now();
        let send = |(destination, message): &(Destination, Message)| {
            let durable = self.declared.is_durable(destination);
            let message = stamped(message.clone(), now);
            (destination.clone(), Publication { message, durable })
        };
        let mut consumed = Vec::new();
        for part in &commit.consumed {
            let subscription = EmbeddedSubscription::of(part.subscription)?;
            subscription.consume(&part.receipts, &mut consumed)?;
        }
        Ok(broker::Commit {
            state: state_commit(commit)?,
            consumed,
            sends: commit.sends.iter().map(send).collect(),
        })
    }
}

#[async_trait]
impl Bus for EmbeddedBus {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "embedded",
            durable_level: AckLevel::Synced,
            commit: Given::Yes,
            order_after_retry: Given::Yes,
            counts_lost_subscribers: Given::Yes,
            in_turn: Given::Yes,
            reconnects: Given::No("it is in the same process: there is no connection to lose"),
        }
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        _timeout: Duration,
    ) -> Result<(), BusError> {
        self.declared.remember(queue, settings)
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let deadline = Deadline::after(timeout);
        let durable = self.declared.is_durable(to);
        let channel = self.broker.channel(to).map_err(refused)?;
        if durable && deadline.limit(self.broker.ready()).await.is_err() {
            return Err(deadline.timeout("a publish", "the journal takes nothing"));
        }
        // Only what goes to disk can end in doubt and has to be given back then.
        let copy = if durable { batch.clone() } else { Vec::new() };
        let now = self.broker.clock().now();
        let publication = |message| Publication {
            message: stamped(message, now),
            durable,
        };
        let mut publications = batch.drain(..).map(publication).collect();
        let (stored, refused) = self.hand_over(&channel, &mut publications, deadline).await;
        batch.extend(publications.into_iter().map(|p| p.message));
        match (
            wait(&self.broker, "a publish", stored, deadline).await,
            refused,
        ) {
            (Err(error), _) => {
                *batch = copy;
                Err(error)
            }
            (Ok(_), Some(error)) => Err(error),
            (Ok(level), None) => Ok(level),
        }
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        _timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let channel = self.broker.channel(from).map_err(refused)?;
        let credit = Credit {
            messages: credit_messages,
            unsent_bytes: UNSENT_BYTES_MAX,
        };
        let tries_max = match from {
            Destination::Queue(name) => self.declared.settings(name).tries_max,
            Destination::Topic(_) => u32::MAX,
        };
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::default());
        let (mode, sink) = (AckMode::Individual, outbox.clone());
        let subscription = match self.declared.of(from).in_turn {
            true => channel.subscribe_in_turn(token, mode, credit, sink),
            false => channel.subscribe(token, mode, credit, sink),
        };
        Ok(Box::new(EmbeddedSubscription::new(
            self.broker.clone(),
            subscription,
            outbox,
            tries_max,
        )))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        self.submit(commit, timeout).await?.permanent().await
    }

    async fn submit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<Submitted, BusError> {
        let deadline = Deadline::after(timeout);
        let stored = self.commit_when_ready(commit, deadline).await?;
        for part in &commit.consumed {
            EmbeddedSubscription::of(part.subscription)?.consumed(&part.receipts);
        }
        if stored.is_none() {
            return Ok(Submitted::Done(AckLevel::Memory));
        }
        let broker = self.broker.clone();
        Ok(Submitted::Waits(Box::pin(async move {
            wait(&broker, "a commit", stored, deadline).await
        })))
    }

    fn submit_waits(&self) -> bool {
        false
    }

    fn depth(&self, queue: &Name) -> Option<u64> {
        let found = self.broker.find_queue(queue.as_str());
        let stats = found.map(|queue| queue.stats()).unwrap_or_default();
        Some((stats.waiting + stats.unacknowledged) as u64)
    }

    fn book(&self, queue: &Name) -> Option<QueueBook> {
        let found = self.broker.find_queue(queue.as_str());
        let stats = found.map(|queue| queue.stats()).unwrap_or_default();
        Some(QueueBook {
            waits: (stats.waiting + stats.unacknowledged) as u64,
            done: stats.totals.acknowledged,
            dead: stats.totals.dead,
        })
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let deadline = Deadline::after(timeout);
        let raised = loop {
            match self.broker.raise_epoch(bucket) {
                Err(CommitError::Send(PublishError::Journal(AppendError::NotReady))) => {
                    if deadline.limit(self.broker.ready()).await.is_err() || deadline.is_over() {
                        return Err(deadline.timeout("an epoch", "the journal takes nothing"));
                    }
                }
                outcome => break outcome.map_err(commit_error)?,
            }
        };
        let (epoch, stored) = raised;
        wait(&self.broker, "an epoch", Some(stored), deadline).await?;
        Ok(epoch)
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        _timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        self.broker.state(bucket, key).map_err(refused)
    }

    async fn states(
        &self,
        bucket: &Name,
        keys: &[&[u8]],
        _timeout: Duration,
    ) -> Result<Vec<Option<Bytes>>, BusError> {
        self.broker.states(bucket, keys).map_err(refused)
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        _timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let pairs = self.broker.scan_state(bucket, after, pairs_max);
        pairs.map_err(refused)
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        let document = self.broker.document(name);
        let deadline = Deadline::after(timeout);
        wait(&self.broker, "a document", document.stored, deadline).await?;
        Ok(to_document(document))
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        const WHAT: &str = "a document";
        let deadline = Deadline::after(timeout);
        let body = body.map(Bytes::copy_from_slice);
        loop {
            let changed = self
                .broker
                .change_document(name, expected_revision, body.clone());
            let (put, stored) = match changed {
                Ok((revision, stored)) => (Put::Stored(revision), stored),
                Err(DocumentError::Conflict { current, .. }) => {
                    (Put::Conflict(current.revision), current.stored)
                }
                Err(DocumentError::Commit(CommitError::Send(PublishError::Journal(
                    AppendError::NotReady,
                )))) => {
                    if deadline.limit(self.broker.ready()).await.is_err() || deadline.is_over() {
                        return Err(deadline.timeout(WHAT, "the journal takes nothing"));
                    }
                    continue;
                }
                Err(DocumentError::Commit(error)) => return Err(commit_error(error)),
                Err(error @ (DocumentError::Missing { .. } | DocumentError::TooLarge { .. })) => {
                    return Err(refused(error));
                }
            };
            wait(&self.broker, WHAT, stored, deadline).await?;
            return Ok(put);
        }
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let deadline = Deadline::after(timeout);
        let after = after.map(Name::as_str);
        let documents = self.broker.documents(prefix, after, documents_max);
        let stored = documents.iter().filter_map(|(_, found)| found.stored).max();
        wait(&self.broker, "documents", stored, deadline).await?;
        let found = documents.into_iter();
        Ok(found
            .map(|(name, document)| (name, to_document(document)))
            .collect())
    }
}

fn to_document(document: broker::Document) -> Document {
    Document {
        revision: document.revision,
        body: document.content,
    }
}

/// Waits until the journal is synced up to `stored`.
async fn wait(
    broker: &Broker,
    what: &str,
    stored: Option<Position>,
    deadline: Deadline,
) -> Result<AckLevel, BusError> {
    let Some(position) = stored else {
        return Ok(AckLevel::Memory);
    };
    match deadline.limit(broker.journal().wait(position)).await {
        Ok(Ok(())) => Ok(AckLevel::Synced),
        Ok(Err(failed)) => Err(stopped(&failed)),
        Err(_) => Err(deadline.in_doubt(what, "the disk has not confirmed it yet")),
    }
}

/// The message with the time at which it was taken in, unless it has one.
fn stamped(mut message: Message, now: Timestamp) -> Message {
    if message.published_at == Timestamp::default() {
        message.published_at = now;
    }
    message
}

fn state_commit(commit: &Commit<'_>) -> Result<Option<broker::StateCommit>, BusError> {
    let Some(owner) = &commit.owner else {
        if commit.writes.is_empty() {
            return Ok(None);
        }
        let reason = "a commit that writes state must name its owner".to_owned();
        return Err(BusError::Refused { reason });
    };
    let write = |write: &StateWrite| match write.clone() {
        StateWrite::Set { key, value } => broker::StateWrite::Set { key, value },
        StateWrite::Remove { key } => broker::StateWrite::Remove { key },
    };
    Ok(Some(broker::StateCommit {
        bucket: owner.bucket.clone(),
        epoch: owner.epoch,
        writes: commit.writes.iter().map(write).collect(),
    }))
}

fn refused(error: impl ToString) -> BusError {
    BusError::Refused {
        reason: error.to_string(),
    }
}

fn stopped(failed: &JournalFailed) -> BusError {
    BusError::Stopped {
        reason: failed.to_string(),
    }
}

fn publish_error(error: PublishError) -> BusError {
    match error {
        PublishError::Journal(AppendError::Failed(failed)) => stopped(&failed),
        PublishError::Full { .. }
        | PublishError::Journal(AppendError::DiskFull { .. } | AppendError::NotReady) => {
            BusError::Full {
                reason: error.to_string(),
            }
        }
        PublishError::Journal(AppendError::TooLarge { .. }) | PublishError::Names(_) => {
            refused(error)
        }
    }
}

fn commit_error(error: CommitError) -> BusError {
    match error {
        CommitError::Fenced {
            bucket,
            given,
            current,
        } => BusError::Fenced {
            bucket,
            given,
            current,
        },
        CommitError::NotHeld { .. } => BusError::NotHeld { messages: 1 },
        CommitError::Send(error) => publish_error(error),
        CommitError::StateTooLarge { .. }
        | CommitError::TooManyBuckets { .. }
        | CommitError::State(_)
        | CommitError::Reserved { .. } => refused(error),
    }
}
