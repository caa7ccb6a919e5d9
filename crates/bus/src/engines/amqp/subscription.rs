//! A subscription: a consumer on a channel of its own, made again after each lost connection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_lite::{StreamExt, future};
use kernel::{Destination, Name};
use lapin::message::Delivery as Arrived;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::Queues;
use super::connection::{Connected, Link, refusal};
use super::convert;
use super::publisher::{Publisher, Target};
use crate::contract::Subscription;
use crate::dead_letter::{dead_letter, dead_letters};
use crate::deadline::Deadline;
use crate::delivery::{Delivery, Receipt, Reject};
use crate::engines::held::{Cover, Held};
use crate::error::BusError;

/// How long making the consumer again may take before it is tried anew.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
const OPEN_PAUSE: Duration = Duration::from_millis(200);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The reply code of an orderly end.
const REPLY_SUCCESS: u16 = 200;

/// What arrived, and on which connection.
type Numbered = (u32, Arrived);

/// The consumer of the moment.
#[derive(Default)]
struct Current {
    /// Counts the consumers; what an older one delivered is no longer held.
    generation: u32,
    channel: Option<Channel>,
    queue: Option<ShortString>,
    held: Held,
}

pub(super) struct AmqpSubscription {
    from: Destination,
    queues: Arc<Queues>,
    publisher: Arc<Publisher>,
    current: Arc<Mutex<Current>>,
    arrived: tokio::sync::Mutex<mpsc::Receiver<Numbered>>,
    /// Held while acknowledgements get their place.
    acknowledging: tokio::sync::Mutex<()>,
}

impl AmqpSubscription {
    /// Starts to consume; returns once the consumer is in place.
    pub async fn start(
        from: Destination,
        credit_messages: u32,
        link: Arc<Link>,
        queues: Arc<Queues>,
        publisher: Arc<Publisher>,
        deadline: Deadline,
    ) -> Result<Self, BusError> {
        let credit = u16::try_from(credit_messages).unwrap_or(u16::MAX).max(1);
        let (sender, receiver) = mpsc::channel(usize::from(credit));
        let (started, has_started) = oneshot::channel();
        let current = Arc::new(Mutex::new(Current::default()));
        let feeder = Feeder {
            from: from.clone(),
            credit,
            link,
            queues: queues.clone(),
            current: current.clone(),
            sender,
        };
        tokio::spawn(feeder.run(started));
        match deadline.limit(has_started).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(error),
            Ok(Err(_)) | Err(_) => {
                return Err(deadline.timeout("a subscription", "the server did not answer"));
            }
        }
        Ok(Self {
            from,
            queues,
            publisher,
            current,
            arrived: tokio::sync::Mutex::new(receiver),
            acknowledging: tokio::sync::Mutex::default(),
        })
    }

    /// Takes what is still held of what arrived.
    fn hand_on(&self, arrived: &mut Vec<Numbered>) -> Vec<Delivery> {
        let mut current = self.current.lock();
        let generation = current.generation;
        let mut deliveries = Vec::with_capacity(arrived.len());
        // What came over an older connection is delivered again: the server took it back.
        for (_, one) in arrived.drain(..).filter(|(of, _)| *of == generation) {
            current.held.push(one.delivery_tag);
            deliveries.push(convert::to_delivery(one, generation));
        }
        deliveries
    }

    /// The channel on which these were delivered, how to acknowledge them, and how many are not
    /// held any more.
    fn find(&self, receipts: &[Receipt]) -> (Option<Channel>, Cover, usize) {
        let mut current = self.current.lock();
        let generation = current.generation;
        let is_held = |receipt: &&Receipt| receipt.generation == generation;
        let held: Vec<Receipt> = receipts.iter().filter(is_held).copied().collect();
        let cover = current.held.cover(&held);
        current.held.remove(&held);
        (current.channel.clone(), cover, receipts.len() - held.len())
    }

    /// Publishes a rejected message again, to be retried or as a dead letter.
    async fn publish_rejected(
        &self,
        delivery: &Delivery,
        reject: &Reject,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        let tries = delivery.tries + 1;
        let tries_max = self.queues.declared.tries_max(&self.from);
        let is_retry = matches!(reject, Reject::Retry { .. }) && tries < tries_max;
        let (target, message, tries) = if is_retry {
            (self.own_queue(), delivery.message.clone(), tries)
        } else {
            let reason = match reject {
                Reject::Retry { reason } => format!("{reason} ({tries} tries)"),
                Reject::Dead { reason } => reason.clone(),
            };
            let letter = dead_letter(&self.from, &delivery.message, &reason, tries);
            (
                dead_letters(&self.from).map(|name| Target::queue(&name)),
                letter,
                0,
            )
        };
        let Some(target) = target else {
            tracing::warn!("a dead letter is dropped: {}", reject.reason());
            return Ok(());
        };
        self.publisher
            .publish_again(&target, message, delivery.message_id(), tries, deadline)
            .await
    }

    /// Where a message that is to be tried again goes.
    fn own_queue(&self) -> Option<Target> {
        match &self.from {
            Destination::Queue(name) => Some(Target::queue(name)),
            Destination::Topic(_) => self.current.lock().queue.clone().map(Target::private),
        }
    }
}

#[async_trait]
impl Subscription for AmqpSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let deadline = Deadline::after(timeout);
        let Ok(mut receiver) = deadline.limit(self.arrived.lock()).await else {
            return Ok(Vec::new());
        };
        let mut arrived = Vec::new();
        loop {
            let receiving = receiver.recv_many(&mut arrived, messages_max.max(1));
            match deadline.limit(receiving).await {
                Ok(0) => {
                    let reason = "the subscription has ended with its runtime".into();
                    return Err(BusError::Stopped { reason });
                }
                Ok(_) => {
                    let deliveries = self.hand_on(&mut arrived);
                    if !deliveries.is_empty() {
                        return Ok(deliveries);
                    }
                }
                Err(_) => return Ok(Vec::new()),
            }
        }
    }

    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError> {
        if receipts.is_empty() {
            return Ok(());
        }
        let deadline = Deadline::after(timeout);
        // What covers others must not overtake them: the server closes the channel when a number
        // comes twice.
        let in_order = self.acknowledging.lock().await;
        let (channel, cover, lost) = self.find(receipts);
        if lost < receipts.len() {
            let Some(channel) = channel else {
                let messages = receipts.len();
                return Err(BusError::NotHeld { messages });
            };
            let acknowledging = async {
                let on_their_way = begin_to_acknowledge(&channel, cover).await?;
                drop(in_order);
                for sending in on_their_way {
                    sending.await?;
                }
                lapin::Result::Ok(())
            };
            match deadline.limit(acknowledging).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => {
                    let messages = receipts.len();
                    return Err(BusError::NotHeld { messages });
                }
                Err(_) => return Err(deadline.in_doubt("an acknowledgement", "no answer")),
            }
        }
        match lost {
            0 => Ok(()),
            messages => Err(BusError::NotHeld { messages }),
        }
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        if self.current.lock().generation != delivery.receipt.generation {
            return Err(BusError::NotHeld { messages: 1 });
        }
        self.publish_rejected(delivery, &reject, deadline).await?;
        // If the connection is lost here, both the old and the new one come: at least once.
        self.acknowledge(&[delivery.receipt], timeout).await
    }
}

/// An acknowledgement that has its place and is not written yet.
type Sending<'a> = Pin<Box<dyn Future<Output = lapin::Result<()>> + Send + 'a>>;

/// Gives acknowledgements their place; those that are not written yet are to be waited for.
async fn begin_to_acknowledge(channel: &Channel, cover: Cover) -> lapin::Result<Vec<Sending<'_>>> {
    let (numbers, multiple) = match cover {
        Cover::Through(number) => (vec![number], true),
        Cover::Each(numbers) => (numbers, false),
    };
    let mut on_their_way: Vec<Sending<'_>> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let options = BasicAckOptions { multiple };
        let mut sending = Box::pin(channel.basic_ack(number, options));
        // The first poll queues the frame; waiting for each by itself would be slow.
        match future::poll_once(&mut sending).await {
            Some(sent) => sent?,
            None => on_their_way.push(sending),
        }
    }
    Ok(on_their_way)
}

/// Feeds a subscription from one consumer after another, until the subscription is dropped.
struct Feeder {
    from: Destination,
    credit: u16,
    link: Arc<Link>,
    queues: Arc<Queues>,
    current: Arc<Mutex<Current>>,
    sender: mpsc::Sender<Numbered>,
}

impl Feeder {
    async fn run(self, started: oneshot::Sender<Result<(), BusError>>) {
        let mut started = Some(started);
        let sender = self.sender.clone();
        loop {
            let connected = tokio::select! {
                () = sender.closed() => return,
                connected = self.link.connected_some_time() => connected,
            };
            match tokio::time::timeout(OPEN_TIMEOUT, self.open(&connected)).await {
                Ok(Ok((channel, consumer))) => {
                    if let Some(started) = started.take() {
                        // Nobody listening means that the subscription was given up.
                        let _ = started.send(Ok(()));
                    }
                    self.feed(&channel, consumer).await;
                }
                Ok(Err(error)) => {
                    tracing::warn!(from = %self.from, "cannot subscribe: {error}; trying again");
                    // Later refusals may pass, the first one is told to whoever subscribes.
                    if let Some(refused) = refusal(&error)
                        && let Some(started) = started.take()
                    {
                        let _ = started.send(Err(refused));
                        return;
                    }
                }
                Err(_) => {
                    tracing::warn!(from = %self.from, "cannot subscribe in time; trying again");
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(OPEN_PAUSE) => {}
            }
        }
    }

    /// Makes channel and consumer.
    async fn open(&self, connected: &Connected) -> lapin::Result<(Channel, Consumer)> {
        if let Destination::Queue(name) = &self.from {
            // It may have been deleted since.
            connected.doubt(name);
            let settings = self.queues.declared.settings(name);
            let members = self.queues.quorum_members;
            connected.ensure(name, &settings, members).await?;
        }
        let channel = connected.channel().await?;
        channel
            .basic_qos(self.credit, BasicQosOptions::default())
            .await?;
        let queue = match &self.from {
            Destination::Queue(name) => name.as_str().into(),
            Destination::Topic(name) => private_queue(&channel, name).await?,
        };
        self.begin(&channel, &queue);
        let tag = ShortString::default();
        let consuming = channel.basic_consume(
            queue,
            tag,
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = consuming.await?;
        Ok((channel, consumer))
    }

    /// From now on this channel counts.
    fn begin(&self, channel: &Channel, queue: &ShortString) {
        let mut current = self.current.lock();
        current.generation += 1;
        current.held.clear();
        current.channel = Some(channel.clone());
        current.queue = Some(queue.clone());
    }

    /// Passes on what arrives until the consumer or the subscription ends.
    async fn feed(&self, channel: &Channel, mut consumer: Consumer) {
        let generation = self.current.lock().generation;
        loop {
            let arrived = tokio::select! {
                () = self.sender.closed() => {
                    // Gives everything back at once. An error means that it is closed already.
                    let closing = channel.close(REPLY_SUCCESS, "OK".into());
                    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
                    return;
                }
                arrived = consumer.next() => arrived,
            };
            match arrived {
                Some(Ok(one)) => {
                    // It waits only while what older connections delivered is in the way.
                    if self.sender.send((generation, one)).await.is_err() {
                        continue;
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!(from = %self.from, "the subscription is interrupted: {error}");
                    return;
                }
                None => return,
            }
        }
    }
}

/// A queue that only this channel's connection uses, bound to a topic.
async fn private_queue(channel: &Channel, topic: &Name) -> lapin::Result<ShortString> {
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare("".into(), options, FieldTable::default());
    let queue = declared.await?.name().clone();
    let bound = channel.queue_bind(
        queue.clone(),
        "amq.topic".into(),
        topic.as_str().into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await?;
    Ok(queue)
}
