//! What the macros `worker!` and `router!` put into an author's crate. Not for use by hand.

use std::cell::{Cell, RefCell};

pub use crate::bindings::router::Guest as RouterExports;
pub use crate::bindings::router::export_router;
pub use crate::bindings::worker::Guest as WorkerExports;
pub use crate::bindings::worker::export_worker;
pub use crate::bindings::worker::hivewire::worker::types::Message as RawMessage;
pub use crate::bindings::{router, worker};

use crate::bindings::worker::hivewire::worker::surroundings;
use crate::{Candidate, Context, Failure, Level, Message, Router, Worker};

/// The one instance of a worker in its component, and the number of its turn.
#[derive(Default)]
pub struct WorkerInstance<W> {
    worker: RefCell<W>,
    turn: Cell<u64>,
}

impl<W: Worker> WorkerInstance<W> {
    pub fn init(&self, args: &[u8]) -> Result<(), String> {
        std::panic::set_hook(Box::new(|panic| {
            surroundings::log(Level::Error, &panic.to_string());
        }));
        told(self.worker.borrow_mut().init(args, &mut self.next_turn()))
    }

    pub fn handle(&self, messages: Vec<RawMessage>) -> Result<(), String> {
        let mut context = self.next_turn();
        let turn = self.turn.get();
        let messages: Vec<Message> = messages
            .into_iter()
            .zip(0..)
            .map(|(message, index)| Message::new(message, turn, index))
            .collect();
        told(self.worker.borrow_mut().handle(&messages, &mut context))
    }

    pub fn save(&self) -> Result<Vec<u8>, String> {
        told(self.worker.borrow_mut().save())
    }

    pub fn load(&self, snapshot: Vec<u8>) -> Result<(), String> {
        told(self.worker.borrow_mut().load(snapshot))
    }

    pub fn stop(&self) {
        self.worker.borrow_mut().stop(&mut self.next_turn());
    }

    fn next_turn(&self) -> Context {
        self.turn.set(self.turn.get() + 1);
        Context::new(self.turn.get())
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
