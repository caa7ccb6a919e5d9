//! `to-queue` and `to-topic`: events leave the flow over the bus.

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use kernel::{Address, Headers, Message, Name};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::{Environment, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `to-queue`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueParameters {
    /// The name of the queue.
    queue: String,
}

/// Parameters of `to-topic`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicParameters {
    /// The name of the topic.
    topic: String,
}

pub(super) struct ToQueue(Sender);

pub(super) struct ToTopic(Sender);

struct Sender {
    to: Address,
    headers: Headers,
}

impl Sender {
    fn new(to: Address) -> Result<Self, ParameterError> {
        let headers = Headers::from_pairs([("content-type", "application/json")]);
        let headers = headers.map_err(|error| ParameterError::general(error.to_string()))?;
        Ok(Self { to, headers })
    }

    fn send(&self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let message = Message::new(event.encode()).with_headers(self.headers.clone());
        turn.send(self.to.clone(), message)
    }
}

fn name(field: &str, text: &str) -> Result<Name, ParameterError> {
    Name::new(text).map_err(|error| ParameterError::new(field, error.to_string()))
}

impl Plugin for ToQueue {
    const ID: &'static str = "to-queue";
    const DESCRIPTION: &'static str = "Sends each event to a queue, as JSON.\n\n\
        Sending belongs to the turn: each event is sent once if the flow changes its state exactly once.";
    const OUTPUTS: Outputs = Outputs::None;
    const CAPABILITIES: &'static [&'static str] = &["send:queue:*"];
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("Orders to pack", r#"{"queue": "orders.to-pack"}"#)];
    type Parameters = QueueParameters;

    fn new(parameters: QueueParameters, _: &Environment) -> Result<Self, ParameterError> {
        let to = Address::Queue(name("queue", &parameters.queue)?);
        Sender::new(to).map(Self)
    }

    fn check(parameters: QueueParameters) -> Result<(), ParameterError> {
        name("queue", &parameters.queue).map(drop)
    }
}

impl Plugin for ToTopic {
    const ID: &'static str = "to-topic";
    const DESCRIPTION: &'static str = "Sends each event to a topic, as JSON.\n\n\
        Whoever has subscribed gets it. Sending belongs to the turn: each event is sent once if the flow changes its state exactly once.";
    const OUTPUTS: Outputs = Outputs::None;
    const CAPABILITIES: &'static [&'static str] = &["send:topic:*"];
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("Prices for everybody", r#"{"topic": "prices"}"#)];
    type Parameters = TopicParameters;

    fn new(parameters: TopicParameters, _: &Environment) -> Result<Self, ParameterError> {
        let to = Address::Topic(name("topic", &parameters.topic)?);
        Sender::new(to).map(Self)
    }

    fn check(parameters: TopicParameters) -> Result<(), ParameterError> {
        name("topic", &parameters.topic).map(drop)
    }
}

#[async_trait]
impl Worker for ToQueue {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.0.send(message, turn)
    }
}

#[async_trait]
impl Worker for ToTopic {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.0.send(message, turn)
    }
}
