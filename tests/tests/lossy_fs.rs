//! The lossy file system, used through the kernel as any program would use it.
//!
//! A small journal writes records and syncs; the oracle says what a crash took. The controls
//! leave out one sync each and must be found out.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use hivewire_tests::lossy_fs::{LossyFs, Operation};
use hivewire_tests::oracle::{Log, MessageId, Order, Verdict, judge};

const RECORD_BYTES: usize = 700;
const RECORDS: u64 = 20;
const FILE_BYTES: u64 = 64 << 20;

/// Which syncs the small journal makes.
#[derive(Clone, Copy, PartialEq)]
struct Syncs {
    data: bool,
    directory: bool,
}

const ALL: Syncs = Syncs {
    data: true,
    directory: true,
};

/// Creates a journal under a temporary name, renames it and appends records; acknowledges what
/// is synced. Ends at the first error, as a careful program does.
fn write_journal(disk: &Path, syncs: Syncs, log: &mut Log) -> io::Result<()> {
    let file = File::create(disk.join("journal.new"))?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES)?;
    if syncs.data {
        file.sync_all()?;
    }
    fs::rename(disk.join("journal.new"), disk.join("journal"))?;
    if syncs.directory {
        File::open(disk)?.sync_all()?;
    }
    for sequence in 1..=RECORDS {
        let id = MessageId {
            sender: 1,
            sequence,
        };
        log.sent(id);
        let offset = (sequence - 1) * RECORD_BYTES as u64;
        file.write_all_at(&id.body(RECORD_BYTES), offset)?;
        if syncs.data {
            file.sync_data()?;
        }
        log.acknowledged(id);
    }
    Ok(())
}

fn read_journal(disk: &Path) -> BTreeSet<MessageId> {
    let Ok(file) = File::open(disk.join("journal")) else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for record in 0..RECORDS {
        let mut bytes = vec![0; RECORD_BYTES];
        if file
            .read_exact_at(&mut bytes, record * RECORD_BYTES as u64)
            .is_ok()
        {
            found.extend(MessageId::from_body(&bytes));
        }
    }
    found
}

/// Runs the journal until the power goes at this operation, then looks what is left.
fn crash_at(operation: u64, syncs: Syncs) -> Verdict {
    let mut disk = LossyFs::mount().unwrap();
    disk.cut_power_at(operation);
    let mut log = Log::default();
    let ended = write_journal(disk.path(), syncs, &mut log);
    assert_eq!(ended.is_err(), disk.power_is_cut());
    disk.crash(operation).unwrap();
    judge(&log, &read_journal(disk.path()), Order::Any)
}

fn operations_in_all(syncs: Syncs) -> u64 {
    let disk = LossyFs::mount().unwrap();
    write_journal(disk.path(), syncs, &mut Log::default()).unwrap();
    let counts = disk.operation_counts();
    assert_eq!(counts[&Operation::Write], RECORDS);
    assert_eq!(counts[&Operation::Rename], 1);
    assert_eq!(counts[&Operation::Allocate], 1);
    disk.operations()
}

fn lost_over_all_points(syncs: Syncs) -> usize {
    let points = 1..=operations_in_all(syncs) + 1;
    points.map(|point| crash_at(point, syncs).lost()).sum()
}

#[test]
fn what_was_synced_survives_a_crash_at_every_operation() {
    // Create, allocate, sync, rename, sync the directory; then a write and a sync per record.
    assert_eq!(operations_in_all(ALL), 5 + 2 * RECORDS);
    for point in 1..=operations_in_all(ALL) + 1 {
        crash_at(point, ALL).assert_clean(&format!("power cut at operation {point}"));
    }
}

#[test]
fn control_without_syncing_data_the_oracle_finds_loss() {
    let syncs = Syncs { data: false, ..ALL };
    assert!(lost_over_all_points(syncs) > 0);
}

#[test]
fn control_without_syncing_the_directory_the_oracle_finds_loss() {
    let syncs = Syncs {
        directory: false,
        ..ALL
    };
    assert!(lost_over_all_points(syncs) > 0);
}

#[test]
fn after_the_cut_everything_fails_and_nothing_changes() {
    let mut disk = LossyFs::mount().unwrap();
    let path = disk.path().to_owned();
    fs::write(path.join("kept"), "kept").unwrap();
    File::open(path.join("kept")).unwrap().sync_all().unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    disk.cut_power();
    assert!(fs::write(path.join("late"), "late").is_err());
    assert!(fs::remove_file(path.join("kept")).is_err());
    disk.crash(1).unwrap();
    assert_eq!(fs::read(path.join("kept")).unwrap(), b"kept");
    assert!(!path.join("late").exists());
}

#[test]
fn unsynced_names_come_back_or_not_and_renames_are_whole() {
    let (mut renamed, mut not_renamed, mut unlinked, mut not_unlinked) = (0, 0, 0, 0);
    for seed in 0..40 {
        let mut disk = LossyFs::mount().unwrap();
        let path = disk.path().to_owned();
        fs::create_dir(path.join("d")).unwrap();
        for name in ["d/old", "d/gone"] {
            let mut file = File::create(path.join(name)).unwrap();
            file.write_all(name.as_bytes()).unwrap();
            file.sync_all().unwrap();
        }
        File::open(&path).unwrap().sync_all().unwrap();
        File::open(path.join("d")).unwrap().sync_all().unwrap();
        fs::rename(path.join("d/old"), path.join("d/new")).unwrap();
        fs::remove_file(path.join("d/gone")).unwrap();
        disk.crash(seed).unwrap();
        let names: BTreeSet<String> = fs::read_dir(path.join("d"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        match (names.contains("old"), names.contains("new")) {
            (true, false) => not_renamed += 1,
            (false, true) => renamed += 1,
            both_or_none => panic!("seed {seed}: the rename was torn: {both_or_none:?}"),
        }
        if names.contains("gone") {
            assert_eq!(fs::read(path.join("d/gone")).unwrap(), b"d/gone");
            not_unlinked += 1;
        } else {
            unlinked += 1;
        }
    }
    assert!(
        [renamed, not_renamed, unlinked, not_unlinked]
            .iter()
            .all(|times| *times > 5)
    );
}

#[test]
fn a_failed_sync_is_reported_and_its_data_stays_lost() {
    let mut disk = LossyFs::mount().unwrap();
    let path = disk.path().join("file");
    let file = File::create(&path).unwrap();
    file.set_len(4096).unwrap();
    file.sync_all().unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    file.write_all_at(&[1; 512], 0).unwrap();
    disk.fail_syncs(true);
    assert!(file.sync_data().is_err());
    disk.fail_syncs(false);
    file.sync_data().unwrap();
    drop(file);
    disk.crash(3).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![0; 4096]);
}

#[test]
fn a_full_disk_says_so_and_takes_writes_again_once_there_is_space() {
    let disk = LossyFs::mount().unwrap();
    disk.limit_capacity_bytes(Some(1 << 20));
    fs::write(disk.path().join("first"), vec![1; 900 << 10]).unwrap();
    let full = fs::write(disk.path().join("second"), vec![1; 200 << 10]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    disk.limit_capacity_bytes(None);
    fs::write(disk.path().join("second"), vec![1; 200 << 10]).unwrap();
}

#[test]
fn locks_work_as_on_any_file_system() {
    let disk = LossyFs::mount().unwrap();
    let path = disk.path().join("lock");
    let first = File::create(&path).unwrap();
    first.try_lock().unwrap();
    let second = File::open(&path).unwrap();
    assert!(second.try_lock().is_err());
    drop(first);
    second.try_lock().unwrap();
}
