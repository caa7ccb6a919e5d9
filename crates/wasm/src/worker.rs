//! Components as workers.

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Code, CodeInfo, Failure, Incoming, Kind, Start, Turn, Worker};

use crate::bindings::worker::hivewire::worker::types;
use crate::bindings::worker::{Worker as World, WorkerPre};
use crate::data::Data;
use crate::instance::{Instance, Shared};

/// A component that was checked, compiled and linked, ready for instances.
pub struct WorkerCode {
    info: CodeInfo,
    pre: WorkerPre<Data>,
    shared: Shared,
}

impl WorkerCode {
    pub(crate) fn new(info: CodeInfo, pre: WorkerPre<Data>, shared: Shared) -> Self {
        Self { info, pre, shared }
    }

    pub(crate) fn make(&self, start: &Start) -> Result<WorkerInstance, Failure> {
        Instance::new(&self.shared, start, |store| self.pre.instantiate(store)).map(WorkerInstance)
    }
}

impl std::fmt::Debug for WorkerCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerCode")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Code for WorkerCode {
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn instantiate(&self, start: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new(self.make(start)?))
    }
}

/// An instance of a worker's component.
pub(crate) struct WorkerInstance(Instance<World>);

impl WorkerInstance {
    fn handle_all(&mut self, incoming: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let pairs = header_pairs(incoming);
        let messages = borrowed(incoming, &pairs);
        self.0.call_in_turn(
            turn,
            |data| {
                let expecting = messages.iter().map(|message| message.expects_reply);
                let answers = incoming.iter().zip(expecting);
                data.answerable.extend(
                    answers.map(|(incoming, expects)| expects.then(|| answerable(incoming))),
                );
            },
            |world, store| world.call_handle(store, &messages),
        )
    }
}

#[async_trait]
impl Worker for WorkerInstance {
    async fn init(&mut self, args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        self.0
            .call_in_turn(turn, |_| {}, |world, store| world.call_init(store, args))
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle_all(std::slice::from_ref(message), turn)
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        self.handle_all(messages, turn)
    }

    async fn save(&mut self) -> Result<Bytes, Failure> {
        let saved = self.0.call_outside(|world, store| world.call_save(store))?;
        Ok(saved.into())
    }

    async fn load(&mut self, snapshot: Bytes) -> Result<(), Failure> {
        self.0
            .call_outside(|world, store| world.call_load(store, &snapshot))
    }

    async fn stop(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        self.0
            .call_in_turn(turn, |_| {}, |world, store| Ok(Ok(world.call_stop(store)?)))
    }
}

/// The headers of all messages, one after another.
pub(crate) fn header_pairs(incoming: &[Incoming]) -> Vec<(&str, &str)> {
    incoming
        .iter()
        .flat_map(|incoming| incoming.message.headers.iter())
        .collect()
}

/// The messages as the component sees them, without a copy of anything.
pub(crate) fn borrowed<'a>(
    incoming: &'a [Incoming],
    pairs: &'a [(&'a str, &'a str)],
) -> Vec<types::Message<'a>> {
    let mut pairs = pairs;
    let message = |incoming: &'a Incoming| {
        let count = incoming.message.headers.iter().count();
        let (headers, rest) = pairs.split_at(count);
        pairs = rest;
        types::Message {
            body: &incoming.message.body,
            headers,
            kind: kind(&incoming.kind),
            expects_reply: incoming.expects_reply(),
            tries: incoming.tries,
        }
    };
    incoming.iter().map(message).collect()
}

fn kind(kind: &Kind) -> types::Kind<'_> {
    match kind {
        Kind::Message => types::Kind::Message,
        Kind::Reply(ticket) => types::Kind::Reply(*ticket),
        Kind::TimedOut(ticket) => types::Kind::TimedOut(*ticket),
        Kind::Timer(name) => types::Kind::Timer(name),
        Kind::ChildEnded(name) => types::Kind::ChildEnded(name),
    }
}

/// What is needed to answer a message: all but its body.
fn answerable(incoming: &Incoming) -> Incoming {
    Incoming {
        message: kernel::Message::default().with_headers(incoming.message.headers.clone()),
        value: None,
        kind: Kind::Message,
        reply_to: incoming.reply_to.clone(),
        tries: incoming.tries,
    }
}
