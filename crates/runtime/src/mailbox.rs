//! What waits for a worker in this process: messages, and what its stage wants it to do.

use std::collections::VecDeque;
use std::sync::Arc;

use bus::{Receipt, Subscription, Tag};
use kernel::worker::Incoming;

use crate::control::Control;

/// A message on its way to a worker, with what has to be acknowledged once it is done.
pub(crate) struct Envelope {
    pub incoming: Incoming,
    pub source: Option<Source>,
    /// The bucket that it belongs to; zero for all in stages that are not keyed.
    pub bucket: u32,
}

/// Where a message came from.
pub(crate) struct Source {
    pub subscription: Arc<dyn Subscription>,
    pub tag: Tag,
}

impl Source {
    pub fn receipt(&self) -> Receipt {
        self.tag.receipt
    }
}

/// What a stage asks of a worker, in order.
#[derive(Default)]
struct Controls(VecDeque<Control>);

/// The waiting messages of one worker. It belongs to the cell and is locked for moments only.
#[derive(Default)]
pub(crate) struct Mailbox {
    messages: VecDeque<Envelope>,
    /// Almost always empty, so that an idle worker costs little.
    controls: Option<Box<Controls>>,
    /// An activation runs or is on its way; it looks here again before it ends.
    pub active: bool,
    /// Messages wait although they could be handled: the worker is stopped or waits to restart.
    pub held: bool,
}

impl Mailbox {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn push(&mut self, envelope: Envelope) {
        self.messages.push_back(envelope);
    }

    pub fn push_control(&mut self, control: Control) {
        self.controls.get_or_insert_default().0.push_back(control);
    }

    pub fn take_control(&mut self) -> Option<Control> {
        let controls = self.controls.as_mut()?;
        let control = controls.0.pop_front();
        if controls.0.is_empty() {
            self.controls = None;
        }
        control
    }

    /// Moves up to `messages_max` messages into `batch`, which is empty. All of them are as cheap as
    /// one: whoever sends meanwhile waits for this.
    pub fn take_batch(&mut self, messages_max: usize, batch: &mut VecDeque<Envelope>) {
        match self.messages.len() <= messages_max {
            true => std::mem::swap(&mut self.messages, batch),
            false => batch.extend(self.messages.drain(..messages_max)),
        }
    }

    /// Gives back memory: what one rush needed should not be kept by a million idle workers.
    pub fn shrink(&mut self) {
        self.messages = VecDeque::new();
    }

    /// Puts messages back to the front, in their order.
    pub fn put_back(&mut self, batch: impl DoubleEndedIterator<Item = Envelope>) {
        for envelope in batch.rev() {
            self.messages.push_front(envelope);
        }
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<Envelope> {
        self.messages.drain(..).collect()
    }
}
