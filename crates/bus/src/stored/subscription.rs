//! A subscription that drops what was consumed before.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use kernel::{Destination, Name};
use parking_lot::Mutex;

use super::Shared;
use super::lane::Lane;
use crate::contract::Subscription;
use crate::deadline::Deadline;
use crate::delivery::{Delivery, Receipt, Reject};
use crate::error::BusError;
use crate::store::MessageId;

/// How long the store may take to say what was consumed. The commit finds it out, too.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Of how many senders the highest number is remembered.
const SENDERS_MAX: usize = 10_000;

pub(super) struct StoredSubscription {
    shared: Arc<Shared>,
    inner: Arc<dyn Subscription>,
    /// The queue; none for a topic.
    queue: Option<Name>,
    /// What has arrived and was not looked at yet.
    arrived: tokio::sync::Mutex<Vec<Delivery>>,
    hands: Mutex<Hands>,
    lanes: Mutex<Lanes>,
}

/// Where what was consumed from a subscription was committed.
#[derive(Clone, Default)]
pub(super) struct Lanes {
    /// In the bucket of the last owner.
    pub owner: Option<Arc<Lane>>,
    /// Without an owner, since the last owner.
    pub ownerless: Option<Arc<Lane>>,
}

/// What a subscriber has in its hands, and what went through them.
#[derive(Default)]
struct Hands {
    /// Of which connection of the engine it is.
    generation: u32,
    held: HashMap<Receipt, Option<MessageId>>,
    /// The ids of what is held. Another delivery of the same id is a repeat.
    ids: HashSet<MessageId>,
    /// The highest number that came from a sender.
    highest: HashMap<String, u64>,
}

/// What is known about a delivery before the store is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nobody can have consumed it.
    New,
    /// It is in hand already.
    Repeat,
    Unknown,
}

impl Hands {
    /// What an older connection delivered is not held any more.
    fn see(&mut self, generation: u32) {
        if generation > self.generation {
            self.generation = generation;
            self.held
                .retain(|receipt, _| receipt.generation >= generation);
            self.ids = self.held.values().flatten().cloned().collect();
        }
    }

    /// Judges what has arrived, without taking it.
    fn judge(&mut self, arrived: &[Delivery]) -> Vec<(Known, Option<MessageId>)> {
        let mut in_batch = HashSet::new();
        let mut judged = Vec::with_capacity(arrived.len());
        for delivery in arrived {
            self.see(delivery.receipt.generation);
            let id = delivery.message_id().map(MessageId::parse);
            let known = match &id {
                None => Known::New,
                Some(id) if self.ids.contains(id) || !in_batch.insert(id.clone()) => Known::Repeat,
                Some(MessageId::Ours { sender, number }) => {
                    let is_higher = self.highest.get(sender).is_some_and(|h| number > h);
                    match is_higher && !delivery.redelivered {
                        true => Known::New,
                        false => Known::Unknown,
                    }
                }
                Some(MessageId::Outside(_)) => Known::Unknown,
            };
            judged.push((known, id));
        }
        judged
    }

    fn take(&mut self, receipt: Receipt, id: Option<MessageId>) {
        if let Some(MessageId::Ours { sender, number }) = &id {
            if self.highest.len() >= SENDERS_MAX && !self.highest.contains_key(sender) {
                self.highest.clear();
            }
            let highest = self.highest.entry(sender.clone()).or_default();
            *highest = (*highest).max(*number);
        }
        self.ids.extend(id.clone());
        self.held.insert(receipt, id);
    }

    fn let_go(&mut self, receipt: &Receipt) {
        if let Some(Some(id)) = self.held.remove(receipt) {
            self.ids.remove(&id);
        }
    }
}

impl StoredSubscription {
    pub fn new(shared: Arc<Shared>, from: &Destination, inner: Arc<dyn Subscription>) -> Self {
        let queue = match from {
            Destination::Queue(name) => Some(name.clone()),
            Destination::Topic(_) => None,
        };
        Self {
            shared,
            inner,
            queue,
            arrived: tokio::sync::Mutex::default(),
            hands: Mutex::default(),
            lanes: Mutex::default(),
        }
    }

    /// The subscription of this bus behind the contract's.
    pub fn of(subscription: &dyn Subscription) -> Result<&Self, BusError> {
        let subscription: &dyn Any = subscription;
        subscription
            .downcast_ref()
            .ok_or_else(|| BusError::Refused {
                reason: "a commit can only consume from subscriptions of its own engine".into(),
            })
    }

    pub fn inner(&self) -> Arc<dyn Subscription> {
        self.inner.clone()
    }

    pub fn queue(&self) -> Option<&Name> {
        self.queue.as_ref()
    }

    pub fn lanes(&self) -> Lanes {
        self.lanes.lock().clone()
    }

    pub fn change_lanes(&self, change: impl FnOnce(&mut Lanes)) {
        change(&mut self.lanes.lock());
    }

    /// The ids of these deliveries, as far as they have some; refuses what is not held.
    pub fn ids_of(&self, receipts: &[Receipt]) -> Result<Vec<MessageId>, BusError> {
        let hands = self.hands.lock();
        let found: Vec<_> = receipts.iter().map(|r| hands.held.get(r)).collect();
        match found.iter().filter(|found| found.is_none()).count() {
            0 => Ok(found.into_iter().flatten().flatten().cloned().collect()),
            messages => Err(BusError::NotHeld { messages }),
        }
    }

    /// A commit consumed these.
    pub fn forget(&self, receipts: &[Receipt]) {
        let mut hands = self.hands.lock();
        for receipt in receipts {
            hands.let_go(receipt);
        }
    }

    /// Which of these were consumed before or are in hand, and the ids of all.
    async fn repeats(&self, arrived: &[Delivery]) -> Vec<(bool, Option<MessageId>)> {
        let judged = self.hands.lock().judge(arrived);
        let unknown = judged.iter().filter(|(known, _)| *known == Known::Unknown);
        let unknown: Vec<MessageId> = unknown.filter_map(|(_, id)| id.clone()).collect();
        let mut found = self.consumed(&unknown).await.into_iter();
        let is_repeat = |(known, id): (Known, Option<MessageId>)| {
            let is_repeat = match known {
                Known::New => false,
                Known::Repeat => true,
                Known::Unknown => found.next().unwrap_or(false),
            };
            (is_repeat, id)
        };
        judged.into_iter().map(is_repeat).collect()
    }

    /// What the store says. If it does not answer, the commit will be asked instead.
    async fn consumed(&self, ids: &[MessageId]) -> Vec<bool> {
        let (Some(queue), false) = (&self.queue, ids.is_empty()) else {
            return Vec::new();
        };
        let store = &self.shared.store;
        match store.consumed(queue, ids, LOOKUP_TIMEOUT).await {
            Ok(consumed) => consumed,
            Err(error) => {
                tracing::warn!(%queue, %error, "repeats are not looked for");
                Vec::new()
            }
        }
    }

    /// Acknowledges those of these deliveries that were consumed by somebody else.
    pub async fn drop_consumed(&self, receipts: &[Receipt], deadline: Deadline) {
        let mut held = Vec::with_capacity(receipts.len());
        let mut ids = Vec::with_capacity(receipts.len());
        {
            let hands = self.hands.lock();
            for receipt in receipts {
                if let Some(Some(id)) = hands.held.get(receipt) {
                    held.push(*receipt);
                    ids.push(id.clone());
                }
            }
        }
        let consumed = self.consumed(&ids).await;
        let repeats = held.into_iter().zip(consumed);
        let repeats: Vec<Receipt> = repeats.filter_map(|(r, is)| is.then_some(r)).collect();
        self.forget(&repeats);
        self.drop_repeats(&repeats, deadline).await;
    }

    /// Takes repeats out of what has arrived; gives the ids of the rest.
    fn take_repeats(
        arrived: &mut Vec<Delivery>,
        judged: Vec<(bool, Option<MessageId>)>,
    ) -> (Vec<Receipt>, Vec<Option<MessageId>>) {
        let (mut repeats, mut ids) = (Vec::new(), Vec::new());
        let mut judged = judged.into_iter();
        arrived.retain(|delivery| match judged.next() {
            Some((true, _)) => {
                repeats.push(delivery.receipt);
                false
            }
            other => {
                ids.push(other.and_then(|(_, id)| id));
                true
            }
        });
        (repeats, ids)
    }

    async fn drop_repeats(&self, repeats: &[Receipt], deadline: Deadline) {
        if repeats.is_empty() {
            return;
        }
        let count = repeats.len();
        self.shared
            .repeats_dropped
            .fetch_add(count as u64, Ordering::Relaxed);
        tracing::debug!(count, "dropped what was consumed before");
        if let Err(error) = self.inner.acknowledge(repeats, deadline.left()).await {
            // They come again, and are dropped again.
            tracing::debug!(%error, "repeats are not acknowledged");
        }
    }
}

#[async_trait]
impl Subscription for StoredSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let deadline = Deadline::after(timeout);
        let Ok(mut arrived) = deadline.limit(self.arrived.lock()).await else {
            return Ok(Vec::new());
        };
        loop {
            if arrived.is_empty() {
                let next = self.inner.next_batch(messages_max, deadline.left());
                *arrived = next.await?;
                if arrived.is_empty() {
                    return Ok(Vec::new());
                }
            }
            // Whoever stops waiting here finds everything in its place the next time.
            let judged = self.repeats(&arrived).await;
            let (repeats, mut ids) = Self::take_repeats(&mut arrived, judged);
            self.drop_repeats(&repeats, deadline).await;
            if arrived.is_empty() {
                continue;
            }
            let count = messages_max.max(1).min(arrived.len());
            let rest = arrived.split_off(count);
            let deliveries = std::mem::replace(&mut *arrived, rest);
            let mut hands = self.hands.lock();
            for (delivery, id) in deliveries.iter().zip(ids.drain(..)) {
                hands.take(delivery.receipt, id);
            }
            return Ok(deliveries);
        }
    }

    async fn acknowledge(&self, receipts: &[Receipt], timeout: Duration) -> Result<(), BusError> {
        let outcome = self.inner.acknowledge(receipts, timeout).await;
        if matches!(outcome, Ok(()) | Err(BusError::NotHeld { .. })) {
            self.forget(receipts);
        }
        outcome
    }

    fn release(&self, receipts: &[Receipt]) {
        self.inner.release(receipts);
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        // An engine may publish it again under its id, and that one must not count as a repeat.
        if let Some(id) = delivery.message_id() {
            self.hands.lock().ids.remove(&MessageId::parse(id));
        }
        let outcome = self.inner.reject(delivery, reject, timeout).await;
        if outcome.is_ok() {
            self.forget(&[delivery.receipt]);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Headers, Message};

    fn delivery(number: u64, generation: u32, id: Option<&str>, redelivered: bool) -> Delivery {
        let pairs = id.map(|id| (crate::MESSAGE_ID, id));
        Delivery {
            message: Message::new("x").with_headers(Headers::from_pairs(pairs).unwrap()),
            receipt: Receipt { number, generation },
            tries: 0,
            redelivered,
            engine_id: None,
        }
    }

    fn judge(hands: &mut Hands, delivery: &Delivery) -> Known {
        hands.judge(std::slice::from_ref(delivery))[0].0
    }

    fn take(hands: &mut Hands, delivery: &Delivery) {
        let id = delivery.message_id().map(MessageId::parse);
        hands.take(delivery.receipt, id);
    }

    #[test]
    fn the_store_is_asked_only_where_it_must_be() {
        let mut hands = Hands::default();
        let first = delivery(1, 1, Some("hw:b.1.1.5"), false);
        assert!(judge(&mut hands, &first) == Known::Unknown, "a new sender");
        take(&mut hands, &first);
        let next = delivery(2, 1, Some("hw:b.1.1.6"), false);
        assert!(judge(&mut hands, &next) == Known::New, "a higher number");
        let again = delivery(3, 1, Some("hw:b.1.1.7"), true);
        assert!(judge(&mut hands, &again) == Known::Unknown, "redelivered");
        let late = delivery(4, 1, Some("hw:b.1.1.4"), false);
        assert!(judge(&mut hands, &late) == Known::Unknown, "a lower number");
        let outside = delivery(5, 1, Some("x"), false);
        assert!(
            judge(&mut hands, &outside) == Known::Unknown,
            "an outside id"
        );
        let nameless = delivery(6, 1, None, false);
        assert!(judge(&mut hands, &nameless) == Known::New, "without an id");
    }

    #[test]
    fn what_is_in_hand_is_a_repeat_until_it_is_let_go_or_lost() {
        let mut hands = Hands::default();
        let first = delivery(1, 1, Some("x"), false);
        let copy = delivery(2, 1, Some("x"), false);
        let both = hands.judge(&[first.clone(), copy.clone()]);
        assert!(both[0].0 == Known::Unknown && both[1].0 == Known::Repeat);
        take(&mut hands, &first);
        assert!(judge(&mut hands, &copy) == Known::Repeat);
        hands.let_go(&first.receipt);
        assert!(judge(&mut hands, &copy) == Known::Unknown);
        take(&mut hands, &first);
        // Over a new connection the same message comes again.
        let again = delivery(1, 2, Some("x"), true);
        assert!(judge(&mut hands, &again) == Known::Unknown);
        assert!(hands.held.is_empty());
    }
}
