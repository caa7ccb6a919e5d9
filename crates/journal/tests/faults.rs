//! A disk that fails or is full.

mod common;

use std::time::Duration;

use common::{durable, eventually, number, open, open_with, options, record, until_ready};
use hivewire_journal::testing::{Fault, Loss, MemoryStorage, Operation};
use hivewire_journal::{AppendError, Journal, OpenError, Position, StorageError};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn wait(journal: &Journal, position: Position) -> Result<(), String> {
    let waited = runtime().block_on(async {
        tokio::time::timeout(Duration::from_secs(10), journal.wait(position)).await
    });
    waited
        .expect("no answer in time")
        .map_err(|failed| failed.to_string())
}

fn nothing_is_acknowledged_after(operation: Operation) {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    until_ready(&journal);
    eventually("the next segment", || {
        storage.contents("00000002.journal").is_some()
    });
    let safe = journal.append(&[b"safe"], 1).unwrap();
    assert_eq!(wait(&journal, safe), Ok(()));
    let before = journal.durable();
    storage.fail(operation, 0, Fault::InputOutput);
    let lost = journal.append(&[b"lost"], 1).unwrap();
    let reason = wait(&journal, lost).unwrap_err();
    assert!(reason.contains("check the disk and restart"), "{reason}");
    assert!(journal.durable().failed && journal.watch().borrow().failed);
    assert_eq!(journal.durable().position, before.position);
    assert!(matches!(
        journal.append(&[b"more"], 1),
        Err(AppendError::Failed(_))
    ));
    assert!(matches!(
        journal.append_many(|_| ()),
        Err(AppendError::Failed(_))
    ));
    assert!(matches!(
        runtime().block_on(journal.ready()),
        Err(AppendError::Failed(_))
    ));
    // The disk works again, but nothing is tried again: the durable position stays.
    let syncs = storage.syncs();
    assert!(journal.shutdown().is_err());
    assert_eq!(
        (journal.durable().position, storage.syncs()),
        (before.position, syncs)
    );
    assert_eq!(journal.read(safe).unwrap(), "safe");
    assert_eq!(journal.read(lost).unwrap(), "lost");
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    nothing_is_acknowledged_after(Operation::Sync);
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged() {
    nothing_is_acknowledged_after(Operation::Write);
}

/// The control: without the fault the same record is acknowledged.
#[test]
fn control_without_a_fault_it_is_acknowledged() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    let position = journal.append(&[b"not lost"], 1).unwrap();
    assert_eq!(wait(&journal, position), Ok(()));
    assert!(!journal.durable().failed);
}

/// A sync that failed may leave pages that look clean: recovery writes the last batch again before it counts.
#[test]
fn what_is_recovered_after_a_failed_sync_survives_loss_of_power() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    eventually("the next segment", || {
        storage.contents("00000002.journal").is_some()
    });
    storage.fail(Operation::Sync, 0, Fault::InputOutput);
    let position = journal.append(&[b"seen again"], 1).unwrap();
    assert!(durable(&journal, position).failed);
    drop(journal);
    let storage = storage.restart(Loss::Nothing);
    let seen = open(&storage).unwrap().records;
    assert_eq!(seen.len(), 1);
    let storage = storage.restart(Loss::Unsynced);
    assert_eq!(open(&storage).unwrap().records, seen);
}

/// Fills the journal until it refuses, and returns the positions. The disk may turn out to be full
/// while it waits or, a moment later, when it appends.
fn fill(journal: &Journal) -> Vec<Position> {
    let mut positions = Vec::new();
    loop {
        let record = record(positions.len() as u64);
        let ready = runtime().block_on(journal.ready());
        match ready.and_then(|()| journal.append(&[&record], 1)) {
            Ok(position) => positions.push(position),
            Err(AppendError::DiskFull { reason }) => {
                assert!(reason.contains("bytes free"), "{reason}");
                return positions;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn full_journal() -> (MemoryStorage, Journal, Vec<Position>) {
    let storage = MemoryStorage::new(1);
    storage.set_capacity_bytes(Some(4 * options().segment_bytes as u64 + 1000));
    let journal = open(&storage).unwrap().journal;
    let positions = fill(&journal);
    (storage, journal, positions)
}

#[test]
fn a_full_disk_refuses_and_resumes_by_itself() {
    let (storage, journal, positions) = full_journal();
    assert!(positions.len() > 500);
    assert!(!journal.is_ready());
    assert!(matches!(
        journal.append(&[b"more"], 1),
        Err(AppendError::DiskFull { .. })
    ));
    // Everything taken is durable, and reads go on.
    assert_eq!(wait(&journal, *positions.last().unwrap()), Ok(()));
    assert_eq!(number(&journal.read(positions[7]).unwrap()), 7);
    storage.set_capacity_bytes(None);
    until_ready(&journal);
    let position = journal.append(&[b"more"], 1).unwrap();
    assert_eq!(wait(&journal, position), Ok(()));
    journal.shutdown().unwrap();
    assert_eq!(open(&storage).unwrap().records.len(), positions.len() + 1);
}

#[test]
fn consuming_frees_a_full_disk() {
    let (storage, journal, positions) = full_journal();
    // An acknowledgement has no keeper: it is taken from the reserve.
    for some in positions[..positions.len() / 2].chunks(50) {
        let appended = journal.append_many(|appender| {
            some.iter().try_for_each(|position| {
                appender
                    .append(&[&position.raw().to_le_bytes()], 0)
                    .map(drop)
            })
        });
        appended.unwrap().unwrap();
        some.iter()
            .for_each(|position| journal.release(*position, 1));
    }
    until_ready(&journal);
    assert!(journal.segments()[0].number > 1);
    let position = journal.append(&[b"more"], 1).unwrap();
    assert_eq!(wait(&journal, position), Ok(()));
    journal.shutdown().unwrap();
    drop(journal);
    open(&storage).unwrap();
}

/// The control: without releasing, a full disk stays full.
#[test]
fn control_a_full_disk_stays_full() {
    let (_storage, journal, _) = full_journal();
    let ready = runtime().block_on(async {
        tokio::time::timeout(Duration::from_millis(1200), journal.ready()).await
    });
    assert!(matches!(ready, Ok(Err(AppendError::DiskFull { .. }))));
}

#[test]
fn the_reserve_ends_without_harm() {
    let (storage, journal, positions) = full_journal();
    let mut taken = 0;
    let refused = loop {
        match journal.append(&[&[7; 1000]], 0) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(
        taken > 10 && matches!(refused, AppendError::DiskFull { .. }),
        "{taken} {refused}"
    );
    // Even now releasing gives space back: the mark for it has room of its own.
    positions
        .iter()
        .for_each(|position| journal.release(*position, 1));
    until_ready(&journal);
    journal.shutdown().unwrap();
    assert!(open(&storage).unwrap().recovery.clean_shutdown);
}

#[test]
fn no_space_at_a_write_is_waited_out() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    eventually("the next segment", || {
        storage.contents("00000002.journal").is_some()
    });
    storage.fail(Operation::Write, 0, Fault::NoSpace);
    let position = journal.append(&[b"patient"], 1).unwrap();
    eventually("refusal", || {
        matches!(
            journal.append(&[b"more"], 1),
            Err(AppendError::DiskFull { .. })
        )
    });
    assert_eq!(wait(&journal, position), Ok(()));
    until_ready(&journal);
    journal.append(&[b"more"], 1).unwrap();
}

#[test]
fn every_single_io_error_ends_in_success_or_an_error_but_never_in_loss() {
    for after in 0..120 {
        let storage = MemoryStorage::new(after);
        storage.fail(Operation::Any, after, Fault::InputOutput);
        let mut acknowledged = 0;
        if let Ok(opened) = open(&storage) {
            for number in 0..1500 {
                eventually("ready or failed", || {
                    opened.journal.is_ready() || opened.journal.durable().failed
                });
                let Ok(position) = opened.journal.append(&[&record(number)], 1) else {
                    break;
                };
                if number % 20 == 0 && !durable(&opened.journal, position).failed {
                    acknowledged = number + 1;
                }
            }
        }
        let storage = storage.restart(Loss::Torn);
        let records = open(&storage).unwrap().records;
        assert!(
            records.len() as u64 >= acknowledged,
            "{after}: {} < {acknowledged}",
            records.len()
        );
        assert!(
            records
                .iter()
                .zip(0..)
                .all(|((_, bytes), number)| *bytes == record(number))
        );
    }
}

#[test]
fn options_that_contradict_are_refused() {
    let storage = MemoryStorage::new(1);
    for bad in [
        hivewire_journal::Options {
            segment_bytes: 100,
            ..options()
        },
        hivewire_journal::Options {
            segment_bytes: 65_537,
            ..options()
        },
        hivewire_journal::Options {
            record_bytes_max: 64 << 10,
            ..options()
        },
        hivewire_journal::Options {
            pending_bytes_max: 0,
            ..options()
        },
    ] {
        assert!(matches!(
            open_with(&storage, bad),
            Err(OpenError::Options { .. })
        ));
    }
}

#[test]
fn a_folder_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = hivewire_journal::DiskStorage::open(folder.path()).unwrap();
    let second = hivewire_journal::DiskStorage::open(folder.path()).unwrap_err();
    let message = second.to_string();
    assert!(
        matches!(second, StorageError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{message}"
    );
    assert!(
        message.contains(folder.path().to_str().unwrap()),
        "{message}"
    );
    drop(first);
    hivewire_journal::DiskStorage::open(folder.path()).unwrap();
}
