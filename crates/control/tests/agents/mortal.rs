//! A bus that dies under its node, at any step that the others could see.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bus::{
    AckLevel, Bus, BusError, Capabilities, Commit, Consumed, Delivery, Document, Put,
    QueueSettings, Receipt, Reject, Submitted, Subscription,
};
use bytes::Bytes;
use kernel::{Destination, Message, Name};
use parking_lot::Mutex;

/// Who committed in which epoch of which bucket, and what was wrong with that.
#[derive(Default)]
pub struct Commits {
    owners: Mutex<HashMap<(Name, u64), &'static str>>,
    wrong: Mutex<Option<String>>,
}

impl Commits {
    /// Two that committed in one epoch, if there were any.
    pub fn wrong(&self) -> Option<String> {
        self.wrong.lock().clone()
    }

    pub fn count(&self) -> usize {
        self.owners.lock().len()
    }

    fn note(&self, bucket: &Name, epoch: u64, node: &'static str) {
        let mut owners = self.owners.lock();
        let owner = *owners.entry((bucket.clone(), epoch)).or_insert(node);
        if owner != node {
            let wrong = format!("{owner} and {node} commit in epoch {epoch} of {bucket}");
            self.wrong.lock().get_or_insert(wrong);
        }
    }
}

/// When a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Not at all.
    Never,
    /// Before its nth call from now on.
    Before(u64),
    /// After its nth call from now on, of which it does not hear the answer.
    After(u64),
    /// In the middle of a commit that is not one step: what it consumed is not part of it.
    InTornCommit,
}

/// How a store hands out epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epochs {
    Raised,
    /// The first one is given to everybody.
    Shared,
}

struct Life {
    death: Death,
    calls: u64,
    is_dead: bool,
    /// What the node holds; the broker gets it back when it dies.
    subscriptions: Vec<Slot>,
}

type Slot = Arc<Mutex<Option<Arc<dyn Subscription>>>>;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Happens,
    IsTheLast,
}

pub struct MortalBus {
    inner: Arc<dyn Bus>,
    node: &'static str,
    epochs: Epochs,
    commits: Arc<Commits>,
    life: Arc<Mutex<Life>>,
}

impl MortalBus {
    pub fn new(
        inner: Arc<dyn Bus>,
        node: &'static str,
        epochs: Epochs,
        commits: Arc<Commits>,
    ) -> Arc<Self> {
        let life = Life {
            death: Death::Never,
            calls: 0,
            is_dead: false,
            subscriptions: Vec::new(),
        };
        Arc::new(Self {
            inner,
            node,
            epochs,
            commits,
            life: Arc::new(Mutex::new(life)),
        })
    }

    /// Counts calls from now on, and dies as it is told.
    pub fn dies(&self, death: Death) {
        let mut life = self.life.lock();
        life.calls = 0;
        life.death = death;
    }

    pub fn calls(&self) -> u64 {
        self.life.lock().calls
    }

    pub fn is_dead(&self) -> bool {
        self.life.lock().is_dead
    }

    /// One call more.
    fn call(&self) -> Result<Fate, BusError> {
        step(&self.life)
    }

    fn end(&self, fate: Fate) -> Result<(), BusError> {
        end(&self.life, fate)
    }

    /// Whether this commit is the one to be torn.
    fn tears(&self, commit: &Commit<'_>) -> bool {
        let has_both = !commit.consumed.is_empty() && !commit.writes.is_empty();
        has_both && self.life.lock().death == Death::InTornCommit
    }

    async fn submit_inner(
        &self,
        commit: &Commit<'_>,
        timeout: Duration,
    ) -> Result<Submitted, BusError> {
        let is_torn = self.tears(commit);
        let fate = match is_torn {
            true => Fate::IsTheLast,
            false => self.call()?,
        };
        let held: Vec<Arc<dyn Subscription>> = commit
            .consumed
            .iter()
            .map(|consumed| mortal(consumed.subscription).inner())
            .collect::<Result<_, _>>()?;
        let pairs = commit.consumed.iter().zip(&held);
        let consumed = pairs.map(|(consumed, subscription)| Consumed {
            subscription: &**subscription,
            receipts: consumed.receipts.clone(),
        });
        let inner = Commit {
            owner: commit.owner.clone(),
            consumed: match is_torn {
                true => Vec::new(),
                false => consumed.collect(),
            },
            writes: commit.writes.clone(),
            sends: commit.sends.clone(),
        };
        let submitted = self.inner.submit(&inner, timeout).await?;
        if let Some(owner) = &commit.owner {
            self.commits.note(&owner.bucket, owner.epoch, self.node);
        }
        self.end(fate)?;
        Ok(submitted)
    }
}

fn step(life: &Mutex<Life>) -> Result<Fate, BusError> {
    let mut life = life.lock();
    if life.is_dead {
        return Err(dead());
    }
    life.calls += 1;
    let (death, calls) = (life.death, life.calls);
    match death {
        Death::Before(call) if call == calls => {
            die(life);
            Err(dead())
        }
        Death::After(call) if call == calls => Ok(Fate::IsTheLast),
        _ => Ok(Fate::Happens),
    }
}

fn end(life: &Mutex<Life>, fate: Fate) -> Result<(), BusError> {
    if fate == Fate::Happens {
        return Ok(());
    }
    die(life.lock());
    Err(dead())
}

fn die(mut life: parking_lot::MutexGuard<'_, Life>) {
    life.is_dead = true;
    let subscriptions = std::mem::take(&mut life.subscriptions);
    drop(life);
    for subscription in subscriptions {
        subscription.lock().take();
    }
}

fn dead() -> BusError {
    BusError::Stopped {
        reason: "this node is dead".to_owned(),
    }
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
        let fate = self.call()?;
        self.inner.declare(queue, settings, timeout).await?;
        self.end(fate)
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let fate = self.call()?;
        let level = self.inner.publish(to, batch, timeout).await?;
        self.end(fate).map(|()| level)
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let fate = self.call()?;
        let inner = self.inner.subscribe(from, credit_messages, timeout).await?;
        let slot: Slot = Arc::new(Mutex::new(Some(inner.into())));
        let subscription = MortalSubscription {
            slot: slot.clone(),
            life: self.life.clone(),
        };
        {
            let mut life = self.life.lock();
            if life.is_dead {
                return Err(dead());
            }
            life.subscriptions.retain(|slot| slot.lock().is_some());
            life.subscriptions.push(slot);
        }
        self.end(fate)?;
        Ok(Box::new(subscription))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        self.submit_inner(commit, timeout).await?.permanent().await
    }

    async fn submit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<Submitted, BusError> {
        self.submit_inner(commit, timeout).await
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let fate = self.call()?;
        let is_shared = {
            let owners = self.commits.owners.lock();
            self.epochs == Epochs::Shared && owners.contains_key(&(bucket.clone(), 1))
        };
        let epoch = match is_shared {
            true => 1,
            false => self.inner.raise_epoch(bucket, timeout).await?,
        };
        self.end(fate).map(|()| epoch)
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        let fate = self.call()?;
        let value = self.inner.state(bucket, key, timeout).await?;
        self.end(fate).map(|()| value)
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let fate = self.call()?;
        let pairs = self.inner.scan(bucket, after, pairs_max, timeout).await?;
        self.end(fate).map(|()| pairs)
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        let fate = self.call()?;
        let document = self.inner.document(name, timeout).await?;
        self.end(fate).map(|()| document)
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        let fate = self.call()?;
        let put = self
            .inner
            .put_document(name, expected_revision, body, timeout);
        let put = put.await?;
        self.end(fate).map(|()| put)
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let fate = self.call()?;
        let documents = self.inner.documents(prefix, after, documents_max, timeout);
        let documents = documents.await?;
        self.end(fate).map(|()| documents)
    }
}

struct MortalSubscription {
    slot: Slot,
    life: Arc<Mutex<Life>>,
}

impl MortalSubscription {
    fn inner(&self) -> Result<Arc<dyn Subscription>, BusError> {
        self.slot.lock().clone().ok_or_else(dead)
    }
}

impl Drop for MortalSubscription {
    fn drop(&mut self) {
        self.slot.lock().take();
    }
}

fn mortal(subscription: &dyn Subscription) -> &MortalSubscription {
    let any: &dyn Any = subscription;
    any.downcast_ref().expect("it came from the same bus")
}

#[async_trait]
impl Subscription for MortalSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        // Short looks, so that nobody keeps alive what a dead node held.
        let inner = self.inner()?;
        let timeout = timeout.min(Duration::from_millis(20));
        inner.next_batch(messages_max, timeout).await
    }

    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError> {
        let fate = step(&self.life)?;
        self.inner()?.acknowledge(receipts, timeout).await?;
        end(&self.life, fate)
    }

    fn release(&self, receipts: &[Receipt]) {
        if let Ok(inner) = self.inner() {
            inner.release(receipts);
        }
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let fate = step(&self.life)?;
        self.inner()?.reject(delivery, reject, timeout).await?;
        end(&self.life, fate)
    }
}
