//! Reading the journal back: what waits in queues, and the state of buckets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use journal::{Journal, Position};
use kernel::Name;

use crate::delivery::Entry;
use crate::queue::OnDisk;
use crate::records::{Op, StoredMessage, read_ops};
use crate::state::{Bucket, ColdStore, Stamp, StateError, StateWrite};

/// Gathers what the records say, in their order.
#[derive(Default)]
pub(crate) struct Recovered {
    pub queues: HashMap<Name, BTreeMap<u64, OnDisk>>,
    pub buckets: HashMap<Name, Bucket>,
    /// What the journal says about the store of state, and where.
    pub moved: Option<(Stamp, Position)>,
    /// The store could not be read.
    pub unreadable: Option<StateError>,
    /// The first record that makes no sense although its checksum is right.
    pub not_understood: Option<Position>,
}

impl Recovered {
    /// Begins with what a store has.
    pub fn with_store(store: Option<&Arc<dyn ColdStore>>) -> Result<Self, StateError> {
        let mut recovered = Self::default();
        if let Some(store) = store {
            for (name, moved) in store.buckets()? {
                let bucket = Bucket::in_store(store.clone(), &name, moved);
                recovered.buckets.insert(name, bucket);
            }
        }
        Ok(recovered)
    }

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
                self.write(bucket, &write, position)?;
            }
            Op::StateRemove { bucket, key } => {
                let key = Bytes::copy_from_slice(key);
                let write = StateWrite::Remove { key };
                self.write(bucket, &write, position)?;
            }
            Op::StateMoved { store, generation } => {
                let stamp = Stamp {
                    id: store,
                    generation,
                };
                self.moved = Some((stamp, position));
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

    fn write(&mut self, bucket: &str, write: &StateWrite, position: Position) -> Option<()> {
        if let Err(error) = self.bucket(bucket)?.replay(write, position) {
            self.unreadable.get_or_insert(error);
        }
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
        if let Some((_, position)) = self.moved {
            journal.keep(position, 1);
        }
    }
}
