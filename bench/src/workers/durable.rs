//! A durable queue, read by a worker that commits or by a plain consumer that acknowledges.
//!
//! Both get their messages from the same publishers over the same kind of journal in this process,
//! so that the difference is what the worker costs and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bus::{Bus, Subscription};
use kernel::Destination;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use runtime::StageSpec;
use tokio::task::JoinSet;

use super::native::message;
use super::rig::stage;
use super::{PATIENCE, Result, Rig, Tally, number_of, refused};

const PUBLISHERS: u32 = 10;
/// Together with the number of publishers a window of 1,000 messages without a promise.
const BATCH_MESSAGES: u32 = 100;
const CREDIT_MESSAGES: u32 = 4_096;
const KEYS: u32 = 1_024;

/// What the worker does with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// It writes nothing.
    Nothing,
    /// It writes one key of its state.
    OneKey,
}

struct Sink {
    tally: Tally,
    writes: Writes,
}

#[async_trait]
impl Worker for Sink {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let body = &message.message.body;
        if self.writes == Writes::OneKey {
            let number = number_of(body);
            let key = (number % KEYS).to_be_bytes().to_vec();
            turn.set_state(key, number.to_be_bytes().to_vec())?;
        }
        self.tally.take(body);
        Ok(())
    }
}

fn sink(tally: Tally, writes: Writes) -> Arc<dyn Code> {
    native("sink", "1", move |_| Sink {
        tally: tally.clone(),
        writes,
    })
}

/// Through a durable queue into one worker. How long it took until the last message was handled.
pub fn worker(messages: u32, writes: Writes) -> Result<Duration> {
    let rig = Rig::durable()?;
    let (tally, verdict) = Tally::unordered(messages);
    rig.deploy(StageSpec::new(stage()), sink(tally, writes))?;
    let bus = rig.bus.clone();
    rig.in_task(async move {
        let began = Instant::now();
        publish(bus, messages).await?;
        Ok(verdict.wait().await? - began)
    })
}

/// Through a durable queue to one consumer that acknowledges. How long it took until the last
/// message was acknowledged.
pub fn consumer(messages: u32) -> Result<Duration> {
    let rig = Rig::durable()?;
    let (tally, verdict) = Tally::unordered(messages);
    let bus = rig.bus.clone();
    rig.in_task(async move {
        let queue = Destination::Queue(stage().queue());
        let subscription = bus.subscribe(&queue, CREDIT_MESSAGES, PATIENCE).await;
        let subscription = subscription.map_err(refused("subscribe"))?;
        let consumer = tokio::spawn(consume(subscription, tally, messages));
        let began = Instant::now();
        publish(bus, messages).await?;
        verdict.wait().await?;
        let ended = consumer.await.map_err(refused("consume"))??;
        Ok(ended - began)
    })
}

async fn consume(
    subscription: Box<dyn Subscription>,
    mut tally: Tally,
    messages: u32,
) -> Result<Instant> {
    let mut received = 0;
    while received < messages {
        let batch = subscription.next_batch(CREDIT_MESSAGES as usize, PATIENCE);
        let batch = batch.await.map_err(refused("consume"))?;
        let receipts: Vec<_> = batch.iter().map(|delivery| delivery.receipt).collect();
        for delivery in &batch {
            tally.take(&delivery.message.body);
        }
        received += batch.len() as u32;
        let acknowledged = subscription.acknowledge(&receipts, PATIENCE).await;
        acknowledged.map_err(refused("acknowledge"))?;
    }
    Ok(Instant::now())
}

/// Publishes from several tasks, each of which waits for the promise for its last batch.
async fn publish(bus: Arc<dyn Bus>, messages: u32) -> Result<()> {
    let mut publishers = JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let bus = bus.clone();
        publishers.spawn(async move {
            let queue = Destination::Queue(stage().queue());
            let numbers: Vec<u32> = (publisher..messages).step_by(PUBLISHERS as usize).collect();
            for batch in numbers.chunks(BATCH_MESSAGES as usize) {
                let mut batch: Vec<_> = batch.iter().map(|number| message(*number)).collect();
                let published = bus.publish(&queue, &mut batch, PATIENCE).await;
                published.map_err(refused("publish"))?;
            }
            Ok(())
        });
    }
    while let Some(published) = publishers.join_next().await {
        published.map_err(refused("publish"))??;
    }
    Ok(())
}
