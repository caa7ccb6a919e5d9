//! Components as workers.

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{
    Bodies, Code, CodeInfo, Failure, Incoming, Kind, ReplyTo, Start, Stretch, Turn, Worker,
};
use wasmtime::component::InstancePre;

use crate::bindings::bulk::{Bulk, BulkIndices};
use crate::bindings::worker::hivewire::worker::types;
use crate::bindings::worker::{Worker as World, WorkerIndices};
use crate::data::Data;
use crate::instance::{Instance, Shared};

/// The export that not every worker has.
const HANDLE_BODIES: &str = "handle-bodies";
/// Longer bodies are handed over one by one, where they are copied once less.
const BODY_BYTES_MAX: usize = 1_024;
/// A longer series is handed over message by message, and memory for more is not kept.
const BODIES_BYTES_MAX: usize = 256 << 10;

/// A component that was checked, compiled and linked, ready for instances.
pub struct WorkerCode {
    info: CodeInfo,
    pre: InstancePre<Data>,
    exports: WorkerIndices,
    bulk: Option<BulkIndices>,
    shared: Shared,
}

impl WorkerCode {
    pub(crate) fn new(
        info: CodeInfo,
        pre: InstancePre<Data>,
        shared: Shared,
    ) -> wasmtime::Result<Self> {
        let has_bulk = pre.component().get_export_index(None, HANDLE_BODIES);
        Ok(Self {
            info,
            exports: WorkerIndices::new(&pre)?,
            bulk: has_bulk.map(|_| BulkIndices::new(&pre)).transpose()?,
            pre,
            shared,
        })
    }

    pub(crate) fn make(&self, start: &Start) -> Result<WorkerInstance, Failure> {
        let instance = Instance::new(&self.shared, start, |store| {
            let instance = self.pre.instantiate(&mut *store)?;
            let bulk = self.bulk.as_ref();
            Ok(Exports {
                world: self.exports.load(&mut *store, &instance)?,
                bulk: bulk.map(|bulk| bulk.load(store, &instance)).transpose()?,
            })
        })?;
        Ok(WorkerInstance {
            takes_bodies: self.bulk.is_some(),
            instance,
            bodies: types::Bodies {
                bytes: Vec::new(),
                ends: Vec::new(),
            },
        })
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

/// What a component exports.
struct Exports {
    world: World,
    bulk: Option<Bulk>,
}

/// An instance of a worker's component.
pub(crate) struct WorkerInstance {
    instance: Instance<Exports>,
    takes_bodies: bool,
    /// Memory for the bodies that are handed over at once.
    bodies: types::Bodies,
}

impl WorkerInstance {
    fn handle_all(&mut self, incoming: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        if self.takes_bodies && incoming.iter().all(is_body) {
            let bodies = incoming.iter().map(|incoming| &incoming.message.body[..]);
            bodies.for_each(|body| push(&mut self.bodies, body));
            return self.handle_bodies(turn);
        }
        let pairs = header_pairs(incoming);
        let messages = borrowed(incoming, &pairs);
        self.instance.call_in_turn(
            turn,
            |data| {
                data.at_hand.take(incoming.len());
                let expecting = messages.iter().enumerate();
                for (place, _) in expecting.filter(|(_, message)| message.expects_reply) {
                    data.at_hand.expects(place, answerable(&incoming[place]));
                }
            },
            |exports, store| exports.world.call_handle(store, &messages),
        )
    }

    /// Handles the bodies that were put into its memory.
    fn handle_bodies(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        let bodies = &self.bodies;
        let handled = self.instance.call_in_turn(
            turn,
            |data| data.at_hand.take(bodies.ends.len()),
            |exports, store| match &exports.bulk {
                Some(bulk) => bulk.call_handle_bodies(store, bodies),
                None => Ok(Err(format!("the worker has no `{HANDLE_BODIES}`"))),
            },
        );
        self.bodies.bytes.clear();
        self.bodies.bytes.shrink_to(BODIES_BYTES_MAX);
        self.bodies.ends.clear();
        handled
    }
}

/// Whether a message has nothing but a body, and not a long one.
fn is_body(incoming: &Incoming) -> bool {
    incoming.kind == Kind::Message
        && incoming.tries == 0
        && incoming.message.headers.is_empty()
        && matches!(incoming.reply_to, ReplyTo::Headers)
        && incoming.message.body.len() <= BODY_BYTES_MAX
}

fn push(bodies: &mut types::Bodies, body: &[u8]) {
    bodies.bytes.extend_from_slice(body);
    bodies.ends.push(bodies.bytes.len() as u32);
}

#[async_trait]
impl Worker for WorkerInstance {
    async fn init(&mut self, args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        self.instance
            .call_in_turn(turn, |_| {}, |e, store| e.world.call_init(store, args))
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle_all(std::slice::from_ref(message), turn)
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        self.handle_all(messages, turn)
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        self.takes_bodies && messages.is::<Bodies>() && messages.len_bytes() <= BODIES_BYTES_MAX
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for stretch in series {
            let Some((bodies, range)) = stretch.part_of::<Bodies>() else {
                return Err(Failure::new("a component takes bodies only"));
            };
            range.for_each(|index| push(&mut self.bodies, bodies.get(index)));
        }
        self.handle_bodies(turn)
    }

    async fn save(&mut self) -> Result<Bytes, Failure> {
        let saved = self
            .instance
            .call_outside(|exports, store| exports.world.call_save(store))?;
        Ok(saved.into())
    }

    async fn load(&mut self, snapshot: Bytes) -> Result<(), Failure> {
        self.instance
            .call_outside(|exports, store| exports.world.call_load(store, &snapshot))
    }

    async fn stop(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        self.instance
            .call_in_turn(turn, |_| {}, |e, store| Ok(Ok(e.world.call_stop(store)?)))
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
        // Whoever runs workers keeps it from components, which cannot ask to be woken.
        Kind::Woken => types::Kind::Message,
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
