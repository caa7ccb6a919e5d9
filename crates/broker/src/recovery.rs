//! Reading the journal back: what waits in queues, and the state of buckets.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use journal::{Journal, Position};
use kernel::Name;

use crate::delivery::Entry;
use crate::queue::OnDisk;
use crate::records::{Op, StoredMessage, read_ops};
use crate::state::{Bucket, StateWrite};

/// Gathers what the records say, in their order.
#[derive(Default)]
pub(crate) struct Recovered {
    pub queues: HashMap<Name, BTreeMap<u64, OnDisk>>,
    pub buckets: HashMap<Name, Bucket>,
    /// The first record that makes no sense although its checksum is right.
    pub not_understood: Option<Position>,
}

impl Recovered {
    pub fn record(&mut self, position: Position, record: &[u8]) {
        for op in read_ops(record) {
            if op.and_then(|op| self.op(position, op)).is_none() {
                self.not_understood.get_or_insert(position);
                return;
            }
        }
    }

    fn op(&mut self, position: Position, op: Op<'_>) -> Option<()> {
        match op {
            Op::Publish(stored) => self.publish(position, &stored)?,
            Op::Settle { queue, ids } => {
                if let Some(entries) = self.queues.get_mut(queue) {
                    for id in ids {
                        entries.remove(&id);
                    }
                }
            }
            Op::Tries { queue, id, tries } => {
                if let Some(entry) = self.queues.get_mut(queue).and_then(|q| q.get_mut(&id)) {
                    *entry = OnDisk::new(id, entry.position, entry.size_bytes as usize, tries)
                        .redelivered(true)
                        .durable(true);
                }
            }
            Op::StateSet { bucket, key, value } => {
                let write = StateWrite::Set {
                    key: Bytes::copy_from_slice(key),
                    value: Bytes::copy_from_slice(value),
                };
                self.bucket(bucket)?.apply(&write, position);
            }
            Op::StateRemove { bucket, key } => {
                let key = Bytes::copy_from_slice(key);
                let write = StateWrite::Remove { key };
                self.bucket(bucket)?.apply(&write, position);
            }
            Op::Epoch { bucket, epoch } => {
                self.bucket(bucket)?.set_epoch(epoch, position);
            }
        }
        Some(())
    }

    fn publish(&mut self, position: Position, stored: &StoredMessage<'_>) -> Option<()> {
        if !stored.durable {
            return Some(());
        }
        let size_bytes = stored.len_bytes() + size_of::<Entry>();
        // Whether somebody had it before the restart is not known, so it is marked.
        let entry = OnDisk::new(stored.id, position, size_bytes, stored.tries)
            .redelivered(true)
            .durable(true);
        if !self.queues.contains_key(stored.queue) {
            self.queues
                .insert(Name::new(stored.queue).ok()?, BTreeMap::new());
        }
        self.queues.get_mut(stored.queue)?.insert(stored.id, entry);
        Some(())
    }

    fn bucket(&mut self, name: &str) -> Option<&mut Bucket> {
        if !self.buckets.contains_key(name) {
            self.buckets
                .insert(Name::new(name).ok()?, Bucket::default());
        }
        self.buckets.get_mut(name)
    }

    /// Tells the journal what must not be forgotten.
    pub fn register(&self, journal: &Journal) {
        for entry in self.queues.values().flat_map(BTreeMap::values) {
            journal.keep(entry.position, 1);
        }
        for position in self.buckets.values().flat_map(Bucket::positions) {
            journal.keep(position, 1);
        }
    }
}
