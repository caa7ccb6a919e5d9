//! What arrived for a subscription and waits to be taken, and what was not answered yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use wire::stomp::additions::{DEAD, REASON, THROUGH, UNSEEN};
use wire::stomp::{self, Command, Version};

use super::convert::Arrived;
use super::receipts::Outcome;
use super::session::Session;
use super::unanswered::{AckId, Unanswered};
use crate::delivery::{Delivery, Receipt};

/// How a message is turned down by a server that keeps dead letters.
pub(super) struct Nack<'a> {
    pub reason: &'a str,
    pub dead: bool,
}

/// A subscription's side of one connection after another.
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
    taken: Notify,
    /// A server that keeps to the credit never has more waiting here.
    messages_max: usize,
}

#[derive(Default)]
struct State {
    /// Counts the connections; what an older one delivered is no longer held.
    generation: u32,
    /// The connection of the moment.
    session: Option<Arc<Session>>,
    waiting: VecDeque<Delivery>,
    unanswered: Unanswered,
    acknowledged_at: Option<Instant>,
}

impl State {
    /// The id of a delivery that is still held.
    fn held(&self, receipt: Receipt) -> Option<&AckId> {
        let is_current = receipt.generation == self.generation;
        is_current.then(|| self.unanswered.get(receipt.number))?
    }
}

impl Inbox {
    pub fn new(credit_messages: u32) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            taken: Notify::new(),
            messages_max: credit_messages as usize,
        }
    }

    /// From now on this connection counts.
    pub fn begin(&self, session: Arc<Session>) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.session = Some(session);
        // The server took back what the older one delivered.
        state.waiting.clear();
        state.unanswered.clear();
    }

    /// The connection was lost, and all that was held with it.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.session = None;
        state.waiting.clear();
        state.unanswered.clear();
    }

    /// Takes in what arrived.
    pub fn push(&self, from: &Session, arrived: &mut Vec<Arrived>) {
        let mut state = self.state.lock();
        let is_current = |session: &Arc<Session>| std::ptr::eq(&**session, from);
        if !state.session.as_ref().is_some_and(is_current) {
            arrived.clear();
            return;
        }
        let generation = state.generation;
        for Arrived { mut delivery, ack } in arrived.drain(..) {
            let number = state.unanswered.push(ack);
            delivery.receipt = Receipt { number, generation };
            state.waiting.push_back(delivery);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Waits while more is waiting here than the server was allowed to send.
    pub async fn room(&self) {
        while self.state.lock().waiting.len() > self.messages_max {
            self.taken.notified().await;
        }
    }

    /// Takes the first deliveries, as soon as there are any.
    pub async fn next(&self, messages_max: usize) -> Vec<Delivery> {
        loop {
            {
                let mut state = self.state.lock();
                let count = messages_max.max(1).min(state.waiting.len());
                if count > 0 {
                    let next = state.waiting.drain(..count).collect();
                    let is_more = !state.waiting.is_empty();
                    drop(state);
                    self.taken.notify_one();
                    if is_more {
                        // Another caller may wait for these.
                        self.arrived.notify_one();
                    }
                    return next;
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Acknowledges; says how many were not held any more.
    pub fn acknowledge(&self, receipts: &[Receipt]) -> usize {
        let mut state = self.state.lock();
        let Some(session) = state.session.clone() else {
            return receipts.len();
        };
        let is_held = |receipt: &&Receipt| state.held(**receipt).is_some();
        let held: Vec<u64> = receipts.iter().filter(is_held).map(|r| r.number).collect();
        let through = session.dialect.is_ours()
            && held.len() > 1
            && state.unanswered.begins_with(held.iter().copied());
        let sent = session.send(|out| {
            let bytes = out.chunks.bytes();
            let last = held.len().saturating_sub(1);
            for (place, number) in held.iter().enumerate() {
                let id = state.unanswered.take(*number);
                if let Some(id) = id.filter(|_| !through || place == last) {
                    answer(bytes, Command::Ack, &id);
                    if through {
                        stomp::header_raw(bytes, THROUGH, b"true");
                    }
                    stomp::finish(bytes, b"");
                }
            }
        });
        state.acknowledged_at = Some(Instant::now());
        match sent {
            Ok(()) => receipts.len() - held.len(),
            Err(_) => receipts.len(),
        }
    }

    /// By what the server knows messages that are consumed by a commit on this connection; says how
    /// many are not held any more.
    pub fn ids(&self, session: &Arc<Session>, receipts: &[Receipt], ids: &mut Vec<AckId>) -> usize {
        let state = self.state.lock();
        let is_current = |current: &Arc<Session>| Arc::ptr_eq(current, session);
        if !state.session.as_ref().is_some_and(is_current) {
            return receipts.len();
        }
        let before = ids.len();
        ids.extend(
            receipts
                .iter()
                .filter_map(|receipt| state.held(*receipt).cloned()),
        );
        receipts.len() - (ids.len() - before)
    }

    /// These were consumed by a commit.
    pub fn forget(&self, receipts: &[Receipt]) {
        let mut state = self.state.lock();
        for receipt in receipts {
            if state.held(*receipt).is_some() {
                state.unanswered.take(receipt.number);
            }
        }
    }

    /// How long acknowledgements may still be under way within the server.
    pub fn acknowledging(&self) -> Duration {
        let state = self.state.lock();
        let since = state.acknowledged_at.map(|at| at.elapsed());
        let (Some(session), Some(since)) = (&state.session, since) else {
            return Duration::ZERO;
        };
        session.dialect.acknowledges_within().saturating_sub(since)
    }

    /// Whether a delivery is still held.
    pub fn holds(&self, receipt: Receipt) -> bool {
        let state = self.state.lock();
        state.session.is_some() && state.held(receipt).is_some()
    }

    /// Whether the server turns messages down by itself. Nothing is known without a connection.
    pub fn is_ours(&self) -> Option<bool> {
        let state = self.state.lock();
        Some(state.session.as_ref()?.dialect.is_ours())
    }

    /// Turns a message down; nothing if it is not held any more.
    pub fn reject(&self, receipt: Receipt, nack: &Nack<'_>) -> Option<oneshot::Receiver<Outcome>> {
        let mut state = self.state.lock();
        let session = state.session.clone()?;
        state.held(receipt)?;
        let id = state.unanswered.take(receipt.number)?;
        let asked = session.ask(|bytes| {
            answer(bytes, Command::Nack, &id);
            stomp::header(bytes, Version::V1_2, REASON, nack.reason);
            if nack.dead {
                stomp::header_raw(bytes, DEAD, b"true");
            }
        });
        asked.ok()
    }

    /// Delivers a message again to the same subscriber, which keeps holding it; false if it does
    /// not.
    pub fn deliver_again(&self, delivery: &Delivery) -> bool {
        let mut state = self.state.lock();
        if state.session.is_none() || state.held(delivery.receipt).is_none() {
            return false;
        }
        let mut again = delivery.clone();
        again.tries += 1;
        again.redelivered = true;
        state.waiting.push_front(again);
        drop(state);
        self.arrived.notify_one();
        true
    }

    /// Tells a server of ours that these were not looked at.
    pub fn release(&self, receipts: &[Receipt]) {
        let state = self.state.lock();
        let ids = receipts.iter().filter_map(|receipt| state.held(*receipt));
        unseen(&state, ids);
    }

    /// Tells a server of ours that what waits here was not looked at.
    pub fn release_waiting(&self) {
        let state = self.state.lock();
        let waiting = state.waiting.iter();
        let ids = waiting.filter_map(|delivery| state.held(delivery.receipt));
        unseen(&state, ids);
    }
}

/// Appends NACK frames that say that messages were not looked at, where the server knows these.
fn unseen<'a>(state: &State, ids: impl Iterator<Item = &'a AckId>) {
    let Some(session) = state.session.as_ref().filter(|s| s.dialect.is_ours()) else {
        return;
    };
    // If the connection is over the server has given them back already.
    let _ = session.send(|out| {
        let bytes = out.chunks.bytes();
        for id in ids {
            answer(bytes, Command::Nack, id);
            stomp::header_raw(bytes, UNSEEN, b"true");
            stomp::finish(bytes, b"");
        }
    });
}

/// Appends the start of an ACK or NACK.
fn answer(out: &mut Vec<u8>, command: Command, id: &AckId) {
    stomp::begin(out, command);
    stomp::header(out, Version::V1_2, "id", id.as_str());
}
