//! A process that dies at a chosen step. From then on nothing that it does has any effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bus::store::{MessageId, OutboxCommit, Position, Store, StoreCommit};
use bus::{
    AckLevel, Bus, BusError, Capabilities, Commit, Delivery, Document, Put, QueueSettings, Receipt,
    Reject, Subscription,
};
use bytes::Bytes;
use kernel::{Destination, Message, Name};
use tokio::sync::watch;

/// On which side of a step the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The step never happens.
    Before,
    /// The step happens, and its answer never comes.
    After,
}

/// A life that ends at a step: a transaction, a publish, an acknowledgement, or marking what was
/// published.
pub struct Life {
    steps: AtomicU32,
    last: (u32, Side),
    died: watch::Sender<Option<&'static str>>,
}

impl Life {
    /// Dies on this side of the step with this number, counted from zero.
    pub fn until(step: u32, side: Side) -> Arc<Self> {
        Arc::new(Self {
            steps: AtomicU32::new(0),
            last: (step, side),
            died: watch::Sender::new(None),
        })
    }

    /// At which step it has died.
    pub fn end(&self) -> Option<&'static str> {
        *self.died.borrow()
    }

    /// Waits for its end.
    pub async fn died(&self) {
        let mut died = self.died.subscribe();
        // An error would mean that this life is gone.
        let _ = died.wait_for(Option::is_some).await;
    }

    /// Lets something happen, as long as there is life.
    async fn alive<T>(&self, doing: impl Future<Output = T>) -> T {
        if self.end().is_some() {
            std::future::pending::<()>().await;
        }
        doing.await
    }

    /// A step, which may be the last one.
    async fn step<T>(&self, name: &'static str, doing: impl Future<Output = T>) -> T {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let is_last = number == self.last.0;
        if is_last && self.last.1 == Side::Before {
            self.died.send_replace(Some(name));
        }
        let done = self.alive(doing).await;
        if is_last {
            self.died.send_replace(Some(name));
            std::future::pending::<()>().await;
        }
        done
    }
}

pub struct MortalBus {
    pub inner: Arc<dyn Bus>,
    pub life: Arc<Life>,
}

#[async_trait]
impl Bus for MortalBus {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let declaring = self.inner.declare(queue, settings, timeout);
        self.life.alive(declaring).await
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let publishing = self.inner.publish(to, batch, timeout);
        self.life.step("publish", publishing).await
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let subscribing = self.inner.subscribe(from, credit_messages, timeout);
        Ok(Box::new(MortalSubscription {
            inner: self.life.alive(subscribing).await?,
            life: self.life.clone(),
        }))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        self.inner.commit(commit, timeout).await
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        self.inner.raise_epoch(bucket, timeout).await
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        self.inner.state(bucket, key, timeout).await
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        self.inner.scan(bucket, after, pairs_max, timeout).await
    }
}

struct MortalSubscription {
    inner: Box<dyn Subscription>,
    life: Arc<Life>,
}

#[async_trait]
impl Subscription for MortalSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let next = self.inner.next_batch(messages_max, timeout);
        self.life.alive(next).await
    }

    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError> {
        let acknowledging = self.inner.acknowledge(receipts, timeout);
        self.life.step("acknowledge", acknowledging).await
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let rejecting = self.inner.reject(delivery, reject, timeout);
        self.life.alive(rejecting).await
    }
}

/// A store whose client dies, or that forgets what was consumed.
pub struct MortalStore {
    pub inner: Arc<dyn Store>,
    pub life: Arc<Life>,
    pub forgets_consumed: bool,
}

#[async_trait]
impl Store for MortalStore {
    fn level(&self) -> AckLevel {
        self.inner.level()
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let raising = self.inner.raise_epoch(bucket, timeout);
        self.life.alive(raising).await
    }

    async fn position(&self, bucket: &Name, timeout: Duration) -> Result<Position, BusError> {
        let reading = self.inner.position(bucket, timeout);
        self.life.alive(reading).await
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        let reading = self.inner.state(bucket, key, timeout);
        self.life.alive(reading).await
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let reading = self.inner.scan(bucket, after, pairs_max, timeout);
        self.life.alive(reading).await
    }

    async fn commit(&self, commit: &StoreCommit, timeout: Duration) -> Result<(), BusError> {
        let mut commit = commit.clone();
        if self.forgets_consumed {
            commit.consumed.clear();
        }
        let committing = self.inner.commit(&commit, timeout);
        self.life.step("transaction", committing).await
    }

    async fn outbox(
        &self,
        bucket: &Name,
        after: Position,
        commits_max: usize,
        timeout: Duration,
    ) -> Result<Vec<OutboxCommit>, BusError> {
        let reading = self.inner.outbox(bucket, after, commits_max, timeout);
        self.life.alive(reading).await
    }

    async fn published(
        &self,
        bucket: &Name,
        through: Position,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let marking = self.inner.published(bucket, through, timeout);
        self.life.step("mark", marking).await
    }

    async fn abandoned(&self, age: Duration, timeout: Duration) -> Result<Vec<Name>, BusError> {
        let looking = self.inner.abandoned(age, timeout);
        self.life.alive(looking).await
    }

    async fn consumed(
        &self,
        queue: &Name,
        ids: &[MessageId],
        timeout: Duration,
    ) -> Result<Vec<bool>, BusError> {
        let looking = self.inner.consumed(queue, ids, timeout);
        self.life.alive(looking).await
    }

    async fn tidy(&self, timeout: Duration) -> Result<(), BusError> {
        self.life.alive(self.inner.tidy(timeout)).await
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        self.inner.document(name, timeout).await
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        let inner = &self.inner;
        inner
            .put_document(name, expected_revision, body, timeout)
            .await
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let inner = &self.inner;
        inner.documents(prefix, after, documents_max, timeout).await
    }
}
