//! Engines that break their promises on purpose. A suite that does not catch them proves nothing.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bus::{
    AckLevel, Bus, BusError, Capabilities, Commit, Consumed, Delivery, Document, Given, Put,
    QueueSettings, Receipt, Reject, Subscription,
};
use bytes::Bytes;
use hivewire_tests::proxy::Proxy;
use kernel::{Destination, Headers, Message, Name};
use parking_lot::Mutex;

use crate::suite::Fixture;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    DropsMessages,
    DuplicatesMessages,
    ReversesBatches,
    IgnoresCredit,
    ServesAll,
    HidesRedelivery,
    ForgetsAcknowledgements,
    AcknowledgesEverything,
    ChangesHeaders,
    ChangesBodies,
    MixesQueues,
    OverstatesLevels,
    CountsNoTries,
    LosesReasons,
    RetriesAtTheEnd,
    KeepsTopics,
    MergesTopicsAndQueues,
    PromisesWithoutDisk,
    IgnoresEpochs,
    SplitsCommits,
    ConsumesRefusedInput,
    ForgetsWrites,
    MixesBuckets,
    HidesLostSubscribers,
    OverwritesDocuments,
    ForgetsDocuments,
    HidesDeletedDocuments,
}

/// A fixture whose clients are broken.
pub struct BrokenFixture {
    pub inner: Arc<dyn Fixture>,
    pub fault: Fault,
}

#[async_trait]
impl Fixture for BrokenFixture {
    fn label(&self) -> &'static str {
        "broken"
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>> {
        Ok(Arc::new(BrokenBus {
            inner: self.inner.connect().await?,
            fault: self.fault,
            published: AtomicU64::new(0),
        }))
    }

    async fn restart(&self) -> Result<()> {
        self.inner.restart().await
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }

    fn network(&self) -> Option<&Proxy> {
        self.inner.network()
    }

    fn can_crash_at_a_point(&self) -> Given {
        self.inner.can_crash_at_a_point()
    }

    fn crash_after(&self, operations: u64) -> bool {
        self.inner.crash_after(operations)
    }

    fn has_crashed(&self) -> bool {
        self.inner.has_crashed()
    }
}

/// Every that many messages something happens to one.
const ONE_IN: u64 = 3;

struct BrokenBus {
    inner: Arc<dyn Bus>,
    fault: Fault,
    published: AtomicU64,
}

impl BrokenBus {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn elsewhere(&self, destination: &Destination) -> Destination {
        let name = destination.name().as_str();
        let of_topic = matches!(destination, Destination::Topic(_));
        let merged = match self.fault {
            Fault::MixesQueues if !of_topic => "contract.one.for.all".to_owned(),
            Fault::KeepsTopics if of_topic => format!("topic.{name}"),
            Fault::MergesTopicsAndQueues => format!("both.{name}"),
            _ => return destination.clone(),
        };
        Destination::Queue(Name::new(&merged).expect("a valid name"))
    }

    fn damaged(&self, message: Message) -> Vec<Message> {
        let number = self.published.fetch_add(1, Ordering::Relaxed);
        let is_chosen = number % ONE_IN == ONE_IN - 1;
        match self.fault {
            Fault::DropsMessages if is_chosen => vec![],
            Fault::DuplicatesMessages if is_chosen => vec![message.clone(), message],
            Fault::ChangesHeaders => {
                // What a map instead of a list would do.
                let mut pairs: Vec<(&str, &str)> = message.headers.iter().collect();
                pairs.sort();
                let headers = Headers::from_pairs(pairs).unwrap_or_default();
                vec![message.clone().with_headers(headers)]
            }
            Fault::ChangesBodies => {
                let body = [&message.body[..], b"\n"].concat().into();
                vec![Message { body, ..message }]
            }
            _ => vec![message],
        }
    }

    /// The parts of a commit as the inner bus knows them.
    fn inner_commit<'a>(&self, commit: &Commit<'a>) -> Commit<'a> {
        let consumed = commit.consumed.iter().map(|part| Consumed {
            subscription: inner_subscription(part.subscription),
            receipts: part.receipts.clone(),
        });
        let mut owner = commit.owner.clone();
        if let Some(owner) = &mut owner {
            owner.bucket = self.bucket(&owner.bucket);
        }
        let is_forgetful = self.has(Fault::ForgetsWrites);
        Commit {
            owner,
            consumed: consumed.collect(),
            writes: if is_forgetful {
                vec![]
            } else {
                commit.writes.clone()
            },
            sends: commit.sends.clone(),
        }
    }

    fn bucket(&self, bucket: &Name) -> Name {
        match self.fault {
            Fault::MixesBuckets => Name::new("contract.bucket").expect("a valid name"),
            _ => bucket.clone(),
        }
    }
}

fn inner_subscription(subscription: &dyn Subscription) -> &dyn Subscription {
    let any: &dyn Any = subscription;
    match any.downcast_ref::<BrokenSubscription>() {
        Some(broken) => broken.inner.as_ref(),
        None => subscription,
    }
}

#[async_trait]
impl Bus for BrokenBus {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let mut settings = settings.clone();
        settings.in_turn &= !self.has(Fault::ServesAll);
        self.inner.declare(queue, &settings, timeout).await
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        if self.has(Fault::PromisesWithoutDisk) {
            let settings = QueueSettings {
                durable: false,
                ..QueueSettings::default()
            };
            self.inner.declare(to.name(), &settings, timeout).await?;
        }
        let mut batch_damaged: Vec<Message> =
            batch.drain(..).flat_map(|m| self.damaged(m)).collect();
        if self.has(Fault::ReversesBatches) {
            batch_damaged.reverse();
        }
        let to = self.elsewhere(to);
        let level = self.inner.publish(&to, &mut batch_damaged, timeout).await?;
        let overstates = matches!(
            self.fault,
            Fault::PromisesWithoutDisk | Fault::OverstatesLevels
        );
        Ok(if overstates { AckLevel::Synced } else { level })
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let credit = match self.fault {
            Fault::IgnoresCredit => credit_messages + 1,
            _ => credit_messages,
        };
        let from = self.elsewhere(from);
        let inner = self.inner.subscribe(&from, credit, timeout).await?;
        Ok(Box::new(BrokenSubscription {
            inner,
            bus: self.inner.clone(),
            from,
            fault: self.fault,
            handed_on: Mutex::default(),
        }))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        let mut inner = self.inner_commit(commit);
        if self.has(Fault::SplitsCommits) {
            for (to, message) in std::mem::take(&mut inner.sends) {
                self.inner.publish(&to, &mut vec![message], timeout).await?;
            }
        }
        let mut outcome = self.inner.commit(&inner, timeout).await;
        if self.has(Fault::IgnoresEpochs)
            && let Err(BusError::Fenced { current, .. }) = outcome
            && let Some(owner) = &mut inner.owner
        {
            owner.epoch = current;
            outcome = self.inner.commit(&inner, timeout).await;
        }
        if outcome.is_err() && self.has(Fault::ConsumesRefusedInput) {
            for part in &inner.consumed {
                let receipts = &part.receipts;
                part.subscription.acknowledge(receipts, timeout).await.ok();
            }
        }
        outcome
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let bucket = self.bucket(bucket);
        self.inner.raise_epoch(&bucket, timeout).await
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        self.inner.state(&self.bucket(bucket), key, timeout).await
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let bucket = self.bucket(bucket);
        self.inner.scan(&bucket, after, pairs_max, timeout).await
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        self.inner.document(name, timeout).await
    }

    async fn put_document(
        &self,
        name: &Name,
        mut expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        if self.has(Fault::ForgetsDocuments) {
            return Ok(Put::Stored(expected_revision + 1));
        }
        if self.has(Fault::OverwritesDocuments) {
            expected_revision = self.inner.document(name, timeout).await?.revision;
        }
        self.inner
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
        let found = self
            .inner
            .documents(prefix, after, documents_max, timeout)
            .await;
        match self.fault {
            Fault::HidesDeletedDocuments => Ok(found?
                .into_iter()
                .filter(|(_, document)| document.body.is_some())
                .collect()),
            _ => found,
        }
    }
}

struct BrokenSubscription {
    inner: Box<dyn Subscription>,
    bus: Arc<dyn Bus>,
    from: Destination,
    fault: Fault,
    handed_on: Mutex<Vec<Receipt>>,
}

#[async_trait]
impl Subscription for BrokenSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let mut deliveries = self.inner.next_batch(messages_max, timeout).await?;
        for delivery in &mut deliveries {
            self.handed_on.lock().push(delivery.receipt);
            match self.fault {
                Fault::HidesRedelivery => delivery.redelivered = false,
                Fault::CountsNoTries | Fault::HidesLostSubscribers => delivery.tries = 0,
                _ => {}
            }
        }
        Ok(deliveries)
    }

    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError> {
        match self.fault {
            Fault::ForgetsAcknowledgements => Ok(()),
            Fault::AcknowledgesEverything => {
                let all = std::mem::take(&mut *self.handed_on.lock());
                self.inner.acknowledge(&all, timeout).await
            }
            _ => self.inner.acknowledge(receipts, timeout).await,
        }
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        match (self.fault, reject) {
            (Fault::LosesReasons, Reject::Dead { .. }) => {
                let reason = "failed".into();
                let reject = Reject::Dead { reason };
                self.inner.reject(delivery, reject, timeout).await
            }
            (Fault::RetriesAtTheEnd, Reject::Retry { .. }) => {
                let mut again = vec![delivery.message.clone()];
                self.bus.publish(&self.from, &mut again, timeout).await?;
                self.inner.acknowledge(&[delivery.receipt], timeout).await
            }
            (_, reject) => self.inner.reject(delivery, reject, timeout).await,
        }
    }
}
