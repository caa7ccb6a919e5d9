//! A stage that is replaced again and again while messages flow through it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bus::Bus;
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Destination, Headers, Message, StageAddress};
use parking_lot::Mutex;
use runtime::{Delivery, KeyRule, Runtime, StageKind, StageSpec};
use tokio::task::JoinSet;

use super::component::{bytes, host, load};
use super::native::message;
use super::rig::stage;
use super::{PATIENCE, Result, Rig, WorkerError, in_time, number_of, refused};

const WORKERS: u32 = 8;
const SENDERS: u32 = 16;
const MESSAGES_PER_SECOND: u32 = 20_000;
/// A run that sends less than that of the rate shows nothing.
const RATE_SHARE_MIN: f64 = 0.95;
const SENDER_HEADER: &str = "sender";

/// How often the stage is replaced during a run.
pub const REPLACEMENTS: u32 = 5;

/// What was seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The longest time in which nothing of one sender arrived.
    pub gap: Duration,
    /// The longest that a message took from the time at which it was due to be sent.
    pub late: Duration,
    /// The longest that a sender waited for one send.
    pub send: Duration,
    /// Messages sent per second.
    pub rate: f64,
    /// Messages that never arrived.
    pub lost: u32,
    /// Messages that arrived again.
    pub doubled: u32,
    /// Messages that arrived after a later one of the same sender.
    pub inverted: u32,
}

/// What arrived of one sender.
#[derive(Default)]
struct Arrived {
    seen: Vec<bool>,
    next: u32,
    last_at: Option<Instant>,
}

/// What arrived of all.
#[derive(Default)]
struct Record {
    began: Option<Instant>,
    senders: HashMap<String, Arrived>,
    seen: Seen,
    count: u32,
}

impl Record {
    fn take(&mut self, message: &Message) {
        let now = Instant::now();
        let number = number_of(&message.body);
        let name = message.headers.get(SENDER_HEADER).unwrap_or_default();
        let arrived = self.senders.entry(name.to_owned()).or_default();
        if let Some(last) = arrived.last_at.replace(now) {
            self.seen.gap = self.seen.gap.max(now - last);
        }
        if let Some(began) = self.began {
            let late = (now - began).saturating_sub(due_after(number));
            self.seen.late = self.seen.late.max(late);
        }
        let index = number as usize;
        if arrived.seen.len() <= index {
            arrived.seen.resize(index + 1, false);
        }
        if std::mem::replace(&mut arrived.seen[index], true) {
            self.seen.doubled += 1;
            return;
        }
        self.count += 1;
        if number < arrived.next {
            self.seen.inverted += 1;
        }
        arrived.next = arrived.next.max(number + 1);
    }
}

/// When a sender sends its message of this number.
fn due_after(number: u32) -> Duration {
    Duration::from_secs_f64(f64::from(number) * f64::from(SENDERS) / f64::from(MESSAGES_PER_SECOND))
}

/// Writes down what arrives.
struct Recorder(Arc<Mutex<Record>>);

#[async_trait]
impl Worker for Recorder {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        self.0.lock().take(&message.message);
        Ok(())
    }
}

fn recorder_stage() -> StageSpec {
    let address = StageAddress::new("bench", "recorder").expect("both are names");
    StageSpec::new(address).delivery(Delivery::Memory)
}

/// Sends for so many seconds through a keyed stage of eight component workers that is replaced
/// meanwhile, each time by a component that has to be compiled first.
pub fn replace(seconds: u32, delivery: Delivery) -> Result<Seen> {
    let rig = match delivery {
        Delivery::Durable => Rig::durable()?,
        Delivery::Memory => Rig::in_memory()?,
    };
    let record = Arc::new(Mutex::new(Record::default()));
    let recorder = Recorder(record.clone());
    let recorder = native("recorder", "1", move |_| Recorder(recorder.0.clone()));
    rig.deploy(recorder_stage(), recorder)?;
    let key = StageKind::Keyed(KeyRule::Header(SENDER_HEADER.into()));
    let spec = StageSpec::new(stage())
        .kind(key)
        .workers(WORKERS)
        .delivery(delivery)
        .output("out", recorder_stage().address);
    let echo = Arc::new(bytes("echo")?);
    let (runtime, bus) = (rig.runtime.clone(), rig.bus.clone());
    rig.block_on(deploy(runtime.clone(), spec.clone(), echo.clone(), 0))?;
    let per_sender = MESSAGES_PER_SECOND / SENDERS * seconds;
    rig.in_task(async move {
        let began = Instant::now();
        record_begin(&record, began);
        let mut senders = JoinSet::new();
        for sender in 0..SENDERS {
            let sender = Sender::new(sender, per_sender, began)?;
            match delivery {
                Delivery::Memory => senders.spawn(sender.send_all(runtime.clone())),
                Delivery::Durable => senders.spawn(sender.publish_all(bus.clone())),
            };
        }
        let every = Duration::from_secs(u64::from(seconds)) / (REPLACEMENTS + 1);
        for version in 1..=REPLACEMENTS {
            tokio::time::sleep_until((began + every * version).into()).await;
            deploy(runtime.clone(), spec.clone(), echo.clone(), version).await?;
        }
        let mut longest = Duration::ZERO;
        while let Some(sent) = senders.join_next().await {
            longest = longest.max(sent.map_err(refused("send"))??);
        }
        let sending = began.elapsed();
        wait_for_all(&record, per_sender * SENDERS).await;
        let mut seen = record.lock().seen;
        seen.lost = per_sender * SENDERS - record.lock().count;
        seen.send = longest;
        seen.rate = f64::from(per_sender * SENDERS) / sending.as_secs_f64();
        Ok(seen)
    })
}

fn record_begin(record: &Mutex<Record>, began: Instant) {
    record.lock().began = Some(began);
}

/// Waits until everything came, or nothing has come for a while.
async fn wait_for_all(record: &Mutex<Record>, messages: u32) {
    let quiet = Duration::from_secs(5);
    let (mut count, mut since) = (0, Instant::now());
    while count < messages && since.elapsed() < quiet {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = record.lock().count;
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
}

/// Compiles off the path and deploys.
async fn deploy(
    runtime: Arc<Runtime>,
    spec: StageSpec,
    echo: Arc<Vec<u8>>,
    version: u32,
) -> Result<()> {
    let host = host()?;
    let code = tokio::task::spawn_blocking(move || load(&host, &echo, version));
    let code = code.await.map_err(refused("compile"))??;
    let deployed = in_time("a deployment", runtime.deploy(spec, code)).await?;
    deployed.map_err(refused("deploy")).map(|_| ())
}

/// One who sends at a steady rate.
struct Sender {
    headers: Headers,
    messages: u32,
    began: Instant,
    /// The longest that one send took.
    longest: Duration,
}

impl Sender {
    fn new(number: u32, messages: u32, began: Instant) -> Result<Self> {
        let name = number.to_string();
        let headers = Headers::from_pairs([(SENDER_HEADER, name.as_str())]);
        Ok(Self {
            headers: headers.map_err(refused("make headers"))?,
            messages,
            began,
            longest: Duration::ZERO,
        })
    }

    fn message(&self, number: u32) -> Message {
        message(number).with_headers(self.headers.clone())
    }

    /// Waits until the message of this number is due.
    async fn wait_for(&self, number: u32) {
        let due = self.began + due_after(number);
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
    }

    /// Sends to the workers in this process, one message after another.
    async fn send_all(mut self, runtime: Arc<Runtime>) -> Result<Duration> {
        let to: Address = stage().into();
        for number in 0..self.messages {
            self.wait_for(number).await;
            let began = Instant::now();
            let sent = in_time("a send", runtime.send(&to, self.message(number))).await?;
            sent.map_err(refused("send"))?;
            self.longest = self.longest.max(began.elapsed());
        }
        Ok(self.longest)
    }

    /// Publishes to the queue of the stage, as clients do: what is due goes together, and the next
    /// follows when that is on disk.
    async fn publish_all(mut self, bus: Arc<dyn Bus>) -> Result<Duration> {
        let to = Destination::Queue(stage().queue());
        let mut number = 0;
        while number < self.messages {
            self.wait_for(number).await;
            let began = Instant::now();
            let mut batch = Vec::new();
            while number < self.messages && self.began + due_after(number) <= began {
                batch.push(self.message(number));
                number += 1;
            }
            let published = bus.publish(&to, &mut batch, PATIENCE).await;
            published.map_err(refused("publish"))?;
            self.longest = self.longest.max(began.elapsed());
        }
        Ok(self.longest)
    }
}

impl Seen {
    /// What was seen, or what went wrong.
    pub fn checked(self) -> Result<Self> {
        let harm = self.lost + self.doubled + self.inverted;
        if harm == 0 && self.rate < f64::from(MESSAGES_PER_SECOND) * RATE_SHARE_MIN {
            return Err(WorkerError::Refused {
                action: format!("send {MESSAGES_PER_SECOND} messages/s"),
                reason: format!("only {:.0} were sent: the machine is too busy", self.rate),
            });
        }
        match harm {
            0 => Ok(self),
            _ => Err(WorkerError::Refused {
                action: "replace a stage without harm".to_owned(),
                reason: format!(
                    "{} messages were lost, {} doubled, {} out of order (waited at most {PATIENCE:?})",
                    self.lost, self.doubled, self.inverted
                ),
            }),
        }
    }
}
