//! What waits for a worker in this process: messages, and what its stage wants it to do.

use std::collections::VecDeque;
use std::iter;
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

impl Envelope {
    /// A message from within this process.
    pub fn local(incoming: Incoming, bucket: u32) -> Self {
        Self {
            incoming,
            source: None,
            bucket,
        }
    }
}

/// Messages on their way to a worker, in order.
///
/// Where each came from is kept beside them, and not at all if all came from within this process
/// and belong to bucket zero: then they can be handled where they lie.
#[derive(Default)]
pub(crate) struct Envelopes {
    incomings: VecDeque<Incoming>,
    /// As many as there are messages, or none.
    origins: VecDeque<Origin>,
}

#[derive(Default)]
struct Origin {
    source: Option<Source>,
    bucket: u32,
}

impl Envelopes {
    pub fn len(&self) -> usize {
        self.incomings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.incomings.is_empty()
    }

    pub fn capacity(&self) -> usize {
        self.incomings.capacity()
    }

    pub fn push(&mut self, envelope: Envelope) {
        let origin = Origin {
            source: envelope.source,
            bucket: envelope.bucket,
        };
        if !origin.is_plain() || !self.origins.is_empty() {
            self.fill_origins();
            self.origins.push_back(origin);
        }
        self.incomings.push_back(envelope.incoming);
    }

    fn push_front(&mut self, envelope: Envelope) {
        let origin = Origin {
            source: envelope.source,
            bucket: envelope.bucket,
        };
        if !origin.is_plain() || !self.origins.is_empty() {
            self.fill_origins();
            self.origins.push_front(origin);
        }
        self.incomings.push_front(envelope.incoming);
    }

    fn fill_origins(&mut self) {
        self.origins
            .resize_with(self.incomings.len(), Origin::default);
    }

    pub fn pop(&mut self) -> Option<Envelope> {
        let incoming = self.incomings.pop_front()?;
        let origin = self.origins.pop_front().unwrap_or_default();
        Some(Envelope {
            incoming,
            source: origin.source,
            bucket: origin.bucket,
        })
    }

    /// The bucket of the first one.
    pub fn first_bucket(&self) -> Option<u32> {
        self.incomings.front()?;
        Some(self.origins.front().map_or(0, |origin| origin.bucket))
    }

    /// Brings those of one bucket together; their order stays.
    pub fn sort_by_bucket(&mut self) {
        if self.origins.iter().is_sorted_by_key(|origin| origin.bucket) {
            return;
        }
        let incomings = self.incomings.drain(..);
        let mut pairs: Vec<_> = iter::zip(incomings, self.origins.drain(..)).collect();
        pairs.sort_by_key(|(_, origin)| origin.bucket);
        (self.incomings, self.origins) = pairs.into_iter().unzip();
    }

    /// The messages alone, if they have the same place to come from: this process, bucket zero.
    pub fn plain(&mut self) -> Option<&mut VecDeque<Incoming>> {
        self.origins.is_empty().then_some(&mut self.incomings)
    }
}

impl Origin {
    fn is_plain(&self) -> bool {
        self.source.is_none() && self.bucket == 0
    }
}

/// What a stage asks of a worker, in order.
#[derive(Default)]
struct Controls(VecDeque<Control>);

/// The waiting messages of one worker. It belongs to the cell and is locked for moments only.
#[derive(Default)]
pub(crate) struct Mailbox {
    messages: Envelopes,
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
        self.messages.push(envelope);
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
    pub fn take_batch(&mut self, messages_max: usize, batch: &mut Envelopes) {
        if self.messages.len() <= messages_max {
            std::mem::swap(&mut self.messages, batch);
            return;
        }
        let Envelopes { incomings, origins } = &mut self.messages;
        batch.incomings.extend(incomings.drain(..messages_max));
        let origins_max = messages_max.min(origins.len());
        batch.origins.extend(origins.drain(..origins_max));
    }

    /// Gives back memory: what one rush needed should not be kept by a million idle workers.
    pub fn shrink(&mut self) {
        self.messages = Envelopes::default();
    }

    /// Puts messages back to the front, in their order.
    pub fn put_back(&mut self, batch: impl DoubleEndedIterator<Item = Envelope>) {
        for envelope in batch.rev() {
            self.messages.push_front(envelope);
        }
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<Envelope> {
        iter::from_fn(|| self.messages.pop()).collect()
    }
}
