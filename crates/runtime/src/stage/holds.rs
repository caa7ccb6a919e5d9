//! Messages for buckets that are on their way from one worker to another.

#![expect(clippy::result_large_err, reason = "what is refused is given back")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::worker::Incoming;
use parking_lot::Mutex;

use crate::mailbox::Envelope;

/// Messages for buckets that are on their way. It changes only while the table of the stage is locked for writing, and is
/// filled only while that is locked for reading; so whoever reads the table knows where a message goes.
#[derive(Default)]
pub(super) struct Holds {
    /// How many buckets are on their way, readable without the lock.
    count: AtomicU32,
    queues: Mutex<HashMap<u32, VecDeque<Envelope>>>,
}

impl Holds {
    /// From now on messages of this bucket are held.
    pub fn open(&self, bucket: u32) {
        let mut queues = self.queues.lock();
        queues.entry(bucket).or_default();
        self.count.store(queues.len() as u32, Ordering::Relaxed);
    }

    /// The bucket has arrived; gives what was held, in order.
    pub fn close(&self, bucket: u32) -> VecDeque<Envelope> {
        let mut queues = self.queues.lock();
        let held = queues.remove(&bucket);
        self.count.store(queues.len() as u32, Ordering::Relaxed);
        held.unwrap_or_default()
    }

    /// Whether any bucket is on its way.
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether this bucket is on its way.
    pub fn has(&self, bucket: u32) -> bool {
        self.is_any() && self.queues.lock().contains_key(&bucket)
    }

    /// Holds a message of this process, if fewer than `messages_max` are held for the bucket.
    pub fn try_push(
        &self,
        incoming: Incoming,
        bucket: u32,
        messages_max: u32,
    ) -> Result<(), Incoming> {
        let mut queues = self.queues.lock();
        let queue = queues.entry(bucket).or_default();
        if queue.len() >= messages_max as usize {
            return Err(incoming);
        }
        queue.push_back(Envelope::local(incoming, bucket));
        Ok(())
    }

    /// Holds messages that have a bound of their own: credit, or the number of timers.
    pub fn extend(&self, bucket: u32, envelopes: impl Iterator<Item = Envelope>) {
        let mut queues = self.queues.lock();
        queues.entry(bucket).or_default().extend(envelopes);
    }

    /// Everything that is held, when the stage ends.
    pub fn drain(&self) -> Vec<Envelope> {
        let mut queues = self.queues.lock();
        queues.values_mut().flat_map(std::mem::take).collect()
    }

    pub fn len(&self) -> usize {
        match self.is_any() {
            true => self.queues.lock().values().map(VecDeque::len).sum(),
            false => 0,
        }
    }
}
