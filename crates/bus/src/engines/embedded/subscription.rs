//! A subscription to a queue or topic of the broker in this process.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::{Broker, Commit, CommitError, Entry, Outbox};
use parking_lot::Mutex;

use crate::contract::Subscription;
use crate::deadline::Deadline;
use crate::delivery::{Delivery, Receipt, Reject};
use crate::engines::held::{Cover, Held};
use crate::error::BusError;

pub(super) struct EmbeddedSubscription {
    broker: Arc<Broker>,
    /// Taken when the subscription ends.
    subscription: Option<broker::Subscription>,
    outbox: Arc<Outbox>,
    tries_max: u32,
    /// What was taken from the outbox beyond what was asked for.
    ahead: tokio::sync::Mutex<std::vec::IntoIter<broker::Delivery>>,
    held: Mutex<Held>,
}

impl EmbeddedSubscription {
    pub fn new(
        broker: Arc<Broker>,
        subscription: broker::Subscription,
        outbox: Arc<Outbox>,
        tries_max: u32,
    ) -> Self {
        Self {
            broker,
            subscription: Some(subscription),
            outbox,
            tries_max,
            ahead: tokio::sync::Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// The subscription of this engine behind the contract's.
    pub fn of(subscription: &dyn Subscription) -> Result<&Self, BusError> {
        let subscription: &dyn Any = subscription;
        subscription
            .downcast_ref()
            .ok_or_else(|| BusError::Refused {
                reason: "a commit can only consume from subscriptions of its own engine".into(),
            })
    }

    fn inner(&self) -> Result<&broker::Subscription, BusError> {
        self.subscription.as_ref().ok_or(BusError::Stopped {
            reason: "the subscription has ended".into(),
        })
    }

    /// Adds what a commit consumes here.
    pub fn consume<'a>(
        &'a self,
        receipts: &[Receipt],
        consumed: &mut Vec<broker::Consumed<'a>>,
    ) -> Result<(), BusError> {
        let subscription = self.inner()?;
        let one = |id, through| broker::Consumed {
            subscription,
            id,
            through,
        };
        match self.held.lock().cover(receipts) {
            Cover::Through(id) => consumed.push(one(id, true)),
            Cover::Each(ids) => consumed.extend(ids.into_iter().map(|id| one(id, false))),
        }
        Ok(())
    }

    /// A commit consumed these.
    pub fn consumed(&self, receipts: &[Receipt]) {
        self.held.lock().remove(receipts);
    }

    /// Hands on the first deliveries of those that are here.
    fn hand_on(
        &self,
        ahead: &mut std::vec::IntoIter<broker::Delivery>,
        messages_max: usize,
    ) -> Result<Vec<Delivery>, BusError> {
        let count = messages_max.min(ahead.len());
        let now = &ahead.as_slice()[..count];
        let mut held = self.held.lock();
        for delivery in now {
            held.push(delivery.entry.id);
        }
        drop(held);
        self.inner()?.sent(now);
        Ok(ahead
            .by_ref()
            .take(count)
            .map(|d| delivery(d.entry))
            .collect())
    }

    /// Acknowledges what is held of these in one step after another; says how many were not.
    fn acknowledge_each(&self, ids: &[u64]) -> Result<usize, BusError> {
        let subscription = self.inner()?;
        let one = |id: &u64| broker::Consumed {
            subscription,
            id: *id,
            through: false,
        };
        let commit = Commit {
            consumed: ids.iter().map(one).collect(),
            ..Commit::default()
        };
        match self.broker.commit(commit) {
            Ok(_) => Ok(0),
            Err(CommitError::NotHeld { .. }) => {
                let is_lost = |id: &&u64| subscription.acknowledge(**id, false).messages == 0;
                Ok(ids.iter().filter(is_lost).count())
            }
            Err(error) => Err(super::commit_error(error)),
        }
    }
}

fn delivery(entry: Entry) -> Delivery {
    Delivery {
        message: entry.message,
        receipt: Receipt {
            number: entry.id,
            generation: 0,
        },
        tries: entry.tries,
        redelivered: entry.redelivered,
        engine_id: None,
    }
}

#[async_trait]
impl Subscription for EmbeddedSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let deadline = Deadline::after(timeout);
        let Ok(mut ahead) = deadline.limit(self.ahead.lock()).await else {
            return Ok(Vec::new());
        };
        while ahead.len() == 0 {
            let mut filled = Vec::new();
            self.outbox.take(&mut filled);
            *ahead = filled.into_iter();
            if ahead.len() == 0 && deadline.limit(self.outbox.filled()).await.is_err() {
                return Ok(Vec::new());
            }
        }
        self.hand_on(&mut ahead, messages_max)
    }

    async fn acknowledge(&self, receipts: &[Receipt], _timeout: Duration) -> Result<(), BusError> {
        if receipts.is_empty() {
            return Ok(());
        }
        let cover = self.held.lock().cover(receipts);
        let lost = match cover {
            Cover::Through(id) => {
                let acknowledged = self.inner()?.acknowledge(id, true).messages;
                receipts.len().saturating_sub(acknowledged)
            }
            Cover::Each(ids) => self.acknowledge_each(&ids)?,
        };
        self.held.lock().remove(receipts);
        match lost {
            0 => Ok(()),
            messages => Err(BusError::NotHeld { messages }),
        }
    }

    fn release(&self, receipts: &[Receipt]) {
        if let Some(subscription) = &self.subscription {
            subscription.release(receipts.iter().map(|receipt| receipt.number));
        }
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        _timeout: Duration,
    ) -> Result<(), BusError> {
        let tries = delivery.tries + 1;
        let reject = match reject {
            Reject::Retry { reason } if tries < self.tries_max => broker::Reject::Retry { reason },
            Reject::Retry { reason } => broker::Reject::Dead {
                reason: format!("{reason} ({tries} tries)"),
            },
            Reject::Dead { reason } => broker::Reject::Dead { reason },
        };
        let id = delivery.receipt.number;
        let rejected = self.inner()?.reject(id, false, &reject);
        self.held.lock().remove(&[delivery.receipt]);
        match rejected.messages {
            0 => Err(BusError::NotHeld { messages: 1 }),
            _ => Ok(()),
        }
    }
}

impl Drop for EmbeddedSubscription {
    fn drop(&mut self) {
        if let Some(subscription) = self.subscription.take() {
            let ahead = std::mem::take(self.ahead.get_mut());
            let unseen = ahead.map(|d| d.entry).collect();
            subscription.close(unseen, false);
        }
    }
}
