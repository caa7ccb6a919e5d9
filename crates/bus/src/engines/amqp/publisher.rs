//! Publishing with confirmation, repeated until confirmed or out of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_lite::future;
use kernel::{Destination, Message, Name};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation};

use super::Queues;
use super::connection::{Connected, Link, refusal};
use super::convert;
use crate::capabilities::AckLevel;
use crate::deadline::Deadline;
use crate::delivery::MESSAGE_ID;
use crate::error::BusError;

/// How many messages are on their way unconfirmed in one call.
const UNCONFIRMED_MESSAGES_MAX: usize = 512;
/// Pause before a publish is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);

const TOPICS_EXCHANGE: &str = "amq.topic";

/// Where to publish.
pub(super) struct Target {
    exchange: ShortString,
    routing_key: ShortString,
    /// The queue that has to exist, if it is not a private one.
    queue: Option<Name>,
}

impl Target {
    pub fn of(destination: &Destination) -> Result<Self, BusError> {
        match destination {
            Destination::Queue(name) => Ok(Self::queue(name)),
            Destination::Topic(name) => {
                // These two would stand for any words when subscribing.
                if name
                    .as_str()
                    .split('.')
                    .any(|word| word == "*" || word == "#")
                {
                    let reason = format!(
                        "a topic cannot be called {name} here: choose a name without the words * and #"
                    );
                    return Err(BusError::Refused { reason });
                }
                Ok(Self {
                    exchange: TOPICS_EXCHANGE.into(),
                    routing_key: name.as_str().into(),
                    queue: None,
                })
            }
        }
    }

    pub fn queue(name: &Name) -> Self {
        Self {
            exchange: "".into(),
            routing_key: name.as_str().into(),
            queue: Some(name.clone()),
        }
    }

    /// The private queue of a topic's subscriber.
    pub fn private(queue: ShortString) -> Self {
        Self {
            exchange: "".into(),
            routing_key: queue,
            queue: None,
        }
    }

    fn is_topic(&self) -> bool {
        self.exchange.as_str() == TOPICS_EXCHANGE
    }
}

/// A message on its way, under the id that it keeps however often it is sent.
struct Outgoing {
    message: Message,
    id: String,
    tries: u32,
    confirmed: bool,
}

/// What came of sending once.
enum Round {
    /// All are confirmed, which is worth this much.
    Done(AckLevel),
    /// Something is missing, for this reason; trying again can help.
    Again(String),
    Refused(BusError),
}

/// Publishes on one channel after another.
pub(super) struct Publisher {
    link: Arc<Link>,
    queues: Arc<Queues>,
    channel: tokio::sync::Mutex<Option<(Arc<Connected>, Channel)>>,
    /// Ids are this and a number, so that they differ between processes and restarts.
    id_start: String,
    next_id: AtomicU64,
}

impl Publisher {
    pub fn new(link: Arc<Link>, queues: Arc<Queues>) -> Self {
        Self {
            link,
            queues,
            channel: tokio::sync::Mutex::default(),
            id_start: format!("{:032x}", fastrand::u128(..)),
            next_id: AtomicU64::new(0),
        }
    }

    fn outgoing(&self, message: Message, tries: u32) -> Outgoing {
        let id = match message.headers.get(MESSAGE_ID) {
            Some(id) => id.to_owned(),
            None => {
                let number = self.next_id.fetch_add(1, Ordering::Relaxed);
                format!("{}-{number:x}", self.id_start)
            }
        };
        Outgoing {
            message,
            id,
            tries,
            confirmed: false,
        }
    }

    /// Publishes a batch in order; what is not confirmed stays in it, with its id as a header.
    pub async fn publish(
        &self,
        target: &Target,
        batch: &mut Vec<Message>,
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let outgoing = batch.drain(..).map(|message| self.outgoing(message, 0));
        let mut outgoing: Vec<Outgoing> = outgoing.collect();
        let outcome = self.send_all(target, &mut outgoing, deadline).await;
        if outcome.is_err() {
            let unconfirmed = outgoing.into_iter().filter(|one| !one.confirmed);
            batch.extend(unconfirmed.map(with_id));
        }
        outcome
    }

    /// Publishes one message that was tried before, under the id that it had.
    pub async fn publish_again(
        &self,
        target: &Target,
        message: Message,
        id: Option<&str>,
        tries: u32,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        let mut outgoing = self.outgoing(message, tries);
        if let Some(id) = id {
            outgoing.id = id.to_owned();
        }
        self.send_all(target, &mut [outgoing], deadline).await?;
        Ok(())
    }

    async fn send_all(
        &self,
        target: &Target,
        outgoing: &mut [Outgoing],
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let mut level = AckLevel::Memory;
        // Sending the next ones only after these keeps the order whatever is repeated.
        for some in outgoing.chunks_mut(UNCONFIRMED_MESSAGES_MAX) {
            level = self.send_until_confirmed(target, some, deadline).await?;
        }
        Ok(level)
    }

    async fn send_until_confirmed(
        &self,
        target: &Target,
        outgoing: &mut [Outgoing],
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let mut sent = false;
        let mut reason = None;
        while !deadline.is_over() {
            let attempt = self.attempt(target, outgoing, &mut sent);
            let round = deadline.limit(attempt).await;
            match round {
                Ok(Round::Done(level)) => return Ok(level),
                Ok(Round::Refused(error)) => return Err(error),
                Ok(Round::Again(why)) => reason = Some(why),
                Err(_) => {}
            }
            // After a failure nothing of before is trusted.
            *self.channel.lock().await = None;
            // An error means that the time is up, which ends the loop.
            let _ = deadline.limit(tokio::time::sleep(REPEAT_PAUSE)).await;
        }
        let trouble = self.link.trouble().or(reason);
        let reason = trouble.unwrap_or_else(|| "no answer".into());
        Err(match sent {
            true => deadline.in_doubt("a publish", reason),
            false => deadline.timeout("a publish", reason),
        })
    }

    /// Sends once on whatever connection there is.
    async fn attempt(&self, target: &Target, outgoing: &mut [Outgoing], sent: &mut bool) -> Round {
        let connected = self.link.connected_some_time().await;
        let (channel, level) = match self.prepare(target, &connected).await {
            Ok(prepared) => prepared,
            Err(error) => return retry_or_refuse(&error),
        };
        *sent = true;
        match send(&channel, target, outgoing).await {
            Ok(()) => Round::Done(level),
            Err(round) => {
                // The queue may have been deleted.
                if let Some(queue) = &target.queue {
                    connected.doubt(queue);
                }
                round
            }
        }
    }

    /// The channel to publish on, with the queue in place; and what a confirmation is worth.
    async fn prepare(
        &self,
        target: &Target,
        connected: &Arc<Connected>,
    ) -> lapin::Result<(Channel, AckLevel)> {
        let mut level = AckLevel::Memory;
        if let Some(queue) = &target.queue {
            let wanted = self.queues.declared.settings(queue);
            let members = self.queues.quorum_members;
            if connected.ensure(queue, &wanted, members).await? {
                level = self.queues.durable_level();
            }
        }
        let mut current = self.channel.lock().await;
        if let Some((on, channel)) = &*current
            && Arc::ptr_eq(on, connected)
            && channel.status().connected()
        {
            return Ok((channel.clone(), level));
        }
        let channel = connected.channel().await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        *current = Some((connected.clone(), channel.clone()));
        Ok((channel, level))
    }
}

/// Sends what is not confirmed yet, in order, and waits for the confirmations.
async fn send(channel: &Channel, target: &Target, outgoing: &mut [Outgoing]) -> Result<(), Round> {
    let options = BasicPublishOptions {
        // A queue that is missing is told; a topic without subscribers is all right.
        mandatory: !target.is_topic(),
        ..BasicPublishOptions::default()
    };
    let mut on_their_way = Vec::with_capacity(outgoing.len());
    for one in outgoing.iter_mut().filter(|one| !one.confirmed) {
        let properties = convert::to_properties(&one.message, &one.id, one.tries);
        let body = one.message.body.clone();
        let (exchange, routing_key) = (target.exchange.clone(), target.routing_key.clone());
        let mut sending = Box::pin(async move {
            let sent = channel.basic_publish(exchange, routing_key, options, &body, properties);
            sent.await?.await
        });
        // The first poll queues the frames, so the order holds although nobody waits here.
        let first = future::poll_once(&mut sending).await;
        on_their_way.push((one, sending, first));
    }
    let mut problem = Ok(());
    for (one, sending, first) in on_their_way {
        let confirmation = match first {
            Some(confirmation) => confirmation,
            None => sending.await,
        };
        match judge(confirmation) {
            Ok(()) => one.confirmed = true,
            Err(round) if problem.is_ok() => problem = Err(round),
            Err(_) => {}
        }
    }
    problem
}

fn judge(confirmation: lapin::Result<Confirmation>) -> Result<(), Round> {
    match confirmation {
        Ok(Confirmation::Ack(None)) => Ok(()),
        Ok(Confirmation::Ack(Some(_))) => Err(Round::Again("the queue was missing".into())),
        Ok(_) => Err(Round::Again("the server could not take it".into())),
        Err(error) => Err(retry_or_refuse(&error)),
    }
}

fn retry_or_refuse(error: &lapin::Error) -> Round {
    match refusal(error) {
        Some(refused) => Round::Refused(refused),
        None => Round::Again(error.to_string()),
    }
}

/// The message with its id as a header, so that its sender can repeat it under that id.
fn with_id(outgoing: Outgoing) -> Message {
    let headers = outgoing
        .message
        .headers
        .with([(MESSAGE_ID, outgoing.id.as_str())]);
    match headers {
        Ok(headers) => outgoing.message.with_headers(headers),
        // No room for another header; the repeated one gets a new id.
        Err(_) => outgoing.message,
    }
}
