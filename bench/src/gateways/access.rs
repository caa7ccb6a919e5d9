//! What the measuring side has to do with the broker itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::store::MessageId;
use bus::{Bus, Delivery, QueueSettings};
use kernel::{Destination, Headers, Message, Name};
use tokio::runtime::Runtime;

use super::census::{Census, body};
use crate::peers::hivewire::QueueLengths;
use crate::relays::amqp::Keeper;
use crate::workers::{PATIENCE, Result, WorkerError, refused};

const FILL_MESSAGES: usize = 1_000;
const DRAIN_MESSAGES: u32 = 4_096;
/// How long a subscription stays after its last acknowledgement, and is waited for after its end.
const SETTLE: Duration = Duration::from_millis(100);

/// Looks at the length of queues.
pub enum Lengths {
    /// Of RabbitMQ.
    RabbitMq(Box<Keeper>),
    /// Of a Hivewire broker.
    Hivewire(QueueLengths),
}

/// A connection to the broker beside those of the gateways.
pub struct Access {
    bus: Arc<dyn Bus>,
    lengths: Lengths,
    tokio: Runtime,
}

impl Access {
    /// Over this bus, which belongs to these threads.
    pub fn new(bus: Arc<dyn Bus>, lengths: Lengths, tokio: Runtime) -> Self {
        Self {
            bus,
            lengths,
            tokio,
        }
    }

    /// How many messages wait in a queue.
    pub fn length(&self, queue: &Name) -> Result<u32> {
        match &self.lengths {
            Lengths::RabbitMq(keeper) => self.tokio.block_on(keeper.length(queue)),
            Lengths::Hivewire(lengths) => {
                let length = lengths.messages(queue.as_str());
                length.map_err(refused("look at a queue"))
            }
        }
    }

    /// Makes the queue of a stage.
    pub fn declare(&self, queue: &Name) -> Result<()> {
        let settings = QueueSettings::default();
        let declared = self.bus.declare(queue, &settings, PATIENCE);
        self.tokio
            .block_on(declared)
            .map_err(refused("declare a queue"))
    }

    /// Puts so many messages into a queue, numbered as another stage would: the sender must be a new
    /// one each time.
    pub fn fill(&self, queue: &Name, sender: &str, messages: u32, bytes: usize) -> Result<()> {
        let to = Destination::Queue(queue.clone());
        let numbers: Vec<u32> = (0..messages).collect();
        for numbers in numbers.chunks(FILL_MESSAGES) {
            let batch = numbers.iter().map(|n| numbered(sender, *n, bytes));
            let mut batch = batch.collect::<Result<_>>()?;
            let published = self.bus.publish(&to, &mut batch, PATIENCE);
            let published = self.tokio.block_on(published);
            published.map_err(refused("fill a queue"))?;
        }
        Ok(())
    }

    /// Takes everything out of a queue; each message must be there once, and nothing else.
    pub fn drain(&self, queue: &Name, messages: u32) -> Result<()> {
        let mut census = Census::of(messages);
        self.take(queue, messages, |one| census.take(&one.message.body))?;
        census.judge()?;
        // A busy RabbitMQ forgets acknowledgements when their subscription ends. What comes again then
        // is marked; anything else is one too many.
        let mut doubled = 0;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.length(queue)? {
                0 => return Ok(()),
                _ if Instant::now() > deadline => {
                    return Err(WorkerError::TooLate {
                        what: "that a queue is empty".to_owned(),
                    });
                }
                again => self.take(queue, again, |one| doubled += u32::from(!one.redelivered))?,
            }
            if doubled > 0 {
                return Err(WorkerError::Wrong {
                    wrong: doubled,
                    messages,
                });
            }
        }
    }

    fn take(&self, queue: &Name, messages: u32, each: impl FnMut(&Delivery)) -> Result<()> {
        self.tokio.block_on(self.take_all(queue, messages, each))
    }

    async fn take_all(
        &self,
        queue: &Name,
        messages: u32,
        mut each: impl FnMut(&Delivery),
    ) -> Result<()> {
        let from = Destination::Queue(queue.clone());
        let subscription = self.bus.subscribe(&from, DRAIN_MESSAGES, PATIENCE).await;
        let subscription = subscription.map_err(refused("subscribe"))?;
        let mut received = 0;
        while received < messages {
            let batch = subscription.next_batch(DRAIN_MESSAGES as usize, PATIENCE);
            let batch = batch.await.map_err(refused("drain a queue"))?;
            if batch.is_empty() {
                break;
            }
            let receipts: Vec<_> = batch.iter().map(|delivery| delivery.receipt).collect();
            batch.iter().for_each(&mut each);
            received += batch.len() as u32;
            let acknowledged = subscription.acknowledge(&receipts, PATIENCE).await;
            acknowledged.map_err(refused("acknowledge"))?;
        }
        // So long until the server has passed on what was acknowledged, mostly.
        tokio::time::sleep(SETTLE).await;
        drop(subscription);
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }
}

fn numbered(sender: &str, number: u32, bytes: usize) -> Result<Message> {
    let id = MessageId::Ours {
        sender: format!("{sender}.1.1"),
        number: u64::from(number) + 1,
    };
    let id = id.to_string();
    let headers = Headers::from_pairs([(bus::MESSAGE_ID, id.as_str())]);
    let headers = headers.map_err(refused("number a message"))?;
    Ok(Message::new(body(number, bytes)).with_headers(headers))
}
