//! What a guarantee is, what it runs against, and what came of it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bus::{AckLevel, Bus, Capabilities, Delivery, Given, QueueSettings, Receipt, Subscription};
use bytes::Bytes;
use hivewire_tests::proxy::Proxy;
use kernel::{Destination, Message, Name};

/// How long any one step may take.
pub const STEP: Duration = Duration::from_secs(20);
/// How long is looked for what must not come.
pub const QUIET: Duration = Duration::from_millis(250);
/// How long is waited before looking again.
const POLL: Duration = Duration::from_millis(50);
/// How long one guarantee may take.
const GUARANTEE: Duration = Duration::from_secs(90);

/// An engine, and the means to harm it.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The engine's name in the table.
    fn label(&self) -> &'static str;
    /// A new client.
    async fn connect(&self) -> Result<Arc<dyn Bus>>;
    /// The engine crashes and comes back.
    async fn restart(&self) -> Result<()>;
    /// The network between client and engine, if a test may harm it.
    fn network(&self) -> Option<&Proxy>;
    /// Whether it can be made to crash at a chosen operation on its disk.
    fn can_crash_at_a_point(&self) -> Given {
        Given::No("its servers cannot be stopped at a chosen operation")
    }
    /// The engine is to crash after that many more operations on its disk, if that can be arranged.
    fn crash_after(&self, _operations: u64) -> bool {
        false
    }
    /// Whether the crash has happened; it does not happen later any more.
    fn has_crashed(&self) -> bool {
        false
    }
    /// How long is waited for a message that must come.
    fn patience(&self) -> Duration {
        STEP
    }
    /// Whether restarting it is worth the time here.
    fn can_restart(&self) -> Given {
        Given::Yes
    }
}

/// What an engine must have so that a guarantee can be asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    Commit,
    OrderAfterRetry,
    CountsLostSubscribers,
    InTurn,
    Network,
    Restart,
    CommitAndRestart,
    ReconnectAndRestart,
    DiskThatCrashes,
}

type Checked<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// One promise of the contract, with the code that finds out whether it is kept.
#[derive(Clone, Copy)]
pub struct Guarantee {
    pub name: &'static str,
    pub needs: Needs,
    pub check: for<'a> fn(&'a World) -> Checked<'a>,
}

/// What came of one guarantee.
#[derive(Clone, Debug)]
pub enum Outcome {
    Kept(Duration),
    Broken(String),
    /// The engine says itself that it does not give it.
    NotGiven(&'static str),
    /// It cannot be asked here.
    NotHere(&'static str),
}

impl Guarantee {
    /// Finds out whether the engine keeps it.
    pub async fn ask(&self, world: &World) -> Outcome {
        let capabilities = world.bus.capabilities();
        if let Some(outcome) = self.not_asked(&capabilities, world.fixture.as_ref()) {
            return outcome;
        }
        let began = Instant::now();
        match tokio::time::timeout(GUARANTEE, (self.check)(world)).await {
            Ok(Ok(())) => Outcome::Kept(began.elapsed()),
            Ok(Err(error)) => Outcome::Broken(format!("{error:#}")),
            Err(_) => Outcome::Broken(format!("it was not done within {GUARANTEE:?}")),
        }
    }

    fn not_asked(&self, capabilities: &Capabilities, fixture: &dyn Fixture) -> Option<Outcome> {
        let given = |given: Given| match given {
            Given::Yes => None,
            Given::No(reason) => Some(Outcome::NotGiven(reason)),
        };
        let connection = || match capabilities.reconnects {
            Given::Yes => None,
            Given::No(reason) => Some(Outcome::NotHere(reason)),
        };
        let restart = || match fixture.can_restart() {
            Given::Yes => None,
            Given::No(reason) => Some(Outcome::NotHere(reason)),
        };
        match self.needs {
            Needs::Nothing => None,
            Needs::Commit => given(capabilities.commit),
            Needs::OrderAfterRetry => given(capabilities.order_after_retry),
            Needs::CountsLostSubscribers => given(capabilities.counts_lost_subscribers),
            Needs::InTurn => given(capabilities.in_turn),
            Needs::Network if fixture.network().is_some() => None,
            Needs::Network => {
                connection().or(Some(Outcome::NotHere("asked over the slow network")))
            }
            Needs::Restart => restart(),
            Needs::CommitAndRestart => given(capabilities.commit).or_else(restart),
            Needs::ReconnectAndRestart => connection().or_else(restart),
            Needs::DiskThatCrashes => {
                given(capabilities.commit).or_else(|| match fixture.can_crash_at_a_point() {
                    Given::Yes => None,
                    Given::No(reason) => Some(Outcome::NotHere(reason)),
                })
            }
        }
    }
}

/// Makes a guarantee of an async function and its name in words.
macro_rules! guarantee {
    ($needs:ident, $name:literal, $check:path) => {
        $crate::suite::Guarantee {
            name: $name,
            needs: $crate::suite::Needs::$needs,
            check: |world| Box::pin($check(world)),
        }
    };
}
pub(crate) use guarantee;

/// What a guarantee runs in: an engine with a client, and names that nobody used before.
pub struct World {
    pub fixture: Arc<dyn Fixture>,
    pub bus: Arc<dyn Bus>,
}

static NAMES: AtomicU32 = AtomicU32::new(0);

fn new_name(kind: &str) -> Name {
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    Name::new(&format!("contract.{}.{kind}.{number}", std::process::id())).expect("a valid name")
}

impl World {
    pub async fn new(fixture: Arc<dyn Fixture>) -> Result<Self> {
        let bus = fixture.connect().await.context("cannot connect")?;
        Ok(Self { fixture, bus })
    }

    /// The same engine after a crash, with a new client.
    pub async fn restarted(&self) -> Result<Self> {
        self.fixture.restart().await.context("cannot restart")?;
        Self::new(self.fixture.clone()).await
    }

    pub fn name(&self) -> Name {
        new_name("name")
    }

    /// A new durable queue.
    pub fn queue(&self) -> Destination {
        Destination::Queue(new_name("queue"))
    }

    pub fn topic(&self) -> Destination {
        Destination::Topic(new_name("topic"))
    }

    /// A new queue with these settings.
    pub async fn declared(&self, durable: bool, tries_max: u32) -> Result<Destination> {
        let queue = self.queue();
        let settings = QueueSettings {
            durable,
            tries_max,
            ..QueueSettings::default()
        };
        self.bus.declare(queue.name(), &settings, STEP).await?;
        Ok(queue)
    }

    pub async fn send(&self, to: &Destination, bodies: &[&str]) -> Result<AckLevel> {
        let messages = bodies.iter().map(|body| message(body)).collect();
        self.send_messages(to, messages).await
    }

    pub async fn send_messages(
        &self,
        to: &Destination,
        mut messages: Vec<Message>,
    ) -> Result<AckLevel> {
        let level = self.bus.publish(to, &mut messages, STEP).await?;
        ensure!(messages.is_empty(), "what was promised stayed in the batch");
        Ok(level)
    }

    pub async fn subscribe(&self, from: &Destination, credit: u32) -> Result<Subscriber> {
        let subscription = self.bus.subscribe(from, credit, STEP).await?;
        let patience = self.fixture.patience();
        Ok(Subscriber {
            subscription,
            patience,
        })
    }

    /// A new durable queue of which the engine says that what it holds survives a crash.
    pub async fn settled_queue(&self) -> Result<Destination> {
        let queue = self.queue();
        let subscriber = self.subscribe(&queue, 10).await?;
        let promised = self.bus.capabilities().durable_level;
        let deadline = Instant::now() + STEP;
        loop {
            let level = self.send(&queue, &["settling"]).await?;
            let received = subscriber.receive(1).await?;
            subscriber.acknowledge(&received).await?;
            if level == promised {
                return Ok(queue);
            }
            ensure!(level < promised, "it gave {level}, not {promised}");
            ensure!(Instant::now() < deadline, "it never gave more than {level}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends one more message and checks that it is the next one: so nothing else was there.
    pub async fn expect_empty(&self, queue: &Destination) -> Result<()> {
        self.send(queue, &["the last"]).await?;
        let subscriber = self.subscribe(queue, 10).await?;
        let next = subscriber.receive(1).await?;
        ensure!(
            next[0].message.body == "the last",
            "{queue} should have been empty, but {} came",
            describe(&next[0])
        );
        subscriber.acknowledge(&next).await
    }
}

pub fn message(body: &str) -> Message {
    Message::new(Bytes::copy_from_slice(body.as_bytes()))
}

pub fn describe(delivery: &Delivery) -> String {
    let body = &delivery.message.body;
    let start = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
    format!("{start:?} ({} bytes)", body.len())
}

/// Numbered bodies, so that order and completeness show.
pub fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i:05}")).collect()
}

pub fn texts(deliveries: &[Delivery]) -> Vec<String> {
    let text = |d: &Delivery| String::from_utf8_lossy(&d.message.body).into_owned();
    deliveries.iter().map(text).collect()
}

/// A subscription with the patience of a test.
pub struct Subscriber {
    pub subscription: Box<dyn Subscription>,
    patience: Duration,
}

impl Subscriber {
    /// Exactly that many deliveries.
    pub async fn receive(&self, count: usize) -> Result<Vec<Delivery>> {
        let patience = self.patience;
        let deadline = Instant::now() + patience;
        let mut received = Vec::new();
        while received.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!(
                    "{} of {count} messages came within {patience:?}",
                    received.len()
                );
            }
            let wanted = count - received.len();
            received.extend(self.subscription.next_batch(wanted, left).await?);
        }
        ensure!(received.len() == count, "more came than was asked for");
        Ok(received)
    }

    /// Receives and acknowledges one by one until `done` says so.
    pub async fn receive_until(
        &self,
        mut done: impl FnMut(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>> {
        let mut received = Vec::new();
        loop {
            let next = self.receive(1).await?;
            self.acknowledge(&next).await?;
            let is_done = done(&next[0]);
            received.extend(next);
            if is_done {
                return Ok(received);
            }
        }
    }

    /// Nothing comes for a while.
    pub async fn expect_quiet(&self) -> Result<()> {
        let more = self.subscription.next_batch(1, QUIET).await?;
        match more.first() {
            None => Ok(()),
            Some(delivery) => bail!(
                "nothing more should have come, but {} did",
                describe(delivery)
            ),
        }
    }

    pub async fn acknowledge(&self, deliveries: &[Delivery]) -> Result<()> {
        let receipts: Vec<Receipt> = deliveries.iter().map(|d| d.receipt).collect();
        Ok(self.subscription.acknowledge(&receipts, STEP).await?)
    }
}
