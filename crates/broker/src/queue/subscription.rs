//! A subscriber's side of a queue.

use std::collections::HashSet;
use std::sync::Arc;

use journal::Position;
use parking_lot::Mutex;

use super::{Core, Queue, Reject, Settled};
use crate::delivery::{AckMode, Delivery, Entry, Outbox};

/// So many messages may be noted as untouched before those are looked for that are not held any more.
const UNTOUCHED_MIN: usize = 64;

/// A subscriber's side of a queue. Dropping it ends the subscription.
pub struct QueueSubscription {
    queue: Arc<Queue>,
    index: usize,
    token: u32,
    mode: AckMode,
    outbox: Arc<Outbox>,
    /// Messages that the subscriber was handed and never looked at.
    untouched: Mutex<HashSet<u64>>,
    closed: bool,
}

impl QueueSubscription {
    pub(super) fn new(
        queue: Arc<Queue>,
        index: usize,
        token: u32,
        mode: AckMode,
        outbox: Arc<Outbox>,
    ) -> Self {
        Self {
            queue,
            index,
            token,
            mode,
            outbox,
            untouched: Mutex::default(),
            closed: false,
        }
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// How many messages the subscriber has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let core = self.queue.core.lock();
        let subscriber = core.subscriber(self.index);
        subscriber.map_or(0, |subscriber| subscriber.unacked.len())
    }

    /// When messages count as done here.
    pub fn mode(&self) -> AckMode {
        self.mode
    }

    /// Deliveries of this subscription were written to the subscriber.
    pub fn sent(&self, deliveries: &[Delivery]) {
        self.queue.shared.observe_delivery(deliveries);
        let bytes = deliveries.iter().map(|d| d.entry.size_bytes()).sum();
        let mut core = self.queue.core.lock();
        core.sent(self.index, deliveries.len(), bytes);
        if self.mode == AckMode::Auto && deliveries.iter().any(|d| d.entry.stored.is_some()) {
            let settled = deliveries.iter().map(|d| Settled::from(&d.entry));
            self.queue.shared.settle(&self.queue.name, settled);
        }
        self.queue.dispatch(core);
    }

    /// The subscriber acknowledges a message, or it and all before it. The position is that of
    /// the acknowledgement in the journal, if it has one.
    pub fn acknowledge(&self, id: u64, through: bool) -> Acknowledged {
        let mut core = self.queue.core.lock();
        let mut taken = core.spare();
        core.acknowledge(self.index, id, through, &mut taken);
        let settled = taken.iter().map(Settled::from);
        let stored = self.queue.shared.settle(&self.queue.name, settled);
        let messages = taken.len();
        core.put_spare(taken);
        self.queue.dispatch(core);
        Acknowledged { messages, stored }
    }

    /// The subscriber turns a message down, or it and all before it.
    pub fn reject(&self, id: u64, through: bool, reject: &Reject) -> Acknowledged {
        let mut core = self.queue.core.lock();
        let mut taken = Vec::new();
        core.take_unacked(self.index, id, through, &mut taken);
        let messages = taken.len();
        let stored = self.queue.take_back(&mut core, taken, reject);
        self.queue.dispatch(core);
        Acknowledged { messages, stored }
    }

    /// The subscriber never looked at these messages: when it ends, they are given back as if they
    /// had not been delivered.
    pub fn release(&self, ids: impl IntoIterator<Item = u64>) {
        let core = self.queue.core.lock();
        let Some(subscriber) = core.subscriber(self.index) else {
            return;
        };
        let is_held = |id: &u64| subscriber.covers(*id, false).next().is_some();
        let mut untouched = self.untouched.lock();
        untouched.extend(ids.into_iter().filter(is_held));
        // Those that were acknowledged all the same must not stay for ever.
        if untouched.len() > 2 * subscriber.unacked.len() + UNTOUCHED_MIN {
            untouched.retain(is_held);
        }
    }

    /// Ends the subscription. `unsent` are deliveries that the session took from its outbox and
    /// could not write; `maybe_seen` tells whether a part of them may have arrived.
    pub fn close(mut self, unsent: Vec<Entry>, maybe_seen: bool) {
        self.end(unsent, maybe_seen);
    }

    fn end(&mut self, taken: Vec<Entry>, maybe_seen: bool) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let mut core = self.queue.core.lock();
        let unseen = self.outbox.take_subscription(self.token);
        match self.mode {
            AckMode::Auto => self.end_auto(&mut core, taken, unseen, maybe_seen),
            AckMode::Client | AckMode::Individual => {
                self.end_acknowledging(&mut core, taken, unseen, maybe_seen);
            }
        }
        self.queue.touch();
        self.queue.dispatch(core);
    }

    fn end_auto(
        &self,
        core: &mut Core,
        mut back: Vec<Entry>,
        unseen: Vec<Entry>,
        maybe_seen: bool,
    ) {
        for entry in &mut back {
            entry.redelivered |= maybe_seen;
        }
        back.extend(unseen);
        let bytes = back.iter().map(Entry::size_bytes).sum();
        let is_wanted = core.unsent(self.index, back.len(), bytes);
        core.unsubscribe(self.index);
        if is_wanted {
            self.queue.return_unseen(core, back);
        } else {
            let settled = back.iter().map(Settled::from);
            self.queue.shared.settle(&self.queue.name, settled);
        }
    }

    fn end_acknowledging(
        &self,
        core: &mut Core,
        taken: Vec<Entry>,
        mut unseen: Vec<Entry>,
        maybe_seen: bool,
    ) {
        if !maybe_seen {
            unseen.extend(taken);
        }
        let mut unseen: HashSet<u64> = unseen.iter().map(|entry| entry.id).collect();
        unseen.extend(self.untouched.lock().drain());
        let unacked = core.unsubscribe(self.index);
        let (mut back, seen): (Vec<Entry>, Vec<Entry>) =
            unacked.into_iter().partition(|e| unseen.contains(&e.id));
        // What it was working on is most likely the oldest. Were the others blamed as well, a
        // subscriber that crashes over one message would take all it was sent ahead to the dead
        // letters with it.
        let mut seen = seen.into_iter();
        let tried: Vec<Entry> = seen.by_ref().take(1).collect();
        back.extend(seen.map(|entry| Entry {
            redelivered: true,
            ..entry
        }));
        self.queue.return_unseen(core, back);
        let reject = Reject::Retry {
            reason: "the subscriber left without acknowledging it".into(),
        };
        self.queue.take_back(core, tried, &reject);
    }
}

impl Drop for QueueSubscription {
    fn drop(&mut self) {
        self.end(Vec::new(), false);
    }
}

/// What an acknowledgement or rejection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many messages it covered; none if the id was unknown.
    pub messages: usize,
    /// It is permanent once the journal is synced up to here.
    pub stored: Option<Position>,
}
