//! Counts events by key, and takes its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Code, CodeInfo, Failure, Incoming, Start, Turn, Worker, native};

use super::emitter::Tick;
use super::log::Log;

/// After so many events a worker waits once.
const EVENTS_PER_WAIT: u32 = 100;

/// What all workers of a counting stage share.
#[derive(Clone)]
pub struct Counting {
    /// How long a worker waits once in a hundred events: that is its service time, without using a core.
    pub wait: Option<Duration>,
    /// How late events were.
    pub log: Arc<Log>,
    /// Events that were not the next of their key.
    pub wrong: Arc<AtomicU64>,
}

/// The code of a worker that counts.
pub fn code(counting: Counting) -> Arc<dyn Code> {
    let info = native("count", "1", |_: &Start| Nobody).info().clone();
    Arc::new(CounterCode { info, counting })
}

struct Nobody;

#[async_trait]
impl Worker for Nobody {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }
}

struct CounterCode {
    info: CodeInfo,
    counting: Counting,
}

impl Code for CounterCode {
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn takes_values(&self) -> bool {
        true
    }

    fn instantiate(&self, _: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new(Counter {
            counting: self.counting.clone(),
            since_wait: 0,
        }))
    }
}

struct Counter {
    counting: Counting,
    since_wait: u32,
}

#[async_trait]
impl Worker for Counter {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for message in messages {
            let Some(tick) = message.value::<Tick>() else {
                return Err(Failure::new("this is no event of the emitter"));
            };
            self.take_time().await;
            let count = match counts.get(&tick.key) {
                Some(count) => *count,
                None => read(turn, tick.key).await?,
            };
            if count != tick.number {
                self.counting.wrong.fetch_add(1, Ordering::Relaxed);
            }
            counts.insert(tick.key, tick.number + 1);
            let log = &self.counting.log;
            log.add(tick.due_micros, log.now_micros());
        }
        for (key, count) in counts {
            let key = Bytes::copy_from_slice(&key.to_be_bytes());
            turn.set_state(key, Bytes::copy_from_slice(&count.to_be_bytes()))?;
        }
        Ok(())
    }
}

impl Counter {
    async fn take_time(&mut self) {
        self.since_wait += 1;
        if self.since_wait < EVENTS_PER_WAIT {
            return;
        }
        self.since_wait = 0;
        if let Some(wait) = self.counting.wait {
            tokio::time::sleep(wait).await;
        }
    }
}

async fn read(turn: &Turn, key: u64) -> Result<u64, Failure> {
    let kept = turn.state(&key.to_be_bytes()).await?;
    let count = kept.and_then(|kept| Some(u64::from_be_bytes(kept[..].try_into().ok()?)));
    Ok(count.unwrap_or_default())
}
