//! Reading state, and who owns it.

use std::ops::Bound;

use bytes::Bytes;
use journal::Position;
use kernel::Name;

use super::StateError;
use super::bucket::Looked;
use crate::broker::Broker;
use crate::documents;
use crate::error::CommitError;

/// What state takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateBytes {
    /// In memory.
    pub memory: u64,
    /// On disk, beside what is in the journal.
    pub disk: u64,
}

impl Broker {
    /// Makes the caller the owner of a bucket: commits with an older epoch are refused from now
    /// on. It is permanent once the journal is synced up to the position.
    pub fn raise_epoch(&self, name: &Name) -> Result<(u64, Position), CommitError> {
        documents::check_not_reserved(name)?;
        let bucket = self.bucket(name)?;
        let mut bucket = bucket.lock();
        let epoch = bucket.epoch + 1;
        let stored = self.shared.append(64 + name.as_str().len(), 1, |writer| {
            writer.epoch(name, epoch);
        })?;
        if let Some(old) = bucket.set_epoch(epoch, stored) {
            self.shared.journal.release(old, 1);
        }
        Ok((epoch, stored))
    }

    /// The value of a key. Reads from disk if it is not in memory.
    pub fn state(&self, bucket: &Name, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        let Some(found) = self.find_bucket(bucket) else {
            return Ok(None);
        };
        let looked = found.lock().look(key);
        // The lock is gone: what the store has can only have become newer since.
        match looked {
            Looked::Here(value) => Ok(value),
            Looked::Below(store) => store.get(bucket, key),
        }
    }

    /// The values of several keys, in the same order. Those in memory are looked up at one moment.
    pub fn states(&self, bucket: &Name, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, StateError> {
        let Some(found) = self.find_bucket(bucket) else {
            return Ok(vec![None; keys.len()]);
        };
        let looked: Vec<Looked> = {
            let found = found.lock();
            keys.iter().map(|key| found.look(key)).collect()
        };
        let value = |(key, looked): (&&[u8], Looked)| match looked {
            Looked::Here(value) => Ok(value),
            Looked::Below(store) => store.get(bucket, key),
        };
        keys.iter().zip(looked).map(value).collect()
    }

    /// Keys and values of a bucket in order, from the first after `after`. Reads from disk what is not in memory.
    pub fn scan_state(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StateError> {
        let Some(found) = self.find_bucket(bucket) else {
            return Ok(Vec::new());
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let scan = found.lock().scan(start, pairs_max);
        scan.collect()
    }

    /// What state takes, but for documents.
    pub fn state_bytes(&self) -> StateBytes {
        StateBytes {
            memory: self.shared.state.bytes() as u64,
            disk: self.mover.as_ref().map_or(0, |mover| mover.disk_bytes()),
        }
    }

    /// Whether state that memory has no room for can be moved to disk.
    pub fn state_store_works(&self) -> bool {
        self.shared.state.store_works()
    }

    /// Waits until the journal can take more and there is room for more state: to be called before a commit that writes
    /// some, so that a fast writer is slowed down to what the disk takes.
    pub async fn ready_for_state(&self) {
        self.ready().await;
        self.shared.state.room().await;
    }
}
