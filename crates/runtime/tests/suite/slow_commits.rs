//! A bus whose commits take long, whatever is in them.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use broker::SystemClock;
use bus::{AckLevel, Bus, BusError, Capabilities, Commit, QueueSettings, Subscription};
use bytes::Bytes;
use kernel::{Destination, Message, Name};
use parking_lot::Mutex;
use runtime::{Delivery, Runtime, Settings};

use crate::keyed::{adder, check, keyed, message};
use crate::rig::*;

/// Longer than a batch should take.
const COMMIT_TAKES: Duration = Duration::from_millis(30);

pub struct SlowBus {
    inner: Arc<dyn Bus>,
    takes: Duration,
    pub commits: AtomicUsize,
    /// Commits under way, by their bucket.
    underway: Mutex<HashMap<Name, usize>>,
    /// The most commits that were under way at a time: of one bucket, and of all together.
    most: Mutex<(usize, usize)>,
    /// What goes wrong with every eleventh commit of state, in turn.
    faults: Vec<Fault>,
}

#[derive(Clone, Copy)]
pub enum Fault {
    Full,
    Timeout,
    NotHeld,
    Refused,
    /// Nothing happened.
    InDoubt,
    /// All of it happened.
    InDoubtDone,
    /// Nothing was consumed, but the rest happened: no engine may do that.
    Half,
}

const FAULT_EVERY: usize = 11;

impl SlowBus {
    pub fn new(inner: &Arc<dyn Bus>, takes: Duration, faults: &[Fault]) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            takes,
            commits: AtomicUsize::new(0),
            underway: Mutex::default(),
            most: Mutex::default(),
            faults: faults.to_vec(),
        })
    }

    fn fault(&self, commit: &Commit<'_>) -> Option<Fault> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        let is_faulty = !commit.writes.is_empty() && number.is_multiple_of(FAULT_EVERY);
        let place = (number / FAULT_EVERY) % self.faults.len().max(1);
        self.faults.get(place).copied().filter(|_| is_faulty)
    }

    /// Counts a commit as long as the guard lives: whoever waits for it may go away.
    fn begin(&self, bucket: Option<&Name>) -> Counted<'_> {
        let counted = Counted {
            bus: self,
            bucket: bucket.cloned(),
        };
        let mut underway = self.underway.lock();
        let Some(bucket) = bucket else {
            return counted;
        };
        let own = underway.entry(bucket.clone()).or_default();
        *own += 1;
        let own = *own;
        let all = underway.values().sum();
        let mut most = self.most.lock();
        *most = (most.0.max(own), most.1.max(all));
        counted
    }

    async fn commit_with(
        &self,
        fault: Option<Fault>,
        commit: &Commit<'_>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let (what, waited, reason) = ("a commit".to_owned(), timeout, "a test".to_owned());
        match fault {
            None => self.inner.commit(commit, timeout).await,
            Some(Fault::Full) => Err(BusError::Full { reason }),
            Some(Fault::Refused) => Err(BusError::Refused { reason }),
            Some(Fault::NotHeld) => Err(BusError::NotHeld { messages: 1 }),
            Some(Fault::Timeout) => Err(BusError::Timeout {
                what,
                waited,
                reason,
            }),
            Some(Fault::InDoubt) => Err(BusError::InDoubt {
                what,
                waited,
                reason,
            }),
            Some(Fault::InDoubtDone) => {
                self.inner.commit(commit, timeout).await?;
                Err(BusError::InDoubt {
                    what,
                    waited,
                    reason,
                })
            }
            Some(Fault::Half) => {
                let half = Commit {
                    owner: commit.owner.clone(),
                    consumed: Vec::new(),
                    writes: commit.writes.clone(),
                    sends: commit.sends.clone(),
                };
                self.inner.commit(&half, timeout).await?;
                Err(BusError::NotHeld { messages: 1 })
            }
        }
    }
}

/// A commit under way.
struct Counted<'a> {
    bus: &'a SlowBus,
    bucket: Option<Name>,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut underway = self.bus.underway.lock();
        let own = self.bucket.as_ref().and_then(|b| underway.get_mut(b));
        if let Some(own) = own {
            *own -= 1;
        }
    }
}

#[async_trait]
impl Bus for SlowBus {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        self.inner.declare(queue, settings, timeout).await
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        self.inner.publish(to, batch, timeout).await
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        self.inner.subscribe(from, credit_messages, timeout).await
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        let fault = self.fault(commit);
        let bucket = commit.owner.as_ref().map(|owner| &owner.bucket);
        let _counted = self.begin(bucket);
        tokio::time::sleep(self.takes).await;
        self.commit_with(fault, commit, timeout).await
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

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_commit_does_not_make_batches_smaller() {
    const MESSAGES: usize = 4_000;
    let rig = Rig::new();
    let slow = SlowBus::new(&rig.bus, COMMIT_TAKES, &[]);
    let node = Runtime::start(slow.clone(), Settings::default(), Arc::new(SystemClock));
    let queue = Destination::Queue(stage("a/sink").queue());
    let mut batch = vec![Message::new("x"); MESSAGES];
    rig.bus.publish(&queue, &mut batch, PATIENCE).await.unwrap();
    let sink = does("1", |_, _| Ok(()));
    node.deploy(spec("a/sink"), sink).await.unwrap();
    let turns = || node.flows()[0].stages[0].turns;
    until("all are handled", || async { turns() == MESSAGES as u64 }).await;
    let commits = slow.commits.load(Ordering::Relaxed);
    assert!(commits < MESSAGES / 50, "{commits} commits");
}

const KEYS: usize = 60;
const EACH: usize = 30;
const SOON: Duration = Duration::from_millis(3);

/// Sends messages of many keys through a keyed stage over this bus; gives what came of them.
async fn run_keyed(rig: &Rig, slow: &Arc<SlowBus>) -> Vec<bus::Delivery> {
    let node = Runtime::start(slow.clone(), Settings::default(), Arc::new(SystemClock));
    let spec = keyed(Delivery::Durable).workers(3);
    // Where a commit can fail, nodes share their stages: so subscribers take turns.
    node.deploy_shared(spec, adder(), None).await.unwrap();
    let adders = stage("a/adder");
    for part in node.parts(&adders) {
        node.take(&adders, part).await.unwrap();
    }
    let queue = Destination::Queue(adders.queue());
    for number in 0..EACH {
        let mut batch: Vec<Message> = (0..KEYS).map(|key| message(key, number)).collect();
        rig.bus.publish(&queue, &mut batch, PATIENCE).await.unwrap();
    }
    let taken = rig.take("totals", KEYS * EACH).await;
    node.shutdown(PATIENCE).await;
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_committed_side_by_side_and_each_one_by_one() {
    let rig = Rig::new();
    let slow = SlowBus::new(&rig.bus, SOON, &[]);
    check(&run_keyed(&rig, &slow).await, EACH);
    let (of_one, together) = *slow.most.lock();
    assert_eq!(of_one, 1);
    assert!(together > 3, "not more than workers: {together}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_comes_of_a_commit_under_way_each_message_counts_once_and_in_order() {
    let rig = Rig::new();
    let faults = [
        Fault::Full,
        Fault::Timeout,
        Fault::NotHeld,
        Fault::Refused,
        Fault::InDoubt,
        Fault::InDoubtDone,
    ];
    let slow = SlowBus::new(&rig.bus, SOON, &faults);
    check(&run_keyed(&rig, &slow).await, EACH);
    assert_eq!(slow.most.lock().0, 1);
}

/// The check above must find it out if a commit is done by halves.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_commit_is_found_out() {
    let rig = Rig::new();
    let slow = SlowBus::new(&rig.bus, SOON, &[Fault::Half]);
    let taken = run_keyed(&rig, &slow).await;
    assert!(catch_unwind(|| check(&taken, EACH)).is_err());
}
