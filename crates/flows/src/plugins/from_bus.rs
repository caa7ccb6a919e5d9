//! `from-queue` and `from-topic`: events come into the flow over the bus.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bus::{Bus, Delivery, MESSAGE_ID, Receipt, Subscription};
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};
use kernel::{Destination, Name};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::state;
use super::worker::OUT;
use super::{Environment, Outputs, ParameterError};

/// Parameters of `from-queue`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueParameters {
    /// The name of the queue.
    queue: String,
}

/// Parameters of `from-topic`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicParameters {
    /// The name of the topic.
    topic: String,
}

pub(super) struct FromQueue(Receiver);

pub(super) struct FromTopic(Receiver);

struct Receiver {
    bus: Arc<dyn Bus>,
    from: Destination,
    subscription: Option<Box<dyn Subscription>>,
    /// What was emitted and is not acknowledged yet, and the number of the turn that did it.
    pending: Vec<Delivery>,
    turn: u64,
}

const TURN: &[u8] = b"n";
const BATCH_MAX: usize = 500;
const TIMEOUT: Duration = Duration::from_millis(500);
/// Shorter than a call may take.
const WAIT: Duration = Duration::from_millis(300);

impl Receiver {
    fn new(bus: Arc<dyn Bus>, from: Destination) -> Self {
        Self {
            bus,
            from,
            subscription: None,
            pending: Vec::new(),
            turn: 0,
        }
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let committed: u64 = state::load(turn, TURN).await?.unwrap_or(0);
        if committed >= self.turn && !self.pending.is_empty() {
            self.acknowledge().await?;
        }
        if self.pending.is_empty() {
            self.pending = self.next_batch().await?;
        }
        if self.pending.is_empty() {
            return Ok(Provided::More);
        }
        for delivery in &self.pending {
            let mut message = delivery.message.clone();
            message.headers = message.headers.without(|name| name == MESSAGE_ID);
            turn.emit(OUT, message)?;
        }
        self.turn = committed + 1;
        state::store(turn, TURN.to_vec(), &self.turn)?;
        Ok(Provided::More)
    }

    /// The turn that emitted these was committed.
    async fn acknowledge(&mut self) -> Result<(), Failure> {
        let receipts: Vec<Receipt> = self
            .pending
            .iter()
            .map(|delivery| delivery.receipt)
            .collect();
        if let Some(subscription) = &self.subscription {
            subscription.acknowledge(&receipts, TIMEOUT).await?;
        }
        self.pending.clear();
        Ok(())
    }

    async fn next_batch(&mut self) -> Result<Vec<Delivery>, Failure> {
        if self.subscription.is_none() {
            let credit = BATCH_MAX as u32 * 2;
            self.subscription = Some(self.bus.subscribe(&self.from, credit, TIMEOUT).await?);
        }
        match &self.subscription {
            Some(subscription) => Ok(subscription.next_batch(BATCH_MAX, WAIT).await?),
            None => Ok(Vec::new()),
        }
    }
}

fn name(field: &str, text: &str) -> Result<Name, ParameterError> {
    Name::new(text).map_err(|error| ParameterError::new(field, error.to_string()))
}

impl Plugin for FromQueue {
    const ID: &'static str = "from-queue";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Takes messages from a queue.\n\n\
        A message is acknowledged after what it became here is permanent: none is lost. If the node dies in between, the message comes again: \
        at-least-once from the queue, exactly once from here on. To avoid that, let others send to the queue of the first stage instead.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The messages, with their headers.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("New orders", r#"{"queue": "orders.new"}"#)];
    type Parameters = QueueParameters;

    fn new(parameters: QueueParameters, environment: &Environment) -> Result<Self, ParameterError> {
        let queue = Destination::Queue(name("queue", &parameters.queue)?);
        Ok(Self(Receiver::new(environment.bus()?, queue)))
    }

    fn check(parameters: QueueParameters) -> Result<(), ParameterError> {
        name("queue", &parameters.queue).map(drop)
    }
}

impl Plugin for FromTopic {
    const ID: &'static str = "from-topic";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Takes messages from a topic.\n\n\
        It gets what is published while it runs: what comes during a restart or a move is missed, and what it was about to hand on \
        may come twice. Give it one worker, or each gets everything.";
    const OUTPUTS: Outputs = Outputs::Named(&[(OUT, "The messages, with their headers.")]);
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("Prices", r#"{"topic": "prices"}"#)];
    type Parameters = TopicParameters;

    fn new(parameters: TopicParameters, environment: &Environment) -> Result<Self, ParameterError> {
        let topic = Destination::Topic(name("topic", &parameters.topic)?);
        Ok(Self(Receiver::new(environment.bus()?, topic)))
    }

    fn check(parameters: TopicParameters) -> Result<(), ParameterError> {
        name("topic", &parameters.topic).map(drop)
    }
}

#[async_trait]
impl Worker for FromQueue {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("from-queue has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        self.0.provide(turn).await
    }
}

#[async_trait]
impl Worker for FromTopic {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("from-topic has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        self.0.provide(turn).await
    }
}
