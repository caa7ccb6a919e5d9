//! Messages into a stage and results out of it, each with its time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{ClusterError, Result};
use crate::drivers::stomp::Stomp;
use crate::drivers::{Client, Closer, Connection, LoadError, Step, consumer, producer};

/// The queue behind the stage.
pub const RESULTS: &str = "results";

/// A run that sends less than that of the rate shows nothing.
const RATE_SHARE_MIN: f64 = 0.95;
/// How long to wait between two batches of messages that are due.
const PAUSE: Duration = Duration::from_millis(1);
/// Messages are lost if nothing has come for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How many messages are sent at once when none is due.
const BATCH: usize = 500;

/// A message that was sent; its number is its place among all of them.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its key.
    pub key: u32,
    /// How many messages of this key there are up to it.
    pub count: u64,
    /// When it was due.
    pub due: Instant,
}

/// A result.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The number of its message.
    pub number: usize,
    /// How many messages of its key the stage has seen.
    pub count: u64,
    /// How many bytes the stage had kept for its key before.
    pub kept: u64,
    /// When it came.
    pub at: Instant,
}

/// The header that a client gives to a message of this key.
pub fn key_name(key: u32) -> String {
    format!("k{key}")
}

/// Sends to a stage.
#[derive(Debug)]
pub struct Sender {
    connection: Connection,
    queue: String,
    counts: Vec<u64>,
    /// Everything that was sent.
    pub sent: Vec<Sent>,
}

impl Sender {
    /// Connects, for keys up to this number.
    pub fn start(address: SocketAddr, stage: &str, keys: u32) -> Result<Self> {
        Ok(Self {
            connection: producer(&Stomp::durable(), address, false)?,
            queue: stage.replace('/', "."),
            counts: vec![0; keys as usize],
            sent: Vec::new(),
        })
    }

    /// Sends one message for each of these keys at once; the stage keeps so many bytes for it from
    /// then on, if any number is given.
    pub fn send_all(&mut self, keys: impl Iterator<Item = u32>, keep: Option<u32>) -> Result<()> {
        let keys: Vec<u32> = keys.collect();
        for some in keys.chunks(BATCH) {
            let now = Instant::now();
            let mut out = Vec::new();
            for key in some {
                self.append(*key, now, keep, &mut out);
            }
            self.connection.write(&out)?;
        }
        Ok(())
    }

    /// Sends so many messages in a second, for one of so many keys after another, while something is
    /// done.
    pub fn while_sending<T>(
        &mut self,
        keys: u32,
        rate: u32,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| self.send_steadily(keys, rate, &stop));
            let done = act();
            stop.store(true, Ordering::SeqCst);
            let panicked = |_| ClusterError::Unexpected("the sender panicked".to_owned());
            sending.join().map_err(panicked)??;
            done
        })
    }

    /// Sends each message when it is due, until it is told to stop.
    fn send_steadily(&mut self, keys: u32, rate: u32, stop: &AtomicBool) -> Result<()> {
        let began = Instant::now();
        let mut number = 0_u32;
        let due =
            |number: u32| began + Duration::from_secs_f64(f64::from(number) / f64::from(rate));
        while !stop.load(Ordering::SeqCst) {
            let now = Instant::now();
            let mut out = Vec::new();
            while due(number) <= now {
                self.append(number % keys, due(number), None, &mut out);
                number += 1;
            }
            self.connection.write(&out)?;
            std::thread::sleep(PAUSE);
        }
        let reached = f64::from(number) / began.elapsed().as_secs_f64();
        match reached >= f64::from(rate) * RATE_SHARE_MIN {
            true => Ok(()),
            false => Err(ClusterError::TooSlow {
                reached,
                wanted: rate,
            }),
        }
    }

    fn append(&mut self, key: u32, due: Instant, keep: Option<u32>, out: &mut Vec<u8>) {
        let number = self.sent.len();
        let count = &mut self.counts[key as usize];
        *count += 1;
        let count = *count;
        self.sent.push(Sent { key, count, due });
        let keep = keep.map_or(String::new(), |bytes| format!("keep:{bytes}\n"));
        let frame = format!(
            "SEND\ndestination:/queue/{}\npersistent:true\nkey:{}\n{keep}\n{number}\0",
            self.queue,
            key_name(key)
        );
        out.extend_from_slice(frame.as_bytes());
    }
}

/// Receives results until it is dropped.
#[derive(Debug)]
pub struct Receiver {
    arrived: Arc<Mutex<Vec<Arrival>>>,
    closer: Closer,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Receiver {
    /// Begins to receive.
    pub fn start(address: SocketAddr) -> Result<Self> {
        let connection = consumer(&Stomp::durable(), address, RESULTS)?;
        let closer = connection.closer()?;
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let into = arrived.clone();
        Ok(Self {
            arrived,
            closer,
            thread: Some(std::thread::spawn(move || receive_all(connection, &into))),
        })
    }

    /// What has come so far.
    fn arrived(&self) -> Vec<Arrival> {
        self.arrived.lock().clone()
    }

    /// Waits until so many results have come, or none for long, and then a little for those that come
    /// twice.
    pub fn wait_for(&self, results: usize) -> Vec<Arrival> {
        let (mut count, mut since) = (0, Instant::now());
        while count < results && since.elapsed() < SILENCE_MAX {
            std::thread::sleep(Duration::from_millis(10));
            let now = self.arrived.lock().len();
            if now != count {
                (count, since) = (now, Instant::now());
            }
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(200));
        self.arrived()
    }

    /// Ends it; fails if it could not go on until now.
    pub fn finish(mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended_early = thread.is_finished();
        self.closer.close();
        match thread.join() {
            Ok(ended) if ended_early => ended,
            Ok(_) => Ok(()),
            Err(_) => Err(ClusterError::Unexpected("the receiver panicked".to_owned())),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.closer.close();
    }
}

fn receive_all(mut connection: Connection, into: &Mutex<Vec<Arrival>>) -> Result<()> {
    let client = Stomp::durable();
    connection.set_wait_timeout(super::PATIENCE)?;
    loop {
        let now = Instant::now();
        while let Step::Done(length, body) =
            client.read_message(connection.unread(), &mut Vec::new())?
        {
            if let Some(body) = body {
                into.lock().push(parse(body, now)?);
            }
            connection.consume(length);
        }
        connection.fill("waiting for results")?;
    }
}

/// Reads a result: the number of the message, the count of its key, the bytes kept.
fn parse(body: &[u8], at: Instant) -> Result<Arrival> {
    let text = String::from_utf8_lossy(body);
    let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[number, count, kept]) => Ok(Arrival {
            number: number as usize,
            count,
            kept,
            at,
        }),
        _ => Err(LoadError::WrongDelivery(format!("{text:?} is no result")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let arrival = parse(b"7:2:2048", Instant::now()).expect("a result");
        assert_eq!((arrival.number, arrival.count, arrival.kept), (7, 2, 2048));
        for wrong in [&b"7:2"[..], b"7:2:x", b"", b"1:2:3:4"] {
            assert!(parse(wrong, Instant::now()).is_err());
        }
    }
}
