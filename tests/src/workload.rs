//! Producers and consumers that go on through crashes and write down what they saw.
//!
//! [`Workload`] runs them as threads over STOMP. A producer that lost its connection repeats
//! what was not acknowledged, under the same ids; a consumer subscribes again. In the end
//! [`drain`] takes what is still stored, so that the [`oracle`](crate::oracle) can judge.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::oracle::{Log, MessageId};
use crate::stomp_client::{AckMode, Stomp, StompError, TIMEOUT};

const RECONNECT_PAUSE: Duration = Duration::from_millis(5);
const LOOK_UP: Duration = Duration::from_millis(20);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether messages ask to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Sent with `persistent:true`: acknowledged once synced.
    Durable,
    /// Sent without: acknowledged once in memory.
    Transient,
}

/// What one producer does.
#[derive(Clone, Debug)]
pub struct Production {
    /// Its number, which its messages carry.
    pub sender: u32,
    /// Where it sends to, such as `/queue/orders`.
    pub destination: String,
    /// Whether its messages ask to survive.
    pub durability: Durability,
    /// How many messages may wait for their acknowledgement.
    pub window: usize,
    /// How large bodies are at most; they vary.
    pub body_bytes_max: usize,
    /// How many messages it sends in all.
    pub messages_max: u64,
}

impl Production {
    /// Durable messages of up to 500 bytes without end, 20 at a time.
    pub fn new(sender: u32, destination: &str) -> Self {
        Self {
            sender,
            destination: destination.to_owned(),
            durability: Durability::Durable,
            window: 20,
            body_bytes_max: 500,
            messages_max: u64::MAX,
        }
    }
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
    stop_producers: AtomicBool,
    stop_consumers: AtomicBool,
    acknowledged: AtomicU64,
    received: AtomicU64,
}

/// Producers and consumers that run until they are stopped.
pub struct Workload {
    address: SocketAddr,
    shared: Arc<Shared>,
    producers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Workload {
    /// A workload on this STOMP address, without anybody in it yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            shared: Arc::default(),
            producers: Vec::new(),
            consumers: Vec::new(),
        }
    }

    /// Adds a producer.
    pub fn produce(&mut self, production: Production) {
        let mut producer = Producer {
            address: self.address,
            shared: self.shared.clone(),
            production,
            next_sequence: 1,
            waiting: VecDeque::new(),
        };
        self.producers
            .push(std::thread::spawn(move || producer.run()));
    }

    /// Adds a consumer that acknowledges each message by itself.
    pub fn consume(&mut self, consumer: u32, destination: &str) {
        let consumer = Consumer {
            address: self.address,
            shared: self.shared.clone(),
            number: consumer,
            destination: destination.to_owned(),
        };
        self.consumers
            .push(std::thread::spawn(move || consumer.run()));
    }

    /// How many messages were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// How many messages were received so far.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Whether every producer has sent all it had to and was told so.
    pub fn producers_are_done(&self) -> bool {
        self.producers.iter().all(JoinHandle::is_finished)
    }

    /// Stops producers, then consumers, and gives what they wrote down.
    pub fn stop(mut self) -> Log {
        self.shared.stop_producers.store(true, Ordering::Relaxed);
        join_all(std::mem::take(&mut self.producers));
        self.shared.stop_consumers.store(true, Ordering::Relaxed);
        join_all(std::mem::take(&mut self.consumers));
        std::mem::take(&mut *self.shared.log.lock())
    }
}

/// A test that failed must not leave clients behind that try to reach its broker for ever.
impl Drop for Workload {
    fn drop(&mut self) {
        self.shared.stop_producers.store(true, Ordering::Relaxed);
        self.shared.stop_consumers.store(true, Ordering::Relaxed);
    }
}

fn join_all(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a client thread panicked");
    }
}

/// A message that was sent, with the receipt that will acknowledge it once it is under way.
struct Waiting {
    id: MessageId,
    receipt: Option<String>,
}

struct Producer {
    address: SocketAddr,
    shared: Arc<Shared>,
    production: Production,
    next_sequence: u64,
    waiting: VecDeque<Waiting>,
}

impl Producer {
    fn run(&mut self) {
        while !self.is_done() {
            let Ok(mut client) = Stomp::connect(self.address) else {
                std::thread::sleep(RECONNECT_PAUSE);
                continue;
            };
            // Whatever went wrong, the next connection repeats what was not acknowledged.
            let _ = self.produce(&mut client);
            for waiting in &mut self.waiting {
                waiting.receipt = None;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.shared.stop_producers.load(Ordering::Relaxed)
    }

    fn is_done(&self) -> bool {
        let sent_all = self.next_sequence > self.production.messages_max;
        self.stopped() || (sent_all && self.waiting.is_empty())
    }

    fn produce(&mut self, client: &mut Stomp) -> Result<(), StompError> {
        while !self.is_done() {
            self.fill_window();
            self.send_waiting(client)?;
            match client.next_receipt(LOOK_UP) {
                Ok(receipt) => self.acknowledge(&receipt),
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
        self.collect_last_receipts(client)
    }

    fn fill_window(&mut self) {
        while self.waiting.len() < self.production.window
            && self.next_sequence <= self.production.messages_max
        {
            let id = MessageId {
                sender: self.production.sender,
                sequence: self.next_sequence,
            };
            self.next_sequence += 1;
            self.waiting.push_back(Waiting { id, receipt: None });
        }
    }

    fn send_waiting(&mut self, client: &mut Stomp) -> Result<(), StompError> {
        let headers: &[(&str, &str)] = match self.production.durability {
            Durability::Durable => &[("persistent", "true")],
            Durability::Transient => &[],
        };
        for waiting in &mut self.waiting {
            if waiting.receipt.is_some() {
                continue;
            }
            let spread = self.production.body_bytes_max.max(1);
            let length = (waiting.id.sequence as usize * 7919) % spread;
            let body = waiting.id.body(length);
            self.shared.log.lock().sent(waiting.id);
            let destination = &self.production.destination;
            waiting.receipt = Some(client.send_with_receipt(destination, headers, &body)?);
        }
        Ok(())
    }

    fn acknowledge(&mut self, receipt: &str) {
        let receipt = Some(receipt);
        let found = self
            .waiting
            .iter()
            .position(|waiting| waiting.receipt.as_deref() == receipt);
        let Some(waiting) = found.and_then(|at| self.waiting.remove(at)) else {
            return;
        };
        self.shared.log.lock().acknowledged(waiting.id);
        self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// Receipts that are on their way when the producer stops are promises as well.
    fn collect_last_receipts(&mut self, client: &mut Stomp) -> Result<(), StompError> {
        while self.waiting.iter().any(|waiting| waiting.receipt.is_some()) {
            let receipt = client.next_receipt(LOOK_UP)?;
            self.acknowledge(&receipt);
        }
        Ok(())
    }
}

struct Consumer {
    address: SocketAddr,
    shared: Arc<Shared>,
    number: u32,
    destination: String,
}

impl Consumer {
    fn run(&self) {
        while !self.stopped() {
            let Ok(mut client) = Stomp::connect(self.address) else {
                std::thread::sleep(RECONNECT_PAUSE);
                continue;
            };
            // Whatever went wrong, the next connection goes on.
            let _ = self.consume(&mut client);
        }
    }

    fn stopped(&self) -> bool {
        self.shared.stop_consumers.load(Ordering::Relaxed)
    }

    fn consume(&self, client: &mut Stomp) -> Result<(), StompError> {
        client.subscribe("c", &self.destination, AckMode::ClientIndividual, &[])?;
        while !self.stopped() {
            match client.next_message(LOOK_UP) {
                Ok(message) => {
                    let redelivered = message.is_redelivered();
                    let mut log = self.shared.log.lock();
                    log.received_body(self.number, &message.body, redelivered);
                    drop(log);
                    self.shared.received.fetch_add(1, Ordering::Relaxed);
                    client.ack(&message)?;
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Takes everything that a queue still holds and writes it down as received by `consumer`.
///
/// A last message marks the end, so nobody has to guess whether more would come. All other
/// consumers of the queue must have gone, and the broker must know it.
pub fn drain(
    address: SocketAddr,
    destination: &str,
    consumer: u32,
    log: &mut Log,
) -> Result<(), StompError> {
    let end = Instant::now() + DRAIN_TIMEOUT;
    let mut client = Stomp::connect(address)?;
    let mark = format!("the end {:x}", fastrand::u128(..)).into_bytes();
    client.send_durable(destination, &mark)?;
    client.subscribe("drain", destination, AckMode::ClientIndividual, &[])?;
    loop {
        if Instant::now() > end {
            return Err(StompError::Timeout(DRAIN_TIMEOUT));
        }
        let message = client.next_message(TIMEOUT)?;
        if message.body == mark {
            return client.ack_confirmed(&message);
        }
        // Marks of drains that were cut short are nobody's messages.
        if !message.body.starts_with(b"the end ") {
            log.received_body(consumer, &message.body, message.is_redelivered());
        }
        client.ack(&message)?;
    }
}
