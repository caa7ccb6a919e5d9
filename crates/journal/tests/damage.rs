//! Every flipped bit, every truncation and every missing file is reported, or harms no record.

mod common;

use common::{durable, open, record};
use hivewire_journal::testing::{Loss, MemoryStorage};
use hivewire_journal::{Journal, OpenError, Recovery};

/// Enough for several batches in one segment.
const RECORDS: u64 = 100;

fn journal_on_disk(clean: bool) -> (MemoryStorage, Vec<Vec<u8>>) {
    let storage = MemoryStorage::new(1);
    let journal = open(&storage).unwrap().journal;
    let records: Vec<_> = (0..RECORDS).map(record).collect();
    for some in records.chunks(10) {
        let appended = journal.append_many(|appender| {
            some.iter()
                .map(|record| appender.append(&[record], 1).unwrap())
                .last()
        });
        durable(&journal, appended.unwrap().unwrap());
    }
    common::eventually("the next segment", || {
        storage.contents("00000002.journal").is_some()
    });
    if clean {
        journal.shutdown().unwrap();
        (storage, records)
    } else {
        drop(journal);
        (storage.restart(Loss::Nothing), records)
    }
}

/// How the check of a journal ended: never with other records than there were.
fn check(storage: &MemoryStorage, records: &[Vec<u8>]) -> Result<Recovery, OpenError> {
    let mut next = 0;
    let mut wrong = false;
    let recovery = Journal::check(storage, &mut |_, record| {
        wrong |= records.get(next).is_none_or(|expected| expected != record);
        next += 1;
    })?;
    assert!(!wrong, "a wrong record was served");
    assert_eq!(next, records.len(), "records are silently missing");
    Ok(recovery)
}

/// Returns how many flips were reported.
fn flip_bits(
    storage: &MemoryStorage,
    records: &[Vec<u8>],
    file: &str,
    bits: impl Iterator<Item = usize>,
) -> usize {
    let mut reported = 0;
    for bit in bits {
        storage.flip_bit(file, bit);
        match check(storage, records) {
            Ok(_) => {}
            Err(OpenError::Damaged { .. }) => reported += 1,
            Err(other) => panic!("bit {bit} of {file}: {other}"),
        }
        storage.flip_bit(file, bit);
    }
    reported
}

#[test]
fn every_flipped_bit_is_reported_or_harmless() {
    let (storage, records) = journal_on_disk(true);
    assert!(check(&storage, &records).unwrap().clean_shutdown);
    for file in ["00000001.journal", "00000002.journal"] {
        let bits = storage.contents(file).unwrap().len() * 8;
        let halves = [0..bits / 2, bits / 2..bits].map(|half| {
            let (storage, records) = (storage.copy(), records.clone());
            std::thread::spawn(move || flip_bits(&storage, &records, file, half))
        });
        let reported: usize = halves.map(|half| half.join().unwrap()).iter().sum();
        let records_bits = records
            .iter()
            .map(|record| (record.len() + 8) * 8)
            .sum::<usize>();
        if file == "00000001.journal" {
            assert!(
                reported >= records_bits,
                "{reported} of at least {records_bits} flips reported"
            );
        } else {
            assert_eq!(
                reported,
                36 * 8,
                "of an empty segment, only the header matters"
            );
        }
    }
}

#[test]
fn a_flipped_bit_is_reported_by_open_too() {
    let (storage, records) = journal_on_disk(true);
    let bits = storage.contents("00000001.journal").unwrap().len() * 8;
    let (mut opened, mut reported) = (0, 0);
    for bit in (0..bits).step_by(997) {
        let copy = storage.copy();
        copy.flip_bit("00000001.journal", bit);
        match open(&copy) {
            Ok(journal) => {
                assert!(
                    journal
                        .records
                        .iter()
                        .map(|(_, record)| record)
                        .eq(&records)
                );
                opened += 1;
            }
            Err(error) => {
                assert!(
                    error
                        .to_string()
                        .contains("Restore the folder from a backup"),
                    "{error}"
                );
                reported += 1;
            }
        }
    }
    assert!(opened > 0 && reported > 0, "{opened} {reported}");
}

/// The control: without the mark of a clean end, a flip in the last batch must look like a torn tail. So the
/// test above would see it if the mark did nothing.
#[test]
fn control_without_a_clean_end_the_last_batch_is_taken_for_torn() {
    let (storage, records) = journal_on_disk(false);
    let last = records.last().unwrap();
    let contents = storage.contents("00000001.journal").unwrap();
    let at = contents
        .windows(last.len())
        .position(|window| window == last)
        .unwrap();
    storage.flip_bit("00000001.journal", at * 8);
    let mut found = 0;
    let recovery = Journal::check(&storage, &mut |_, _| found += 1).unwrap();
    assert!(found < records.len());
    assert!(recovery.torn_tail.is_some() && !recovery.clean_shutdown);
}

#[test]
fn every_truncation_is_reported() {
    let (storage, records) = journal_on_disk(true);
    for file in ["00000001.journal", "00000002.journal"] {
        let contents = storage.contents(file).unwrap();
        for bytes in (0..contents.len()).rev() {
            storage.truncate(file, bytes);
            let error = check(&storage, &records).unwrap_err();
            assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        }
        storage.set_contents(file, contents);
        check(&storage, &records).unwrap();
    }
}

/// A journal of several segments, the first of which are deleted already.
fn many_segments() -> MemoryStorage {
    let storage = MemoryStorage::new(3);
    let journal = open(&storage).unwrap().journal;
    let mut positions = Vec::new();
    for number in 0..2000 {
        common::until_ready(&journal);
        positions.push(journal.append(&[&record(number)], 1).unwrap());
    }
    for position in &positions[..700] {
        journal.release(*position, 1);
    }
    common::eventually("deletion of all that can go", || {
        let first = &journal.segments()[0];
        first.number > 1 && first.keepers > 0
    });
    journal.shutdown().unwrap();
    storage
}

#[test]
fn a_missing_segment_is_reported() {
    let storage = many_segments();
    let mut names = hivewire_journal::Storage::list(&storage).unwrap();
    names.retain(|name| name.ends_with(".journal"));
    assert!(
        names.len() >= 4 && names[0] != "00000001.journal",
        "{names:?}"
    );
    open(&storage.copy()).unwrap();
    for (index, name) in names.iter().enumerate() {
        let copy = storage.copy();
        hivewire_journal::Storage::remove(&copy, name).unwrap();
        let opened = open(&copy);
        if index + 1 == names.len() {
            // The one prepared ahead holds nothing.
            assert!(opened.unwrap().recovery.clean_shutdown);
        } else {
            let Err(OpenError::Damaged { file, .. }) = opened else {
                panic!("{name} was not missed")
            };
            assert_eq!(&file, name);
        }
    }
    for count in 1..=names.len() {
        for part in [&names[..count], &names[names.len() - count..]] {
            let copy = storage.copy();
            part.iter()
                .for_each(|name| hivewire_journal::Storage::remove(&copy, name).unwrap());
            assert_eq!(
                open(&copy).is_ok(),
                part == &names[names.len() - 1..],
                "without {part:?}"
            );
        }
    }
}

#[test]
fn a_segment_in_the_place_of_another_is_reported() {
    let storage = many_segments();
    let names = hivewire_journal::Storage::list(&storage).unwrap();
    let (first, second) = (&names[0], &names[1]);
    storage.set_contents(second, storage.contents(first).unwrap());
    assert!(matches!(open(&storage), Err(OpenError::Damaged { .. })));
}

#[test]
fn another_format_is_named() {
    let (storage, _) = journal_on_disk(true);
    let mut contents = storage.contents("00000001.journal").unwrap();
    contents[8] = 2;
    let checksum = crc32c::crc32c(&contents[..32]);
    contents[32..36].copy_from_slice(&checksum.to_le_bytes());
    storage.set_contents("00000001.journal", contents);
    assert!(matches!(
        open(&storage),
        Err(OpenError::UnsupportedFormat {
            found: 2,
            supported: 1,
            ..
        })
    ));
}
