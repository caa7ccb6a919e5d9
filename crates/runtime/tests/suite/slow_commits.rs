//! A bus whose commits take long, whatever is in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use broker::SystemClock;
use bus::{AckLevel, Bus, BusError, Capabilities, Commit, QueueSettings, Subscription};
use bytes::Bytes;
use kernel::{Destination, Message, Name};
use runtime::{Runtime, Settings};

use crate::rig::*;

/// Longer than a batch should take.
const COMMIT_TAKES: Duration = Duration::from_millis(30);

struct SlowBus {
    inner: Arc<dyn Bus>,
    commits: AtomicUsize,
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
        self.commits.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(COMMIT_TAKES).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_commit_does_not_make_batches_smaller() {
    const MESSAGES: usize = 4_000;
    let rig = Rig::new();
    let slow = Arc::new(SlowBus {
        inner: rig.bus.clone(),
        commits: AtomicUsize::new(0),
    });
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
