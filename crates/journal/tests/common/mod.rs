//! Helpers of the journal's tests.
#![allow(dead_code, reason = "each test file uses some of them")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hivewire_journal::testing::MemoryStorage;
use hivewire_journal::{Durable, Journal, OpenError, Options, Position, Recovery, Sync};

/// Small segments, so that tests roll over many.
pub fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        record_bytes_max: 8 << 10,
        pending_bytes_max: 16 << 10,
        sync: Sync::Fdatasync,
    }
}

pub struct Opened {
    pub journal: Journal,
    pub recovery: Recovery,
    pub records: Vec<(Position, Vec<u8>)>,
}

pub fn open(storage: &MemoryStorage) -> Result<Opened, OpenError> {
    open_with(storage, options())
}

pub fn open_with(storage: &MemoryStorage, options: Options) -> Result<Opened, OpenError> {
    let mut records = Vec::new();
    let (journal, recovery) = Journal::open(
        Arc::new(storage.clone()),
        options,
        &mut |position, record| {
            records.push((position, record.to_vec()));
        },
    )?;
    Ok(Opened {
        journal,
        recovery,
        records,
    })
}

impl Opened {
    /// Registers every record as needed, so that no segment goes.
    pub fn keep_all(&self) {
        for (position, _) in &self.records {
            self.journal.keep(*position, 1);
        }
    }
}

/// Waits until `condition` holds, and fails loudly if it does not within ten seconds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn durable(journal: &Journal, position: Position) -> Durable {
    eventually("durable or failed", || {
        journal.durable().covers(position) || journal.durable().failed
    });
    journal.durable()
}

/// Waits until appending is welcome.
pub fn until_ready(journal: &Journal) {
    eventually("ready", || journal.is_ready());
}

/// A record whose content depends on its number, of a length that varies.
pub fn record(number: u64) -> Vec<u8> {
    let length = 8 + (number.wrapping_mul(2654435761) >> 7) % 300;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((8..length).map(|at| (number + at) as u8));
    bytes
}

pub fn number(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().unwrap())
}
