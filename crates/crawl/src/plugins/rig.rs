//! Runs one plug-in that handles each event by itself, for tests. Every event that goes in is held, and every one that comes out
//! has to be.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::author::{HandlesEach, Plugin};
use flows::plugins::{Environment, Outputs};
use flows::{Event, Hold};
use kernel::worker::{Failure, Host, Incoming, LogLevel, Target, Ticket, Turn, TurnLimits};
use kernel::{Address, Message, Timestamp};
use serde_json::{Value, json};

struct Nobody(Vec<&'static str>);

#[async_trait]
impl Host for Nobody {
    async fn state(&self, _: &[u8]) -> Result<Option<Bytes>, Failure> {
        Ok(None)
    }

    async fn scan(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        Ok(Vec::new())
    }

    fn may_send(&self, _: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        match self.0.contains(&output) {
            true => Ok(()),
            false => Err(Failure::new(format!("there is no output {output}"))),
        }
    }

    fn next_ticket(&self) -> Ticket {
        1
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000)
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// A plug-in in the hands of a test.
pub(super) struct Rig<P>(P);

impl<P: Plugin + HandlesEach> Rig<P> {
    pub fn new(parameters: &str) -> Self {
        let parameters = serde_json::from_str(parameters).unwrap();
        let plugin = P::new(parameters, &Environment::default());
        Self(plugin.unwrap())
    }

    /// What comes out: lists of output and event.
    pub fn handle(mut self, event: Value) -> Value {
        let turn = self.turn(event).unwrap();
        turn.into()
    }

    /// What goes wrong.
    pub fn failure(mut self, event: Value) -> String {
        self.turn(event).unwrap_err().reason
    }

    fn turn(&mut self, event: Value) -> Result<Vec<Value>, Failure> {
        let mut turn = turn_of::<P>();
        let event = Event::parse(event.to_string().as_bytes()).unwrap();
        let held = event.held_by(Hold::new(Arc::new(())));
        self.0.each(&message(held), &mut turn)?;
        Ok(emitted(turn))
    }
}

/// A turn in which a plug-in may emit to its outputs.
pub(super) fn turn_of<P: Plugin>() -> Turn {
    let Outputs::Named(outputs) = P::OUTPUTS else {
        panic!("it has no outputs");
    };
    let outputs = outputs.iter().map(|(name, _)| *name).collect();
    Turn::new(Arc::new(Nobody(outputs)), TurnLimits::default())
}

/// An event as it comes.
pub(super) fn message(event: Event) -> Incoming {
    let mut message = Incoming::new(Message::default());
    message.value = Some(Arc::new(event));
    message
}

/// What came out: lists of output and event. All of it has to be held.
pub(super) fn emitted(mut turn: Turn) -> Vec<Value> {
    let effects = turn.take_effects();
    let names: Vec<String> = effects.output_names().map(str::to_owned).collect();
    let sent = effects.spread().sends.into_iter().map(|sent| {
        let Target::Output(output) = sent.to else {
            panic!("it sent something past its outputs");
        };
        let value: Arc<dyn Any + Send + Sync> = sent.value.unwrap();
        let event: Arc<Event> = value.downcast().unwrap();
        assert!(event.hold().is_some(), "the hold was not passed on");
        let data: Value = serde_json::from_slice(&kernel::worker::Value::encode(&*event)).unwrap();
        json!([names[output as usize], data])
    });
    sent.collect()
}
