//! What waits for one host.

use std::collections::BTreeMap;

use super::block::{self, Entry, put_number, take_number};
use crate::pace::Pace;

/// What is kept of a host on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostRecord {
    /// The number of the first block that may be there.
    pub first: u64,
    /// The number of the next block.
    pub next: u64,
    /// How many URLs wait or are under way.
    pub waiting: u64,
    /// How many requests were answered, by whatever status.
    pub fetched: u64,
    /// The delay that robots.txt asks for.
    pub crawl_delay_ms: u64,
}

impl HostRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(20);
        let Self {
            first,
            next,
            waiting,
            fetched,
            crawl_delay_ms,
        } = *self;
        for number in [first, next, waiting, fetched, crawl_delay_ms] {
            put_number(&mut record, number);
        }
        record
    }

    pub fn decode(mut record: &[u8]) -> Option<Self> {
        let mut number = || take_number(&mut record);
        Some(Self {
            first: number()?,
            next: number()?,
            waiting: number()?,
            fetched: number()?,
            crawl_delay_ms: number()?,
        })
    }
}

/// A block in memory.
pub(super) struct Loaded {
    pub entries: Vec<Entry>,
    done: Vec<u8>,
    /// How many of its entries are not done.
    left: usize,
    /// The next entry that has not been handed out.
    next: usize,
}

impl Loaded {
    pub fn new(entries: Vec<Entry>) -> Self {
        Self {
            done: vec![0; entries.len().div_ceil(8)],
            left: entries.len(),
            next: 0,
            entries,
        }
    }

    /// A block as it lies on disk: its entries, and which of them are done.
    pub fn read(entries: &[u8], done: Option<&[u8]>) -> Option<Self> {
        let mut loaded = Self::new(block::decode(entries)?);
        if let Some(done) = done {
            if done.len() != loaded.done.len() {
                return None;
            }
            loaded.done = done.to_vec();
            let all = 0..loaded.entries.len();
            loaded.left = all.filter(|at| !loaded.is_done(*at)).count();
        }
        Some(loaded)
    }

    fn is_done(&self, at: usize) -> bool {
        self.done[at / 8] & (1 << (at % 8)) != 0
    }

    pub fn set_done(&mut self, at: usize) {
        if !self.is_done(at) {
            self.done[at / 8] |= 1 << (at % 8);
            self.left -= 1;
        }
    }

    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    pub fn done(&self) -> &[u8] {
        &self.done
    }

    /// The next entry to hand out.
    fn pop(&mut self) -> Option<usize> {
        while self.next < self.entries.len() {
            self.next += 1;
            if !self.is_done(self.next - 1) {
                return Some(self.next - 1);
            }
        }
        None
    }
}

/// What waits for one host, as far as it is in memory.
pub(super) struct Host {
    pub record: HostRecord,
    pub pace: Pace,
    /// Blocks of which something is under way, or is handed out next.
    pub blocks: BTreeMap<u64, Loaded>,
    /// The first block that has not been loaded.
    unloaded: u64,
    /// Entries whose time has not come, by that time.
    later: BTreeMap<(u64, u64, usize), ()>,
    pub under_way: u32,
    /// New entries that become a block when the turn ends.
    pub new: Vec<Entry>,
    /// When it is looked at again, if it is.
    pub due_ms: Option<u64>,
}

/// So many entries are kept in memory without being read back.
const LOADED_ENTRIES_MAX: usize = 4_096;

impl Host {
    pub fn new(record: HostRecord, pace: Pace) -> Self {
        Self {
            record,
            pace,
            blocks: BTreeMap::new(),
            unloaded: record.first,
            later: BTreeMap::new(),
            under_way: 0,
            new: Vec::new(),
            due_ms: None,
        }
    }

    /// The next entry that may be handed out now.
    pub fn pop(&mut self, now_ms: u64) -> Option<(u64, usize)> {
        if let Some(first) = self.later.first_entry()
            && first.key().0 <= now_ms
        {
            let ((_, block, at), ()) = first.remove_entry();
            return Some((block, at));
        }
        for (number, block) in &mut self.blocks {
            while let Some(at) = block.pop() {
                match block.entries[at].not_before_ms {
                    time if time <= now_ms => return Some((*number, at)),
                    time => self.later.insert((time, *number, at), ()),
                };
            }
        }
        None
    }

    /// The next block to read, if all that is in memory was handed out.
    pub fn wanted(&self) -> Option<u64> {
        let has_entries = self
            .blocks
            .values()
            .any(|block| block.next < block.entries.len());
        (!has_entries && self.unloaded < self.record.next).then_some(self.unloaded)
    }

    /// A block that was read. Nothing if it is over and gone.
    pub fn supply(&mut self, number: u64, block: Option<Loaded>) {
        self.unloaded = self.unloaded.max(number + 1);
        if let Some(block) = block {
            self.blocks.insert(number, block);
        }
    }

    /// When the next entry may be handed out, if all of them have to wait: none if nothing waits but what is under way.
    pub fn next_time(&self) -> Option<u64> {
        let is_ready = self
            .blocks
            .values()
            .any(|block| block.next < block.entries.len());
        if is_ready || self.unloaded < self.record.next {
            return Some(0);
        }
        self.later.keys().next().map(|(time, _, _)| *time)
    }

    /// Makes a block of what is new; gives its number and its bytes.
    pub fn close_block(&mut self) -> Option<(u64, Vec<u8>)> {
        if self.new.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut self.new);
        let number = self.record.next;
        self.record.next += 1;
        let bytes = block::encode(&entries);
        let in_memory: usize = self.blocks.values().map(|block| block.entries.len()).sum();
        if self.unloaded == number && in_memory + entries.len() <= LOADED_ENTRIES_MAX {
            self.unloaded += 1;
            self.blocks.insert(number, Loaded::new(entries));
        }
        Some((number, bytes))
    }

    /// The first block that may be there.
    pub fn first(&self) -> u64 {
        self.blocks
            .keys()
            .next()
            .copied()
            .unwrap_or(self.unloaded)
            .min(self.unloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = HostRecord {
            first: 3,
            next: 300,
            waiting: 70_000,
            fetched: u64::MAX,
            crawl_delay_ms: 0,
        };
        assert_eq!(HostRecord::decode(&record.encode()), Some(record));
        assert_eq!(HostRecord::decode(b"\x80"), None);
    }
}
