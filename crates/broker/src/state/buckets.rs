//! All buckets.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use journal::AppendError;
use kernel::Name;
use parking_lot::{Mutex, RwLock};

use super::bucket::Bucket;
use super::cold::{ColdStore, Moving};
use super::memory::StateMemory;
use crate::documents;
use crate::error::CommitError;
use crate::shared::Shared;

type Shelf = HashMap<Name, Arc<Mutex<Bucket>>>;

/// All buckets.
#[derive(Default)]
pub(crate) struct Buckets(RwLock<Shelf>);

impl Buckets {
    pub fn recovered(buckets: HashMap<Name, Bucket>, memory: &StateMemory) -> Self {
        for (name, bucket) in &buckets {
            if !documents::is_reserved(name) {
                memory.changed(0, bucket.memory_bytes());
            }
        }
        let buckets = buckets
            .into_iter()
            .map(|(name, bucket)| (name, Arc::new(Mutex::new(bucket))))
            .collect();
        Self(RwLock::new(buckets))
    }

    pub fn find(&self, name: &Name) -> Option<Arc<Mutex<Bucket>>> {
        self.0.read().get(name).cloned()
    }

    pub fn get_or_make(
        &self,
        name: &Name,
        buckets_max: usize,
    ) -> Result<Arc<Mutex<Bucket>>, CommitError> {
        if let Some(bucket) = self.find(name) {
            return Ok(bucket);
        }
        let mut buckets = self.0.write();
        if buckets.len() >= buckets_max {
            return Err(CommitError::TooManyBuckets { buckets_max });
        }
        Ok(buckets.entry(name.clone()).or_default().clone())
    }

    fn all(&self) -> Vec<(Name, Arc<Mutex<Bucket>>)> {
        let buckets = self.0.read();
        let buckets = buckets.iter();
        buckets
            .map(|(name, bucket)| (name.clone(), bucket.clone()))
            .collect()
    }

    /// What all buckets take in memory, and so in the journal.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = |(_, bucket): &(_, Arc<Mutex<Bucket>>)| bucket.lock().memory_bytes() as u64;
        self.all().iter().map(bytes).sum()
    }

    /// Sets aside what should go to disk: from the largest buckets, so that small ones stay where they are read
    /// fastest, and whatever keeps an old segment.
    pub fn start_moving(&self, memory: &StateMemory, store: &Arc<dyn ColdStore>) -> Vec<Moving> {
        let mut candidates = Vec::new();
        for (name, bucket) in self.all() {
            // Documents are read by everybody and at any time.
            if !documents::is_reserved(&name) {
                let (bytes, is_wanted) = {
                    let bucket = bucket.lock();
                    (bucket.movable_bytes(), bucket.is_wanted_on_disk())
                };
                candidates.push((bytes, is_wanted, name, bucket));
            }
        }
        candidates.sort_by_key(|(bytes, is_wanted, ..)| Reverse((*is_wanted, *bytes)));
        let excess_bytes = memory.excess_bytes();
        let mut moved_bytes = 0;
        let mut moving = Vec::new();
        for (bytes, is_wanted, name, bucket) in candidates {
            if !is_wanted && (moved_bytes >= excess_bytes || bytes == 0) {
                break;
            }
            moved_bytes += bytes;
            moving.extend(bucket.lock().start_moving(&name, store));
        }
        moving
    }

    pub fn move_out_of(&self, segment: u32, shared: &Shared) {
        for (name, bucket) in self.all() {
            if let Err(error) = move_bucket_out_of(&name, &bucket, segment, shared) {
                tracing::warn!(bucket = %name, "state stays in an old segment for now: {error}");
                break;
            }
        }
        if shared.state.store_works() {
            shared.state.poke();
        }
    }
}

fn move_bucket_out_of(
    name: &Name,
    bucket: &Mutex<Bucket>,
    segment: u32,
    shared: &Shared,
) -> Result<(), AppendError> {
    while shared.wait_until_ready() {
        let to_disk = shared.state.store_works();
        match bucket.lock().move_out_of(name, segment, to_disk, shared) {
            Err(AppendError::NotReady) => {}
            result => return result,
        }
    }
    Err(AppendError::NotReady)
}
