//! Measures what calls and instances of a component cost: `calls FILE.wasm [whole|dense [CACHE]]`.
//!
//! Times are those of the processor where the system tells them, so that a busy machine shows
//! nearly the same.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_lite::future::block_on;
use kernel::worker::{
    Code, Failure, Host as TurnHost, Incoming, InstanceLimits, LogLevel, Start, Ticket, Turn,
    TurnLimits, Worker,
};
use kernel::{Address, Message, StageAddress, Timestamp};
use wasm::{Host, Settings};

const TIME: Duration = Duration::from_millis(500);
const BODY_BYTES: usize = 128;

/// Allows everything and keeps nothing.
struct Anything;

#[async_trait]
impl TurnHost for Anything {
    async fn state(&self, _key: &[u8]) -> Result<Option<Bytes>, Failure> {
        Ok(None)
    }

    async fn scan(
        &self,
        _prefix: &[u8],
        _after: Option<&[u8]>,
        _pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        Ok(Vec::new())
    }

    fn may_send(&self, _to: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, _output: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn next_ticket(&self) -> Ticket {
        1
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0)
    }

    fn log(&self, _level: LogLevel, _line: &str) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("name the file of a component")?;
    let bytes = std::fs::read(&path)?;
    let mut settings = match std::env::args().nth(2).as_deref() {
        Some("dense") => Settings::dense(),
        _ => Settings::default(),
    };
    if let Some(folder) = std::env::args().nth(3) {
        settings.cache_folder = Some(folder.into());
    }
    let start = Instant::now();
    let host = Host::new(settings)?;
    println!("{:>12.1} ms to set up the host", millis(start));
    let start = Instant::now();
    let code = host.load(&bytes)?;
    println!("{:>12.1} ms to load {} bytes", millis(start), bytes.len());

    let mut turn = Turn::new(Arc::new(Anything), TurnLimits::default());
    per_instance(&*code, &mut turn)?;
    for count in [1, 8, 64, 512] {
        per_message(&*code, &mut turn, count)?;
    }
    resident(&*code, &mut turn, &host)
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn instance(code: &dyn Code, turn: &mut Turn) -> Result<Box<dyn Worker>, Box<dyn Error>> {
    let start = Start {
        address: StageAddress::new("shop", "orders")?.worker(0),
        limits: InstanceLimits {
            memory_bytes_max: 256 << 20,
            call_ms_max: 10_000,
            ..InstanceLimits::default()
        },
    };
    let mut worker = code.instantiate(&start).map_err(|failure| failure.reason)?;
    block_on(worker.init(b"", turn)).map_err(|failure| failure.reason)?;
    turn.clear();
    Ok(worker)
}

fn per_instance(code: &dyn Code, turn: &mut Turn) -> Result<(), Box<dyn Error>> {
    let (start, work) = (Instant::now(), Work::start());
    let mut count = 0;
    while start.elapsed() < TIME {
        instance(code, turn)?;
        count += 1;
    }
    let micros = work.nanos() / 1e3 / f64::from(count);
    println!("{micros:>12.1} µs for an instance with init, and its end");
    Ok(())
}

fn per_message(code: &dyn Code, turn: &mut Turn, count: usize) -> Result<(), Box<dyn Error>> {
    let mut worker = instance(code, turn)?;
    let message = Incoming::new(Message::new(vec![b'x'; BODY_BYTES]));
    let messages = vec![message; count];
    for _ in 0..100 {
        block_on(worker.handle(&messages, turn)).map_err(|failure| failure.reason)?;
        turn.clear();
    }
    let (start, work) = (Instant::now(), Work::start());
    let mut handled = 0;
    while start.elapsed() < TIME {
        for _ in 0..100 {
            block_on(worker.handle(&messages, turn)).map_err(|failure| failure.reason)?;
            turn.clear();
            handled += count;
        }
    }
    let nanos = work.nanos() / handled as f64;
    println!("{nanos:>12.0} ns a message of {BODY_BYTES} bytes, {count} in a call");
    Ok(())
}

/// As many instances as there may be, all at once.
fn resident(code: &dyn Code, turn: &mut Turn, host: &Host) -> Result<(), Box<dyn Error>> {
    let before = resident_bytes();
    let work = Work::start();
    let mut workers = Vec::new();
    let mut refused = None;
    while workers.len() < host.settings().instances_max as usize {
        match instance(code, turn) {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let bytes = resident_bytes().saturating_sub(before) / workers.len().max(1);
    let micros = work.nanos() / 1e3 / workers.len() as f64;
    println!(
        "{:>12} instances at once, {bytes} bytes and {micros:.1} µs each",
        workers.len()
    );
    if let Some(error) = refused {
        println!("             then: {error}");
    }
    Ok(())
}

/// What this thread has worked since.
struct Work {
    on_processor: Option<f64>,
    start: Instant,
}

impl Work {
    fn start() -> Self {
        Self {
            on_processor: nanos_on_processor(),
            start: Instant::now(),
        }
    }

    fn nanos(&self) -> f64 {
        match (self.on_processor, nanos_on_processor()) {
            (Some(start), Some(now)) => now - start,
            _ => self.start.elapsed().as_secs_f64() * 1e9,
        }
    }
}

/// How long this thread has been on a processor, on Linux.
fn nanos_on_processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Memory of this process, on Linux.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}
