//! The bytes of one file: what programs read now, and what the disk would hold after a crash.

use std::collections::BTreeMap;

use super::SECTOR_BYTES;
use super::chance::Chance;

const PAGE_BYTES: u64 = 4096;

/// Sparse bytes with the way back to what was synced last.
///
/// Only one copy of the data is kept: for each sector that changed since the last sync the bytes
/// it had before are remembered, so that a preallocated file costs nothing until it is written.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES as usize]>>,
    size: u64,
    synced_size: u64,
    unsynced: BTreeMap<u64, Unsynced>,
    /// Bytes promised by `fallocate`, which count as used even while they are holes.
    reserved: u64,
}

#[derive(Clone)]
struct Unsynced {
    before: [u8; SECTOR_BYTES],
    /// A sync of this sector failed. As on Linux, a later sync says "done" without writing it,
    /// so it stays lost until it is written again.
    lost: bool,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that count against the capacity of the file system.
    pub(super) fn used_bytes(&self) -> u64 {
        self.reserved.max(self.pages.len() as u64 * PAGE_BYTES)
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (start, part) in pieces(offset, out.len(), PAGE_BYTES) {
            if let Some(page) = self.pages.get(&(start / PAGE_BYTES)) {
                let at = (start % PAGE_BYTES) as usize;
                let len = part.len();
                out[part].copy_from_slice(&page[at..at + len]);
            }
        }
        out
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (start, part) in pieces(offset, data.len(), SECTOR_BYTES as u64) {
            let sector = start / SECTOR_BYTES as u64;
            let before = self.sector(sector);
            let mut after = before;
            let at = (start % SECTOR_BYTES as u64) as usize;
            after[at..at + part.len()].copy_from_slice(&data[part]);
            self.change_sector(sector, before, &after);
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    pub(super) fn allocate(&mut self, end: u64, keep_size: bool) {
        self.reserved = self.reserved.max(end);
        if !keep_size {
            self.size = self.size.max(end);
        }
    }

    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size);
        self.zero_between(offset, end);
    }

    pub(super) fn truncate(&mut self, size: u64) {
        self.zero_between(size, self.size);
        self.size = size;
        self.reserved = self.reserved.min(size);
    }

    /// Everything written so far is on the disk now.
    pub(super) fn sync(&mut self) {
        self.unsynced.retain(|_, sector| sector.lost);
        self.synced_size = self.size;
    }

    /// A sync failed: what it should have written never reaches the disk.
    pub(super) fn fail_sync(&mut self) {
        for sector in self.unsynced.values_mut() {
            sector.lost = true;
        }
    }

    /// The bytes after loss of power; returns how many sectors went back to what they were.
    pub(super) fn crash(&mut self, chance: &mut Chance) -> u64 {
        let size_goes_back = self.size != self.synced_size && chance.loses();
        let mut dropped = 0;
        for (sector, unsynced) in std::mem::take(&mut self.unsynced) {
            let was_cut_off = sector * SECTOR_BYTES as u64 >= self.size;
            let goes_back = if was_cut_off {
                size_goes_back
            } else {
                unsynced.lost || chance.loses()
            };
            if goes_back {
                self.put_sector(sector, &unsynced.before);
                dropped += 1;
            }
        }
        if size_goes_back {
            dropped += u64::from(dropped == 0);
            self.size = self.synced_size;
        }
        self.zero_between(self.size, u64::MAX);
        self.unsynced.clear();
        self.reserved = self.reserved.min(self.size);
        self.synced_size = self.size;
        dropped
    }

    fn zero_between(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let written: Vec<u64> = self
            .pages
            .range(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES))
            .map(|(page, _)| *page)
            .collect();
        for page in written {
            let from = start.max(page * PAGE_BYTES);
            let to = end.min((page + 1) * PAGE_BYTES);
            for (at, part) in pieces(from, (to - from) as usize, SECTOR_BYTES as u64) {
                let sector = at / SECTOR_BYTES as u64;
                let before = self.sector(sector);
                let mut after = before;
                let first = (at % SECTOR_BYTES as u64) as usize;
                after[first..first + part.len()].fill(0);
                self.change_sector(sector, before, &after);
            }
            self.free_if_zero(page);
        }
    }

    fn change_sector(
        &mut self,
        sector: u64,
        before: [u8; SECTOR_BYTES],
        after: &[u8; SECTOR_BYTES],
    ) {
        if let Some(unsynced) = self.unsynced.get_mut(&sector) {
            unsynced.lost = false;
        } else if before == *after {
            return;
        }
        self.unsynced.entry(sector).or_insert(Unsynced {
            before,
            lost: false,
        });
        self.put_sector(sector, after);
    }

    fn sector(&self, sector: u64) -> [u8; SECTOR_BYTES] {
        let start = sector * SECTOR_BYTES as u64;
        let mut out = [0; SECTOR_BYTES];
        if let Some(page) = self.pages.get(&(start / PAGE_BYTES)) {
            let at = (start % PAGE_BYTES) as usize;
            out.copy_from_slice(&page[at..at + SECTOR_BYTES]);
        }
        out
    }

    fn put_sector(&mut self, sector: u64, bytes: &[u8; SECTOR_BYTES]) {
        let start = sector * SECTOR_BYTES as u64;
        let page = self
            .pages
            .entry(start / PAGE_BYTES)
            .or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
        let at = (start % PAGE_BYTES) as usize;
        page[at..at + SECTOR_BYTES].copy_from_slice(bytes);
    }

    fn free_if_zero(&mut self, page: u64) {
        if self
            .pages
            .get(&page)
            .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        {
            self.pages.remove(&page);
        }
    }
}

/// Cuts a range into pieces that do not cross a multiple of `unit`: where each starts in the
/// file, and which part of the buffer it is.
fn pieces(
    offset: u64,
    length: usize,
    unit: u64,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let start = offset + done as u64;
        let room = (unit - start % unit) as usize;
        let end = length.min(done + room);
        let part = done..end;
        done = end;
        Some((start, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synced_write_survives_every_crash() {
        for seed in 0..200 {
            let mut content = Content::default();
            content.write(300, &[7; 3000]);
            content.sync();
            content.write(3300, &[8; 3000]);
            content.crash(&mut Chance::even(seed));
            assert_eq!(content.read(300, 3000), vec![7; 3000], "seed {seed}");
        }
    }

    #[test]
    fn an_unsynced_write_tears_at_sectors() {
        let mut torn = 0;
        for seed in 0..200 {
            let mut content = Content::default();
            content.allocate(8192, false);
            content.sync();
            content.write(0, &[1; 4096]);
            content.crash(&mut Chance::even(seed));
            let bytes = content.read(0, 4096);
            for sector in bytes.chunks(SECTOR_BYTES) {
                assert!(sector.iter().all(|byte| *byte == sector[0]));
            }
            torn += u32::from(bytes.contains(&0) && bytes.contains(&1));
        }
        assert!(torn > 150, "only {torn} of 200 crashes tore the write");
    }

    #[test]
    fn what_a_failed_sync_dropped_stays_lost_after_a_later_sync() {
        let mut content = Content::default();
        content.allocate(4096, false);
        content.sync();
        content.write(0, &[1; 512]);
        content.fail_sync();
        content.write(512, &[2; 512]);
        content.sync();
        assert_eq!(content.read(0, 512), vec![1; 512]);
        content.crash(&mut Chance::even(1));
        assert_eq!(content.read(0, 512), vec![0; 512]);
        assert_eq!(content.read(512, 512), vec![2; 512]);
    }

    #[test]
    fn preallocation_and_zeros_cost_no_memory() {
        let mut content = Content::default();
        content.allocate(64 << 20, false);
        content.write(0, &[0; 8192]);
        assert_eq!((content.pages.len(), content.size()), (0, 64 << 20));
        content.write(5000, &[1; 10]);
        content.truncate(100);
        content.truncate(9000);
        assert_eq!((content.pages.len(), content.size()), (0, 9000));
        assert_eq!(content.read(5000, 10), vec![0; 10]);
    }

    #[test]
    fn an_unsynced_cut_may_come_back_whole() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut content = Content::default();
            content.write(0, &[9; 512]);
            content.sync();
            content.truncate(0);
            content.crash(&mut Chance::even(seed));
            seen.insert((content.size(), content.read(0, 512)));
        }
        assert!(
            seen.contains(&(512, vec![9; 512])),
            "the old length comes back"
        );
        assert!(seen.contains(&(0, Vec::new())), "or the cut held");
    }
}
