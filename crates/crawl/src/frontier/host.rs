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
    /// How many are under way.
    pub under_way: u32,
    /// What it takes in memory, about.
    bytes: usize,
}

/// How many entries make a block at most.
const BLOCK_ENTRIES_MAX: usize = 256;
/// What an entry takes beside its URL.
const ENTRY_BYTES: usize = 96;

impl Loaded {
    pub fn new(entries: Vec<Entry>) -> Self {
        Self {
            done: vec![0; entries.len().div_ceil(8)],
            left: entries.len(),
            next: 0,
            under_way: 0,
            bytes: entries
                .iter()
                .map(|entry| entry.url.len() + ENTRY_BYTES)
                .sum(),
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
    /// What its blocks take in memory.
    pub bytes: usize,
}

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
            bytes: 0,
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

    /// Whether no block has to be read to know what may be handed out now.
    pub fn is_ready(&self, now_ms: u64) -> bool {
        let mut times = self.later.keys().map(|(time, _, _)| *time);
        self.wanted().is_none() || times.next().is_some_and(|time| time <= now_ms)
    }

    /// Whether blocks in memory have entries that were not handed out.
    fn has_entries(&self) -> bool {
        let mut blocks = self.blocks.values();
        blocks.any(|block| block.next < block.entries.len())
    }

    /// The next block to read, if all that is in memory was handed out.
    pub fn wanted(&self) -> Option<u64> {
        (!self.has_entries() && self.unloaded < self.record.next).then_some(self.unloaded)
    }

    /// A block that was read. Nothing if it is over and gone.
    pub fn supply(&mut self, number: u64, block: Option<Loaded>) {
        self.unloaded = self.unloaded.max(number + 1);
        if let Some(block) = block {
            self.insert(number, block);
        }
    }

    fn insert(&mut self, number: u64, block: Loaded) {
        self.bytes += block.bytes;
        if let Some(old) = self.blocks.insert(number, block) {
            self.bytes -= old.bytes;
        }
    }

    /// Forgets a block.
    pub fn remove(&mut self, number: u64) {
        if let Some(block) = self.blocks.remove(&number) {
            self.bytes -= block.bytes;
        }
    }

    /// Lets go of the last blocks, up to one of which something is under way. They are read again when their turn comes.
    pub fn unload(&mut self) {
        while let Some((number, block)) = self.blocks.last_key_value()
            && block.under_way == 0
        {
            let number = *number;
            self.remove(number);
            self.later.retain(|(_, block, _), ()| *block != number);
            self.unloaded = number;
        }
    }

    /// When the next entry may be handed out, if all of them have to wait: none if nothing waits but what is under way.
    pub fn next_time(&self) -> Option<u64> {
        if self.has_entries() || self.unloaded < self.record.next {
            return Some(0);
        }
        self.later.keys().next().map(|(time, _, _)| *time)
    }

    /// Makes blocks of what is new, which stay in memory as far as that has room; gives their numbers and bytes.
    pub fn close_blocks(&mut self, room_bytes: usize) -> Vec<(u64, Vec<u8>)> {
        let bytes_max = self.bytes + room_bytes;
        let mut closed = Vec::new();
        let mut new = std::mem::take(&mut self.new).into_iter();
        while new.len() > 0 {
            let entries: Vec<Entry> = new.by_ref().take(BLOCK_ENTRIES_MAX).collect();
            let number = self.record.next;
            self.record.next += 1;
            closed.push((number, block::encode(&entries)));
            let loaded = Loaded::new(entries);
            if self.unloaded == number && self.bytes + loaded.bytes <= bytes_max {
                self.unloaded += 1;
                self.insert(number, loaded);
            }
        }
        closed
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
