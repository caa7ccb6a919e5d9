//! What a subscriber gets, and the box it lies in until the subscriber's session takes it.

use journal::Position;
use kernel::Message;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// When a message counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// As soon as it was written to the subscriber.
    Auto,
    /// When the subscriber acknowledges it or a later one.
    Client,
    /// When the subscriber acknowledges it by itself.
    Individual,
}

/// A message in a queue, with what the queue knows about it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number in its queue: later messages have greater ones.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// How often it was delivered without success.
    pub tries: u32,
    /// Whether somebody may have got it before.
    pub redelivered: bool,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Where it stands in the journal, if it does.
    pub(crate) stored: Option<Position>,
    /// It may leave only when the journal is synced up to here.
    pub(crate) held_until: Position,
}

/// What an entry takes in memory beside its message.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<Entry>();

impl Entry {
    /// A new message that was never delivered and stands nowhere else.
    pub(crate) fn new(id: u64, message: Message, durable: bool) -> Self {
        Self {
            id,
            message,
            tries: 0,
            redelivered: false,
            durable,
            stored: None,
            held_until: Position::ZERO,
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.message.len_bytes() + ENTRY_OVERHEAD_BYTES
    }
}

/// An entry on its way to a subscriber.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The session's own number of the subscription.
    pub subscription: u32,
    /// The message.
    pub entry: Entry,
}

/// Takes deliveries for one subscriber. The broker calls it with a queue's lock held, so it
/// must neither block nor call back.
pub(crate) trait Sink {
    /// Lets `fill` append deliveries.
    fn fill(&self, fill: impl FnOnce(&mut Vec<Delivery>));
}

/// Holds deliveries for a session until it takes them. What lies here is bounded by the credit
/// of the session's subscriptions.
#[derive(Debug, Default)]
pub struct Outbox {
    deliveries: Mutex<Vec<Delivery>>,
    filled: Notify,
}

impl Outbox {
    /// Waits until there is something to take.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Swaps what lies here with `empty`, whose memory is used again.
    pub fn take(&self, empty: &mut Vec<Delivery>) {
        debug_assert!(empty.is_empty(), "deliveries would be lost");
        std::mem::swap(&mut *self.deliveries.lock(), empty);
    }

    /// Takes out what belongs to one subscription.
    pub(crate) fn take_subscription(&self, subscription: u32) -> Vec<Entry> {
        let mut deliveries = self.deliveries.lock();
        let (taken, kept) = std::mem::take(&mut *deliveries)
            .into_iter()
            .partition(|delivery| delivery.subscription == subscription);
        *deliveries = kept;
        let taken: Vec<Delivery> = taken;
        taken.into_iter().map(|delivery| delivery.entry).collect()
    }
}

impl Sink for std::sync::Arc<Outbox> {
    fn fill(&self, fill: impl FnOnce(&mut Vec<Delivery>)) {
        let mut deliveries = self.deliveries.lock();
        let was_empty = deliveries.is_empty();
        fill(&mut deliveries);
        let wake = was_empty && !deliveries.is_empty();
        drop(deliveries);
        if wake {
            self.filled.notify_one();
        }
    }
}
