//! The rest of a queue's decisions: what is read back from disk when, and how to find, move and
//! remove what is there.

use super::Settled;
use super::core::QueueCore;
use super::on_disk::{OnDisk, StoredAt, Taken};
use super::subscriber::Subscriber;
use crate::delivery::{Entry, Sink};

/// How much is read back from disk at a time, and how much when memory is short.
const LOAD_BYTES: usize = 2 << 20;
const LOAD_BYTES_WHEN_SHORT: usize = 64 << 10;
const LOAD_MESSAGES: usize = 8_192;

impl<S: Sink> QueueCore<S> {
    /// What should be read from disk next, if it is time for that.
    pub fn start_load(&mut self, memory_is_short: bool) -> Option<Vec<OnDisk>> {
        if self.back.is_empty() || self.loading > 0 {
            return None;
        }
        let mut bytes_max = LOAD_BYTES.min(self.settings.memory_bytes_max / 2);
        let wanted = if memory_is_short {
            // Only what somebody waits for.
            bytes_max = bytes_max.min(LOAD_BYTES_WHEN_SHORT);
            self.front.is_empty() && !self.line.is_empty()
        } else {
            let has_subscribers = self.active_subscribers().next().is_some();
            self.front_bytes <= bytes_max / 2 && has_subscribers
        };
        wanted.then(|| self.take_load(bytes_max))
    }

    fn take_load(&mut self, bytes_max: usize) -> Vec<OnDisk> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some(next) = self.back.front()
            && batch.len() < LOAD_MESSAGES
            && (bytes < bytes_max || batch.is_empty())
        {
            bytes += next.size_bytes as usize;
            batch.extend(self.back.pop_front());
        }
        if self.back.is_empty() {
            // The index of a long queue takes much memory.
            self.back.shrink_to(LOAD_MESSAGES);
        }
        self.loading = batch.len();
        batch
    }

    /// What was read from disk; `missing` could not be read and is given up.
    /// Gives back what is no longer wanted because the queue was emptied in the meantime.
    pub fn finish_load(&mut self, entries: Vec<Entry>, missing: &[OnDisk]) -> Vec<Entry> {
        self.loading = 0;
        if std::mem::take(&mut self.discard_load) {
            return entries;
        }
        for entry in missing {
            self.total_bytes -= u64::from(entry.size_bytes);
        }
        // Not simply at the end: while the journal fails, later ones may have stayed in memory.
        self.merge_into_front(entries);
        Vec::new()
    }

    /// Takes out one waiting entry, unless it is being read from disk right now.
    pub fn take_waiting(&mut self, id: u64) -> Option<Taken> {
        if let Ok(index) = self.front.binary_search_by_key(&id, |entry| entry.id) {
            let entry = self.front.remove(index)?;
            self.front_bytes -= entry.size_bytes();
            self.total_bytes -= entry.size_bytes() as u64;
            return Some(Taken::Memory(entry));
        }
        let index = self.back.binary_search_by_key(&id, |entry| entry.id).ok()?;
        let entry = self.back.remove(index)?;
        self.total_bytes -= u64::from(entry.size_bytes);
        Some(Taken::Disk(entry))
    }

    /// An entry that waits in memory or that a subscriber has not acknowledged.
    pub fn find_in_memory(&mut self, id: u64) -> Option<&mut Entry> {
        if let Ok(index) = self.front.binary_search_by_key(&id, |entry| entry.id) {
            return self.front.get_mut(index);
        }
        let mut subscribers = self.subscribers.iter_mut().flatten();
        subscribers.find_map(|subscriber| subscriber.unacked.get_mut(id))
    }

    /// What the journal holds of one waiting entry.
    pub fn find_waiting(&self, id: u64) -> Option<Settled> {
        if let Ok(index) = self.front.binary_search_by_key(&id, |entry| entry.id) {
            return Some(Settled::from(&self.front[index]));
        }
        let index = self.back.binary_search_by_key(&id, |entry| entry.id).ok()?;
        Some(Settled::from(&self.back[index]))
    }

    /// Empties the queue of what waits; what subscribers hold stays theirs. What is being read
    /// from disk comes back from [`QueueCore::finish_load`]; the number says how much that is.
    pub fn clear(&mut self) -> (Vec<Entry>, Vec<OnDisk>, usize) {
        let loading = self.wanted_loading();
        let front: Vec<Entry> = std::mem::take(&mut self.front).into();
        let back: Vec<OnDisk> = std::mem::take(&mut self.back).into();
        self.front_bytes = 0;
        self.discard_load = self.loading > 0;
        let held_bytes: usize = self.active_subscribers().map(Subscriber::held_bytes).sum();
        self.total_bytes = held_bytes as u64;
        (front, back, loading)
    }

    /// Takes everything from every subscriber and serves none of them again. `unsent` takes back
    /// what a subscriber's sink still holds.
    pub fn expel_all(&mut self, mut unsent: impl FnMut(u32, &S) -> Vec<Entry>) -> Vec<Entry> {
        let mut taken = Vec::new();
        self.line.clear();
        self.turns.clear();
        for subscriber in self.subscribers.iter_mut().flatten() {
            if !subscriber.is_expelled() {
                self.in_flight -= subscriber.unacked.len() + subscriber.unsent;
                self.total_bytes -= subscriber.held_bytes() as u64;
                taken.extend(subscriber.expel(&mut unsent));
            }
        }
        taken
    }

    /// What waits in memory, oldest first.
    pub fn waiting_in_memory(&self) -> impl Iterator<Item = &Entry> {
        self.front.iter()
    }

    /// What waits on disk, oldest first.
    pub fn waiting_on_disk(&self) -> impl Iterator<Item = &OnDisk> {
        self.back.iter()
    }

    /// The stored entries of one segment, to be written again further on. Those that are being
    /// read or sent right now are left for another time.
    pub fn stored_in(&mut self, segment: u32) -> impl Iterator<Item = StoredAt<'_>> {
        let unacked = self
            .subscribers
            .iter_mut()
            .flatten()
            .flat_map(|subscriber| subscriber.unacked.iter_mut());
        let in_memory = self.front.iter_mut().chain(unacked).map(StoredAt::Memory);
        let on_disk = self.back.iter_mut().map(StoredAt::Disk);
        in_memory
            .chain(on_disk)
            .filter(move |stored| stored.position().is_some_and(|p| p.segment() == segment))
    }
}
