//! The contract of a worker: what its code offers, and what it may do during a turn.
//!
//! Code written in Rust and linked in implements [`Worker`] directly; `wasm` implements it for
//! components. Whoever runs workers sees no difference.

mod emitted;
mod failure;
mod incoming;
mod series;
mod turn;
#[cfg(test)]
mod turn_tests;
mod value;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use emitted::{Emitted, Row};
pub use failure::{Failure, FailureKind};
pub use incoming::{Answer, Incoming, Kind, ReplyTo, Ticket, Wake};
pub use series::{Bodies, Item, Series, Stretch};
pub use turn::{
    Ask, ChildChange, Effects, Host, LogLevel, Outgoing, Target, TimerChange, Turn, TurnLimits,
};
pub use value::{KeyAt, Value};

use crate::WorkerAddress;
use crate::descriptor::PluginKind;

/// One instance of a worker's code. It sees one batch at a time and shares nothing.
///
/// What it does during a turn goes through the [`Turn`] and happens when the turn is committed: if
/// the turn fails, none of it does.
#[async_trait]
pub trait Worker: Send {
    /// Called once, before anything else, with the arguments that the stage was deployed with. A
    /// provider sets its first timer here.
    async fn init(&mut self, _args: &[u8], _turn: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    /// Handles one message.
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure>;

    /// Handles several messages, in order and of one bucket if the stage is keyed. If it fails,
    /// all of it is undone and the messages come again one by one.
    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            self.receive(message, turn).await?;
        }
        Ok(())
    }

    /// Whether it handles these messages together, by [`Worker::handle_series`]; otherwise each comes by itself.
    fn takes_series(&self, _messages: &Stretch) -> bool {
        false
    }

    /// As [`Worker::handle`] for messages that came together, if it [takes](Worker::takes_series) all of them so. If it
    /// fails they come again one by one, as any others.
    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for item in series.iter().flat_map(Stretch::items) {
            self.receive(&item.into(), turn).await?;
        }
        Ok(())
    }

    /// Makes the next events of a [provider](PluginKind::Provider): a turn without messages, which is
    /// committed before the next one begins. It is called again and again, so it should make some hundreds
    /// of events at most each time, and keep its position in the state so that it goes on from there after a
    /// restart. It may wait for what comes from outside, for less than the time that a call may take.
    async fn provide(&mut self, _turn: &mut Turn) -> Result<Provided, Failure> {
        Ok(Provided::Done)
    }

    /// What the next version, or this one after a pause, needs to go on: everything the instance
    /// keeps in its memory. Empty if there is nothing.
    async fn save(&mut self) -> Result<Bytes, Failure> {
        Ok(Bytes::new())
    }

    /// Takes over what was saved. Called after [`Worker::init`] and only if it was not empty.
    async fn load(&mut self, _snapshot: Bytes) -> Result<(), Failure> {
        Ok(())
    }

    /// Called before the worker is stopped for good.
    async fn stop(&mut self, _turn: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }
}

/// What a provider wants after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provided {
    /// It has more, at once.
    More,
    /// It has more, or looks again, after so long.
    After(Duration),
    /// It has nothing more; messages and timers still come to it.
    Done,
}

/// The code of a worker, from which instances are made.
pub trait Code: Send + Sync {
    /// What it says about itself.
    fn info(&self) -> &CodeInfo;

    /// Whether its workers look at [`Incoming::value`] before they look at a body. To others a value comes
    /// as a body.
    fn takes_values(&self) -> bool {
        false
    }

    /// Makes an instance. It may take long and block; [`Worker::init`] has not been called yet.
    fn instantiate(&self, start: &Start) -> Result<Box<dyn Worker>, Failure>;
}

/// What a new instance has to know from the beginning.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its address.
    pub address: WorkerAddress,
    /// What it may use up.
    pub limits: InstanceLimits,
}

/// What code says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeInfo {
    /// The name of the plug-in.
    pub name: String,
    /// Its version, as its author numbers it.
    pub version: String,
    /// SHA-256 of the component in hexadecimal digits; for native code a name of its type.
    pub digest: String,
    /// Whether it is linked in; otherwise it is a component.
    pub native: bool,
    /// Whether it has an input.
    #[serde(default)]
    pub kind: PluginKind,
    /// The outputs that it emits to.
    pub outputs: Vec<String>,
    /// What it asks to be granted, as [`crate::Grant`] writes it.
    pub capabilities: Vec<String>,
}

/// What one instance may use up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InstanceLimits {
    /// Memory of a component instance.
    pub memory_bytes_max: usize,
    /// How long one call may take.
    pub call_ms_max: u64,
    /// How often one call may call back into the host.
    pub host_calls_max: u32,
}

impl Default for InstanceLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 64 << 20,
            call_ms_max: 1_000,
            host_calls_max: 100_000,
        }
    }
}

/// Native code of this name, of which `make` makes the instances.
pub fn native<F, W>(name: &str, version: &str, make: F) -> Arc<dyn Code>
where
    F: Fn(&Start) -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    let info = CodeInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        digest: format!("{}@{version}", std::any::type_name::<W>()),
        native: true,
        kind: PluginKind::Processor,
        outputs: Vec::new(),
        capabilities: Vec::new(),
    };
    Arc::new(NativeCode { info, make })
}

/// A function that makes instances.
struct NativeCode<F> {
    info: CodeInfo,
    make: F,
}

impl<F, W> Code for NativeCode<F>
where
    F: Fn(&Start) -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn instantiate(&self, start: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new((self.make)(start)))
    }
}
