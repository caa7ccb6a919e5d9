//! A runtime over a broker in memory, and workers to try it with.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Broker, SystemClock};
use bus::engines::EmbeddedBus;
use bus::{Bus, Delivery as BusDelivery};
use bytes::Bytes;
use journal::{Options, testing::MemoryStorage};
use kernel::worker::{Code, Failure, Incoming, Kind, Turn, Worker, native};
use kernel::{Address, Destination, Message, Name, StageAddress};
use runtime::{Runtime, Settings, StageSpec};

pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Rig {
    pub broker: Arc<Broker>,
    pub bus: Arc<dyn Bus>,
    pub runtime: Arc<Runtime>,
    pub storage: Arc<MemoryStorage>,
}

impl Rig {
    pub fn new() -> Self {
        Self::over(Arc::new(MemoryStorage::new(1)))
    }

    pub fn with_settings(settings: Settings) -> Self {
        Self::made_of(Arc::new(MemoryStorage::new(1)), settings)
    }

    pub fn over(storage: Arc<MemoryStorage>) -> Self {
        Self::made_of(storage, Settings::default())
    }

    fn made_of(storage: Arc<MemoryStorage>, settings: Settings) -> Self {
        let (broker, _) = Broker::start(
            storage.clone(),
            Options {
                // Many of them are in memory at the same time.
                segment_bytes: 8 << 20,
                record_bytes_max: 4 << 20,
                ..Options::default()
            },
            broker::Settings::default(),
            Arc::new(SystemClock),
        )
        .unwrap();
        let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(broker.clone()));
        let runtime = Runtime::start(bus.clone(), settings, Arc::new(SystemClock));
        Self {
            broker,
            bus,
            runtime,
            storage,
        }
    }

    /// Ends in good order and starts again over what is on disk.
    pub async fn restarted(self) -> Self {
        self.runtime.shutdown(PATIENCE).await;
        self.broker.journal().shutdown().unwrap();
        let storage = self.storage.clone();
        drop(self);
        Self::over(storage)
    }

    pub async fn deploy(&self, spec: StageSpec, code: Arc<dyn Code>) {
        self.runtime.deploy(spec, code).await.unwrap();
    }

    pub async fn send(&self, to: &str, body: &str) {
        let to: Address = to.parse().unwrap();
        self.runtime
            .send(&to, Message::new(body.to_owned()))
            .await
            .unwrap();
    }

    pub async fn ask(&self, to: &str, body: &str) -> String {
        let to: Address = to.parse().unwrap();
        let message = Message::new(body.to_owned());
        let answer = self.runtime.ask(&to, message, PATIENCE).await.unwrap();
        text(&answer)
    }

    /// Takes `count` messages from a queue.
    pub async fn take(&self, queue: &str, count: usize) -> Vec<BusDelivery> {
        let from = Destination::Queue(Name::new(queue).unwrap());
        let subscription = self.bus.subscribe(&from, 1_000, PATIENCE).await.unwrap();
        let mut taken = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while taken.len() < count {
            assert!(
                Instant::now() < deadline,
                "{} of {count} in {queue}",
                taken.len()
            );
            let more = subscription
                .next_batch(1_000, Duration::from_millis(200))
                .await
                .unwrap();
            let receipts: Vec<_> = more.iter().map(|d| d.receipt).collect();
            subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
            taken.extend(more);
        }
        taken
    }
}

pub fn stage(text: &str) -> StageAddress {
    text.parse().unwrap()
}

pub fn spec(text: &str) -> StageSpec {
    StageSpec::new(stage(text))
}

pub fn text(message: &Message) -> String {
    String::from_utf8(message.body.to_vec()).unwrap()
}

/// Waits until something is true.
pub async fn until<F: Future<Output = bool>>(what: &str, is_true: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A worker made of a function.
pub struct Does<F>(pub F);

#[async_trait]
impl<F> Worker for Does<F>
where
    F: FnMut(&Incoming, &mut Turn) -> Result<(), Failure> + Send,
{
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        (self.0)(message, turn)
    }
}

pub fn does<F>(version: &str, run: F) -> Arc<dyn Code>
where
    F: FnMut(&Incoming, &mut Turn) -> Result<(), Failure> + Clone + Send + Sync + 'static,
{
    native("does", version, move |_| Does(run.clone()))
}

/// Answers with what it got.
pub fn echo() -> Arc<dyn Code> {
    does("1", |incoming, turn| {
        turn.reply(incoming, Message::new(incoming.message.body.clone()))
    })
}

/// Counts in its memory and in its state, and answers `memory/state`.
pub struct Counter {
    pub label: &'static str,
    pub count: u64,
}

#[async_trait]
impl Worker for Counter {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        if message.kind != Kind::Message {
            return Ok(());
        }
        if &message.message.body[..] == b"poison" {
            return Err(Failure::new("poisoned"));
        }
        if &message.message.body[..] == b"panic" {
            panic!("told to");
        }
        self.count += 1;
        let stored = match turn.state(b"count").await? {
            Some(bytes) => String::from_utf8_lossy(&bytes).parse::<u64>()?,
            None => 0,
        };
        let next = (stored + 1).to_string();
        turn.set_state("count", next.clone())?;
        if message.expects_reply() {
            let answer = format!("{}{}/{next}", self.label, self.count);
            turn.reply(message, Message::new(answer))?;
        }
        Ok(())
    }

    async fn save(&mut self) -> Result<Bytes, Failure> {
        Ok(self.count.to_string().into())
    }

    async fn load(&mut self, snapshot: Bytes) -> Result<(), Failure> {
        self.count = String::from_utf8_lossy(&snapshot).parse()?;
        Ok(())
    }
}

pub fn counter(version: &str, label: &'static str) -> Arc<dyn Code> {
    native("counter", version, move |_| Counter { label, count: 0 })
}
