//! What the macros `worker!` and `router!` put into an author's crate. Not for use by hand.

use std::cell::RefCell;

pub use crate::bindings::router::Guest as RouterExports;
pub use crate::bindings::router::export_router;
pub use crate::bindings::worker::Guest as WorkerExports;
pub use crate::bindings::worker::export_worker;
pub use crate::bindings::worker::hivewire::worker::types::Bodies;
pub use crate::bindings::worker::hivewire::worker::types::Message as RawMessage;
pub use crate::bindings::{router, worker};

use crate::bindings::worker::hivewire::worker::surroundings;
use crate::{Candidate, Context, Failure, Level, Message, Router, Worker};

/// Memory of more messages, and of longer bodies, is not kept.
const KEPT_MAX: usize = 1_024;
const KEPT_BYTES_MAX: usize = 1_024;

/// The one instance of a worker in its component, and what it needs for its turns.
#[derive(Default)]
pub struct WorkerInstance<W>(RefCell<Inner<W>>);

#[derive(Default)]
struct Inner<W> {
    worker: W,
    context: Context,
    /// Messages that have nothing but a body; their memory serves turn after turn.
    plain: Vec<Message>,
}

impl<W: Worker> WorkerInstance<W> {
    pub fn init(&self, args: &[u8]) -> Result<(), String> {
        std::panic::set_hook(Box::new(|panic| {
            surroundings::log(Level::Error, &panic.to_string());
        }));
        self.turn(|inner| inner.worker.init(args, &mut inner.context))
    }

    pub fn handle(&self, messages: Vec<RawMessage>) -> Result<(), String> {
        self.turn(|inner| {
            let turn = inner.context.turn();
            let messages: Vec<Message> = messages
                .into_iter()
                .zip(0..)
                .map(|(message, index)| Message::new(message, turn, index))
                .collect();
            inner.worker.handle(&messages, &mut inner.context)
        })
    }

    pub fn handle_bodies(&self, bodies: &Bodies) -> Result<(), String> {
        self.turn(|inner| {
            let turn = inner.context.turn();
            let count = bodies.ends.len();
            let known = inner.plain.len();
            let new = (known..count).map(|index| Message::empty(turn, index as u32));
            inner.plain.extend(new);
            let mut begin = 0;
            for (message, end) in inner.plain.iter_mut().zip(&bodies.ends) {
                let end = *end as usize;
                message.renew(&bodies.bytes[begin..end], turn);
                begin = end;
            }
            let handled = inner
                .worker
                .handle(&inner.plain[..count], &mut inner.context);
            inner.plain.truncate(KEPT_MAX);
            let handled_ones = inner.plain.iter_mut().take(count);
            handled_ones.for_each(|message| message.forget_more_than(KEPT_BYTES_MAX));
            handled
        })
    }

    pub fn save(&self) -> Result<Vec<u8>, String> {
        told(self.0.borrow_mut().worker.save())
    }

    pub fn load(&self, snapshot: Vec<u8>) -> Result<(), String> {
        told(self.0.borrow_mut().worker.load(snapshot))
    }

    pub fn stop(&self) {
        // It cannot fail.
        let _ = self.turn(|inner| {
            inner.worker.stop(&mut inner.context);
            Ok(())
        });
    }

    fn turn(&self, run: impl FnOnce(&mut Inner<W>) -> crate::Result) -> Result<(), String> {
        let inner = &mut *self.0.borrow_mut();
        inner.context.begin();
        told(run(inner))?;
        inner.context.end_turn();
        Ok(())
    }
}

/// The one instance of a router in its component.
#[derive(Default)]
pub struct RouterInstance<R>(RefCell<R>);

impl<R: Router> RouterInstance<R> {
    pub fn select(&self, message: RawMessage, workers: &[Candidate]) -> Result<Vec<u32>, String> {
        let message = Message::new(message, 0, 0);
        told(self.0.borrow_mut().select(&message, workers))
    }
}

/// Says that a type has the exports of a worker, so that they count as used.
pub const fn is_worker<E: WorkerExports>() {}

/// Says that a type has the exports of a router, so that they count as used.
pub const fn is_router<E: RouterExports>() {}

/// A failure in words, with its causes.
fn told<T>(result: Result<T, Failure>) -> Result<T, String> {
    result.map_err(|failure| {
        let mut text = failure.to_string();
        let mut cause = failure.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    })
}
