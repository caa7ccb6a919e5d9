//! The load itself, whatever the protocol.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};

use super::Outcome;

/// Sent together; larger writes are no faster.
const WRITE_BYTES: usize = 64 << 10;
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// What takes longer than an hour is counted as an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;
/// At the start of each body stands when it was sent, in so many hexadecimal digits.
const STAMP_BYTES: usize = 16;

/// A connection that publishes.
pub(super) trait Producer: Send {
    /// Adds a message to what is to be sent. Says how many bytes that is by now.
    fn push(&mut self, body: &[u8]) -> anyhow::Result<usize>;
    /// Sends it.
    fn flush(&mut self) -> anyhow::Result<()>;
    /// Reads confirmations once; says how many messages are unconfirmed.
    fn read_confirmations(&mut self) -> anyhow::Result<usize>;
    /// How many messages are unconfirmed as far as is known.
    fn unconfirmed(&self) -> usize;
}

/// A connection that is subscribed.
pub(super) trait Consumer: Send {
    /// Waits a little for deliveries and hands each body to `each`.
    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> anyhow::Result<()>;
}

/// How connections are made.
pub(super) struct Endpoints {
    pub producer: Box<dyn Fn() -> anyhow::Result<Box<dyn Producer>>>,
    pub consumer: Box<dyn Fn() -> anyhow::Result<Box<dyn Consumer>>>,
}

/// How much is sent, and how.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub messages: u64,
    pub body_bytes: usize,
    pub producers: usize,
    pub consumers: usize,
    pub window: usize,
}

/// What all threads look at.
struct Shared {
    load: Load,
    start: Instant,
    received: AtomicU64,
    /// When the last message came, in nanoseconds from the start.
    last_nanos: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.received.load(Ordering::Relaxed) >= self.load.messages
    }
}

impl Load {
    pub fn run(self, endpoints: &Endpoints, show_progress: bool) -> anyhow::Result<Outcome> {
        // All are connected before the clock starts.
        let consumers: Vec<_> = (0..self.consumers)
            .map(|_| (endpoints.consumer)())
            .collect::<anyhow::Result<_>>()?;
        let producers: Vec<_> = (0..self.producers)
            .map(|_| (endpoints.producer)())
            .collect::<anyhow::Result<_>>()?;
        let shared = Shared {
            load: self,
            start: Instant::now(),
            received: AtomicU64::new(0),
            last_nanos: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let consuming: Vec<_> = consumers
                .into_iter()
                .map(|consumer| scope.spawn(|| guarded(&shared, || consume(&shared, consumer))))
                .collect();
            let producing: Vec<_> = producers
                .into_iter()
                .enumerate()
                .map(|(index, producer)| {
                    let shared = &shared;
                    scope.spawn(move || guarded(shared, || produce(shared, index, producer)))
                })
                .collect();
            let watched = watch(&shared, show_progress);
            producing.into_iter().try_for_each(joined)?;
            let mut latency_us = new_histogram();
            for consumer in consuming {
                latency_us.add(joined(consumer)?)?;
            }
            watched?;
            let elapsed = Duration::from_nanos(shared.last_nanos.load(Ordering::Relaxed));
            Ok(Outcome {
                elapsed,
                latency_us,
            })
        })
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_US_MAX, 3).expect("three digits are allowed")
}

/// Tells all others when this one fails.
fn guarded<T>(shared: &Shared, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let result = work();
    if result.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    result
}

fn joined<T>(handle: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    let result = handle.join();
    result.unwrap_or_else(|_| Err(anyhow!("a part of the benchmark panicked")))
}

/// Shows progress until everything has arrived, or nothing arrives any more.
fn watch(shared: &Shared, show_progress: bool) -> anyhow::Result<()> {
    let bar = if show_progress {
        ProgressBar::new(shared.load.messages)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {per_sec}") {
        bar.set_style(style);
    }
    let (mut last, mut changed) = (0, Instant::now());
    let mut stalled = false;
    while !shared.is_over() && !stalled {
        thread::sleep(WATCH_EVERY);
        let received = shared.received.load(Ordering::Relaxed);
        if received != last {
            (last, changed) = (received, Instant::now());
        }
        bar.set_position(received);
        stalled = changed.elapsed() > STALL_TIMEOUT;
    }
    bar.finish_and_clear();
    if stalled {
        shared.failed.store(true, Ordering::Relaxed);
        bail!(
            "nothing arrived for {STALL_TIMEOUT:?}: {last} of {} messages came",
            shared.load.messages
        );
    }
    Ok(())
}

fn produce(shared: &Shared, index: usize, mut producer: Box<dyn Producer>) -> anyhow::Result<()> {
    let load = shared.load;
    let share = share_of(load.messages, load.producers as u64, index as u64);
    let mut body = vec![b'x'; load.body_bytes];
    // gamq's bodies end in a line feed.
    body[load.body_bytes - 1] = b'\n';
    for _ in 0..share {
        stamp(&mut body, shared.start.elapsed());
        let pushed_bytes = producer.push(&body)?;
        if pushed_bytes >= WRITE_BYTES || producer.unconfirmed() >= load.window {
            producer.flush()?;
            wait_for_confirmations(shared, producer.as_mut(), load.window)?;
        }
    }
    producer.flush()?;
    wait_for_confirmations(shared, producer.as_mut(), 1)
}

/// Waits until fewer than `below` messages are unconfirmed.
fn wait_for_confirmations(
    shared: &Shared,
    producer: &mut dyn Producer,
    below: usize,
) -> anyhow::Result<()> {
    let end = Instant::now() + STALL_TIMEOUT;
    while producer.unconfirmed() >= below {
        if shared.failed.load(Ordering::Relaxed) {
            bail!("another connection failed");
        }
        if Instant::now() > end {
            bail!("nothing was confirmed for {STALL_TIMEOUT:?}");
        }
        producer.read_confirmations()?;
    }
    Ok(())
}

fn share_of(messages: u64, producers: u64, index: u64) -> u64 {
    messages / producers + u64::from(index < messages % producers)
}

fn consume(shared: &Shared, mut consumer: Box<dyn Consumer>) -> anyhow::Result<Histogram<u64>> {
    let mut latency_us = new_histogram();
    while !shared.is_over() {
        let mut count = 0;
        consumer.receive(&mut |body| {
            count += 1;
            if let Some(sent) = stamp_of(body) {
                let latency = shared.start.elapsed().saturating_sub(sent);
                latency_us.saturating_record(latency.as_micros() as u64);
            }
        })?;
        if count > 0 {
            let now = shared.start.elapsed().as_nanos() as u64;
            shared.last_nanos.fetch_max(now, Ordering::Relaxed);
            shared.received.fetch_add(count, Ordering::Relaxed);
        }
    }
    Ok(latency_us)
}

fn stamp(body: &mut [u8], time: Duration) {
    let mut nanos = time.as_nanos() as u64;
    for digit in body[..STAMP_BYTES].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(nanos & 15) as usize];
        nanos >>= 4;
    }
}

fn stamp_of(body: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(body.get(..STAMP_BYTES)?).ok()?;
    u64::from_str_radix(text, 16).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back() {
        let mut body = [b'x'; 20];
        let time = Duration::from_nanos(1_234_567_890_123);
        stamp(&mut body, time);
        assert_eq!(stamp_of(&body), Some(time));
        assert_eq!(&body[16..], b"xxxx");
        assert_eq!(stamp_of(b"short"), None);
    }

    #[test]
    fn shares_add_up() {
        let shares: Vec<u64> = (0..3).map(|index| share_of(11, 3, index)).collect();
        assert_eq!(shares, [4, 4, 3]);
    }
}
