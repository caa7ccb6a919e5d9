//! The state of the disk in memory, and what a crash makes of it.

use std::collections::{BTreeMap, HashMap};
use std::io;

use rustix::io::Errno;

use super::{Fault, Loss, Operation};

const SECTOR_BYTES: usize = crate::format::SECTOR_BYTES as usize;

pub(super) struct Plan {
    pub operation: Operation,
    pub remaining: u64,
    pub fault: Fault,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, data: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Default)]
pub(super) struct FileState {
    pub current: Vec<u8>,
    pub durable: Vec<u8>,
    pub unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Entry {
    Set(String, u64),
    Gone(String),
}

#[derive(Default)]
pub(super) struct Disk {
    pub files: HashMap<u64, FileState>,
    pub names: BTreeMap<String, u64>,
    pub durable_names: BTreeMap<String, u64>,
    pub unsynced_names: Vec<Entry>,
    pub next_file: u64,
    pub random: u64,
    pub plans: Vec<Plan>,
    pub operations: u64,
    pub syncs: u64,
    pub crashed: bool,
    /// Handles of before a restart are dead.
    pub generation: u64,
    pub capacity_bytes: Option<u64>,
}

impl Disk {
    pub fn check_alive(&self, generation: u64) -> io::Result<()> {
        if self.crashed || generation != self.generation {
            Err(Errno::IO.into())
        } else {
            Ok(())
        }
    }

    pub fn end(&mut self, crash: bool) -> io::Result<()> {
        self.crashed |= crash;
        if crash { Err(Errno::IO.into()) } else { Ok(()) }
    }

    pub fn count(&mut self, operation: Operation) -> Option<Fault> {
        self.operations += 1;
        let mut due = None;
        for (index, plan) in self.plans.iter_mut().enumerate() {
            if plan.operation != Operation::Any && plan.operation != operation {
                continue;
            }
            match plan.remaining.checked_sub(1) {
                Some(remaining) => plan.remaining = remaining,
                None => due = Some(index),
            }
        }
        due.map(|index| self.plans.swap_remove(index).fault)
    }

    /// SplitMix64: small, and the same on every machine.
    pub fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn add_file(&mut self, name: &str) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, FileState::default());
        self.names.insert(name.to_owned(), file);
        file
    }

    pub fn used_bytes(&self) -> u64 {
        self.names
            .values()
            .map(|file| self.files[file].current.len() as u64)
            .sum()
    }

    pub fn lose(&mut self, loss: Loss) {
        // One chance per crash, so that there are crashes where nearly all or nearly nothing stays.
        let chance = self.random() % 5;
        let keeps = move |disk: &mut Disk| match loss {
            Loss::Unsynced => false,
            Loss::Nothing => true,
            Loss::Torn => disk.random() % 4 < chance,
        };
        for entry in std::mem::take(&mut self.unsynced_names) {
            if keeps(self) {
                apply_entry(&mut self.durable_names, entry);
            }
        }
        self.names = self.durable_names.clone();
        // In order, so that the same seed makes the same choices.
        let mut files: Vec<u64> = self.files.keys().copied().collect();
        files.sort_unstable();
        for file in files {
            let mut state = self.files.remove(&file).expect("listed above");
            for change in std::mem::take(&mut state.unsynced) {
                for piece in sectors(change) {
                    if keeps(self) {
                        apply(&mut state.durable, &piece);
                    }
                }
            }
            state.current = state.durable.clone();
            if self.names.values().any(|named| *named == file) {
                self.files.insert(file, state);
            }
        }
    }
}

pub(super) fn apply_entry(names: &mut BTreeMap<String, u64>, entry: Entry) {
    match entry {
        Entry::Set(name, file) => names.insert(name, file),
        Entry::Gone(name) => names.remove(&name),
    };
}

pub(super) fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write { offset, data } => {
            if bytes.len() < offset + data.len() {
                bytes.resize(offset + data.len(), 0);
            }
            bytes[*offset..offset + data.len()].copy_from_slice(data);
        }
    }
}

/// The pieces of a change that reach the disk independently.
pub(super) fn sectors(change: Change) -> Vec<Change> {
    let Change::Write { offset, data } = change else {
        return vec![change];
    };
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let end = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let end = end.min(data.len());
        pieces.push(Change::Write {
            offset: offset + at,
            data: data[at..end].to_vec(),
        });
        at = end;
    }
    pieces
}
