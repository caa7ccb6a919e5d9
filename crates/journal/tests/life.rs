//! The ordinary life of a journal: append, read, roll, delete, reopen, many at once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{durable, eventually, number, open, open_with, options, record, until_ready};
use hivewire_journal::testing::{Loss, MemoryStorage};
use hivewire_journal::{AppendError, DiskStorage, Journal, Options, Position, ReadError};

#[test]
fn reopened_again_and_again() {
    let mut storage = MemoryStorage::new(5);
    let mut expected = Vec::new();
    for round in 0..300 {
        let opened = open(&storage).unwrap();
        assert!(opened.records == expected, "round {round}");
        opened.keep_all();
        assert_eq!(opened.recovery.records as usize, expected.len());
        let clean = round % 3 != 0;
        for _ in 0..round % 7 {
            let bytes = record(expected.len() as u64);
            let position = opened
                .journal
                .append(&[&bytes[..4], &bytes[4..]], 1)
                .unwrap();
            expected.push((position, bytes));
        }
        if let Some((position, _)) = expected.last() {
            assert!(durable(&opened.journal, *position).covers(*position));
        }
        if clean {
            opened.journal.shutdown().unwrap();
        } else {
            storage = storage.restart(Loss::Torn);
        }
    }
    assert!(expected.last().unwrap().0.segment() > 2);
}

#[test]
fn records_are_read_back_from_memory_and_disk() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    let long = vec![9; 8 << 10];
    let mut positions = Vec::new();
    for number in 0..1000 {
        until_ready(&journal);
        let position = journal.append(&[&record(number)], 1).unwrap();
        assert_eq!(journal.read(position).unwrap(), record(number));
        positions.push(position);
    }
    until_ready(&journal);
    let long_position = journal.append(&[&long], 1).unwrap();
    durable(&journal, long_position);
    assert_eq!(journal.read(long_position).unwrap(), long);
    for (expected, position) in positions.iter().enumerate() {
        assert_eq!(number(&journal.read(*position).unwrap()), expected as u64);
    }
    assert!(matches!(
        journal.read(Position::new(99, 512)),
        Err(ReadError::Gone { .. })
    ));
    let wrong = Position::from_raw(positions[0].raw() + 1);
    assert!(matches!(
        journal.read(wrong),
        Err(ReadError::Damaged { .. })
    ));
    storage.flip_bit("00000001.journal", (positions[0].offset() as usize + 8) * 8);
    assert!(matches!(
        journal.read(positions[0]),
        Err(ReadError::Damaged { .. })
    ));
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let journal = open(&MemoryStorage::new(1)).unwrap().journal;
    let refused = journal.append(&[&vec![0; 8 << 10], b"x"], 1).unwrap_err();
    assert_eq!(
        refused,
        AppendError::TooLarge {
            bytes: 8193,
            record_bytes_max: 8 << 10
        }
    );
    journal.append(&[&vec![0; 8 << 10]], 1).unwrap();
}

#[test]
fn several_records_stand_together() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    let positions = journal.append_many(|appender| {
        let first = appender.append(&[b"one"], 1)?;
        let second = appender.append_with(3, 0, |buffer| {
            buffer.clear();
            buffer.extend_from_slice(b"two");
        })?;
        Ok::<_, AppendError>([first, second])
    });
    let [first, second] = positions.unwrap().unwrap();
    assert_eq!(second.offset(), first.offset() + 8 + 3);
    assert_eq!(journal.segments()[0].keepers, 1);
    journal.shutdown().unwrap();
    assert!(matches!(
        journal.append(&[b"late"], 1),
        Err(AppendError::Failed(_))
    ));
    let records = open(&storage).unwrap().records;
    assert_eq!(
        records,
        [(first, b"one".to_vec()), (second, b"two".to_vec())]
    );
}

#[test]
fn front_segments_go_only_when_nobody_keeps_them_and_never_come_back() {
    let mut storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    let mut positions = Vec::new();
    while positions
        .last()
        .is_none_or(|position: &Position| position.segment() < 6)
    {
        until_ready(&journal);
        positions.push(
            journal
                .append(&[&record(positions.len() as u64)], 2)
                .unwrap(),
        );
    }
    // All of segment 2, all but one keeper of segment 1: nothing may go.
    let in_segment = |number| {
        positions
            .iter()
            .filter(move |position| position.segment() == number)
    };
    in_segment(2).for_each(|position| journal.release(*position, 2));
    in_segment(1)
        .skip(1)
        .for_each(|position| journal.release(*position, 2));
    journal.release(positions[0], 1);
    durable(&journal, *positions.last().unwrap());
    assert_eq!(journal.segments()[0].number, 1);
    // The last keeper: both go.
    journal.release(positions[0], 1);
    eventually("deletion", || journal.segments()[0].number == 3);
    eventually("files gone", || {
        storage.contents("00000002.journal").is_none()
    });
    assert!(matches!(
        journal.read(positions[0]),
        Err(ReadError::Gone { .. })
    ));
    eventually("counted", || journal.counters().segments_deleted == 2);
    positions.retain(|position| position.segment() >= 3);
    for round in 0..4 {
        storage = storage.restart(if round % 2 == 0 {
            Loss::Unsynced
        } else {
            Loss::Torn
        });
        let opened = open(&storage).unwrap();
        let found = opened.records.iter().map(|(position, _)| position);
        assert!(found.eq(&positions), "round {round}");
        opened.keep_all();
        let position = opened.journal.append(&[b"one more"], 1).unwrap();
        durable(&opened.journal, position);
        assert_eq!(opened.journal.segments()[0].number, 3);
        positions.push(position);
    }
}

/// The control: what is kept after a replay is not deleted, what is not kept is.
#[test]
fn control_without_keepers_the_front_goes_after_a_replay() {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    for number in 0..1500 {
        until_ready(&journal);
        journal.append(&[&record(number)], 1).unwrap();
    }
    journal.shutdown().unwrap();
    let opened = open(&storage).unwrap();
    let last = opened.journal.segments().last().unwrap().number;
    assert!(last > 2);
    assert_eq!(
        opened.journal.segments()[0].number,
        1,
        "nothing goes before the first append or release"
    );
    opened.journal.append(&[b"go"], 1).unwrap();
    eventually("deletion", || opened.journal.segments()[0].number >= last);
}

#[test]
fn many_appenders_at_once() {
    const THREADS: u64 = 8;
    const EACH: u64 = 2000;
    let storage = MemoryStorage::new(1);
    let opened = open_with(
        &storage,
        Options {
            pending_bytes_max: 4 << 10,
            ..options()
        },
    )
    .unwrap();
    let journal = opened.journal;
    let announced = Arc::new(AtomicU64::new(0));
    let seen = announced.clone();
    journal.on_durable(Box::new(move |durable| {
        _ = seen.fetch_max(durable.position.raw(), Ordering::Relaxed)
    }));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| appender(journal.clone(), thread * EACH, EACH))
        .collect();
    let positions: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    let last = *positions.iter().max().unwrap();
    assert!(durable(&journal, last).covers(last));
    eventually("announced", || {
        announced.load(Ordering::Relaxed) >= last.raw()
    });
    let counters = journal.counters();
    assert_eq!(counters.appended_records, THREADS * EACH);
    assert!(counters.syncs < counters.appended_records);
    journal.shutdown().unwrap();
    let records = open(&storage).unwrap().records;
    assert_eq!(records.len() as u64, THREADS * EACH);
    // Every record is where its appender was told, and each appender's are in order.
    let mut sorted = positions.clone();
    sorted.sort_unstable();
    assert!(records.iter().map(|(position, _)| *position).eq(sorted));
    for (index, position) in positions.iter().enumerate() {
        let at = records
            .binary_search_by_key(position, |(position, _)| *position)
            .unwrap();
        assert_eq!(records[at].1, record(index as u64));
    }
    let in_order = |pair: &[Position]| pair[0] < pair[1];
    assert!(
        positions
            .chunks(EACH as usize)
            .all(|own| own.windows(2).all(in_order))
    );
}

fn appender(journal: Journal, first: u64, count: u64) -> std::thread::JoinHandle<Vec<Position>> {
    let append = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut positions = Vec::new();
            for number in first..first + count {
                tokio::time::timeout(Duration::from_secs(10), journal.ready())
                    .await
                    .unwrap()
                    .unwrap();
                positions.push(journal.append(&[&record(number)], 1).unwrap());
            }
            journal.wait(*positions.last().unwrap()).await.unwrap();
            positions
        })
    };
    std::thread::spawn(append)
}

#[test]
fn on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data").join("journal");
    let mut expected = Vec::new();
    for clean in [true, false, true] {
        let storage = Arc::new(DiskStorage::open(&path).unwrap());
        let mut found = Vec::new();
        let opened = Journal::open(storage, options(), &mut |position, record| {
            found.push((position, record.to_vec()));
        });
        let (journal, recovery) = opened.unwrap();
        assert!(found == expected);
        found
            .iter()
            .for_each(|(position, _)| journal.keep(*position, 1));
        assert!(recovery.torn_tail.is_none());
        let mut last = Position::ZERO;
        for _ in 0..500 {
            until_ready(&journal);
            let bytes = record(expected.len() as u64);
            last = journal.append(&[&bytes], 1).unwrap();
            expected.push((last, bytes));
        }
        assert!(durable(&journal, last).covers(last));
        assert_eq!(journal.read(last).unwrap(), expected.last().unwrap().1);
        if clean {
            journal.shutdown().unwrap();
        }
    }
}

#[test]
fn a_listener_that_panics_stops_the_journal_openly() {
    let journal = open(&MemoryStorage::new(1)).unwrap().journal;
    journal.on_durable(Box::new(|durable| {
        assert!(durable.failed, "a planted panic")
    }));
    let position = journal.append(&[b"x"], 1).unwrap();
    eventually("failure", || journal.durable().failed);
    assert!(journal.durable().covers(position));
    assert!(journal.failure().unwrap().reason.contains("panicked"));
}
