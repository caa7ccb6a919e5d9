//! Relays: everything that waits in one queue goes on to another one, and nothing is lost.
//!
//! A [`stage`] does it with a worker that commits, the bare relays ([`amqp`], [`stomp`]) do what a
//! program without Hivewire would: consume, publish confirmed, acknowledge. The queues are of the same
//! kind, and so is the number of messages that may be unacknowledged.
//!
//! The input is filled before. While the relay runs, only the length of the output is looked at, so
//! that nobody who receives takes part in the figure. Afterwards every message must be there once.

pub mod amqp;
pub mod stage;
pub mod stomp;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::store::MessageId;
use bus::{Bus, QueueSettings};
use kernel::{Destination, Headers, Message, Name, StageAddress};

use crate::workers::native::message;
use crate::workers::{PATIENCE, Result, Tally, WorkerError, refused};

/// How many messages a relay may have unacknowledged: as many as a stage of one worker.
pub const PREFETCH_COUNT: u16 = 4_096;

const FLOW: &str = "relay";
const LOOK_EVERY: Duration = Duration::from_millis(5);
const FILL_MESSAGES: usize = 1_000;
const DRAIN_MESSAGES: usize = 4_096;

/// Where messages come from and where they go.
#[derive(Clone, Debug)]
pub struct Queues {
    /// The stage whose queue is the input.
    pub stage: StageAddress,
    /// The output.
    pub output: Name,
}

impl Queues {
    /// The queues of this name.
    pub fn named(name: &str) -> Result<Self> {
        let output = format!("{FLOW}-{name}-output");
        Ok(Self {
            stage: StageAddress::new(FLOW, name).map_err(refused("name a stage"))?,
            output: Name::new(&output).map_err(refused("name a queue"))?,
        })
    }

    /// The input.
    pub fn input(&self) -> Name {
        self.stage.queue()
    }
}

/// A relay that runs.
pub trait Running {
    /// Ends it, once it has acknowledged what it has moved.
    fn stop(self: Box<Self>, tokio: &tokio::runtime::Runtime) -> Result<()>;
}

/// Where the messages of the input come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From another stage, whose commits number what they send.
    Stage,
    /// From a client, each with an id of which nothing is known.
    Client,
}

impl Origin {
    fn message(self, queues: &Queues, number: u32) -> Result<Message> {
        let message = message(number);
        if self == Self::Client {
            return Ok(message);
        }
        let id = MessageId::Ours {
            sender: format!("{}.1.1", queues.output),
            number: u64::from(number) + 1,
        };
        let id = id.to_string();
        let headers = Headers::from_pairs([(bus::MESSAGE_ID, id.as_str())]);
        Ok(message.with_headers(headers.map_err(refused("number a message"))?))
    }
}

/// Makes both queues and puts so many messages into the input.
pub async fn fill(
    bus: &Arc<dyn Bus>,
    queues: &Queues,
    origin: Origin,
    messages: u32,
) -> Result<()> {
    let settings = QueueSettings::default();
    for queue in [queues.input(), queues.output.clone()] {
        let declared = bus.declare(&queue, &settings, PATIENCE);
        declared.await.map_err(refused("declare a queue"))?;
    }
    let input = Destination::Queue(queues.input());
    let numbers: Vec<u32> = (0..messages).collect();
    for numbers in numbers.chunks(FILL_MESSAGES) {
        let batch = numbers.iter().map(|n| origin.message(queues, *n));
        let mut batch = batch.collect::<Result<_>>()?;
        let published = bus.publish(&input, &mut batch, PATIENCE).await;
        published.map_err(refused("fill a queue"))?;
    }
    Ok(())
}

/// Looks at the length of the output until all messages are there. Gives how many arrived per second
/// from the first look that found some.
pub fn watch(messages: u32, length: impl FnMut() -> Result<u32>) -> Result<f64> {
    watch_every(LOOK_EVERY, messages, length)
}

/// As before, with this pause between two looks.
pub fn watch_every(
    pause: Duration,
    messages: u32,
    mut length: impl FnMut() -> Result<u32>,
) -> Result<f64> {
    let began = Instant::now();
    let mut first = None;
    while began.elapsed() < PATIENCE {
        let (now, found) = (Instant::now(), length()?);
        let (since, before) = match first {
            Some(first) => first,
            None if found > 0 => *first.insert((now, found)),
            None => (now, 0),
        };
        if found >= messages {
            return Ok(f64::from(found - before) / (now - since).as_secs_f64());
        }
        std::thread::sleep(pause);
    }
    Err(WorkerError::TooLate {
        what: "the arrival of the last message".to_owned(),
    })
}

/// Fails if more or less than all messages are in the output.
pub fn expect_length(messages: u32, length: u32) -> Result<()> {
    match length.abs_diff(messages) {
        0 => Ok(()),
        wrong => Err(WorkerError::Wrong { wrong, messages }),
    }
}

/// Takes everything out of the output; each message must be there once, and nothing else.
pub async fn drain(bus: &Arc<dyn Bus>, queues: &Queues, messages: u32) -> Result<()> {
    let output = Destination::Queue(queues.output.clone());
    let subscription = bus.subscribe(&output, u32::from(PREFETCH_COUNT), PATIENCE);
    let subscription = subscription.await.map_err(refused("subscribe"))?;
    let (mut tally, verdict) = Tally::unordered(messages);
    let mut received = 0;
    while received < messages {
        let batch = subscription.next_batch(DRAIN_MESSAGES, PATIENCE).await;
        let batch = batch.map_err(refused("drain a queue"))?;
        let receipts: Vec<_> = batch.iter().map(|delivery| delivery.receipt).collect();
        batch.iter().for_each(|one| tally.take(&one.message.body));
        received += batch.len() as u32;
        let acknowledged = subscription.acknowledge(&receipts, PATIENCE).await;
        acknowledged.map_err(refused("acknowledge"))?;
    }
    verdict.wait().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_numbers_what_it_sends_and_a_client_does_not() {
        let queues = Queues::named("x").unwrap();
        let of_stage = Origin::Stage.message(&queues, 6).unwrap();
        let id = of_stage.headers.get(bus::MESSAGE_ID).map(MessageId::parse);
        assert!(matches!(id, Some(MessageId::Ours { number: 7, .. })));
        let of_client = Origin::Client.message(&queues, 6).unwrap();
        assert_eq!(of_client, message(6));
    }

    #[test]
    fn the_rate_counts_from_the_first_look_that_finds_some() {
        let mut lengths = [0, 0, 10, 30, 110].into_iter();
        let began = Instant::now();
        let rate = watch(110, || Ok(lengths.next().unwrap())).unwrap();
        let at_least = 100.0 / began.elapsed().as_secs_f64();
        let at_most = 100.0 / (2 * LOOK_EVERY).as_secs_f64();
        assert!((at_least..=at_most).contains(&rate), "{rate}");
        assert_eq!(lengths.next(), None);
    }
}
