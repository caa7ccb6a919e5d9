//! Loss of power at every operation: what was acknowledged is found again, in order, and nothing else is.

mod common;

use std::collections::BTreeSet;

use common::{number, open_with, options, record};
use hivewire_journal::testing::{Fault, Loss, MemoryStorage, Operation};
use hivewire_journal::{Journal, Options, Storage, Sync};

/// What the outside knows at the time of a crash.
#[derive(Default)]
struct Ledger {
    next: u64,
    acknowledged: BTreeSet<u64>,
    /// Released before the crash: may be gone, must not harm.
    released: u64,
}

/// Appends until the disk fails; releases the older half as it goes, so that front segments are deleted.
fn run_until_crash(journal: &Journal, storage: &MemoryStorage, ledger: &mut Ledger) {
    let mut waiting = std::collections::VecDeque::new();
    let mut kept = std::collections::VecDeque::new();
    while !storage.is_crashed() {
        assert!(ledger.next < 10_000_000, "the crash never came");
        if journal.durable().failed {
            break;
        }
        if journal.is_ready() {
            let Ok(position) = journal.append(&[&record(ledger.next)], 1) else {
                break;
            };
            waiting.push_back((ledger.next, position));
            kept.push_back((ledger.next, position));
            ledger.next += 1;
        } else {
            std::thread::yield_now();
        }
        let durable = journal.durable();
        while waiting
            .front()
            .is_some_and(|(_, position)| durable.covers(*position))
        {
            ledger.acknowledged.insert(waiting.pop_front().unwrap().0);
        }
        while kept.len() > 400
            && kept
                .front()
                .is_some_and(|(_, position)| durable.covers(*position))
        {
            let (number, position) = kept.pop_front().unwrap();
            journal.release(position, 1);
            ledger.released = number + 1;
        }
    }
    // The crash may have hit the deletion of a segment, which the journal survives: the next write does not.
    let _ = journal.append(&[&record(ledger.next)], 1);
    ledger.next += 1;
    common::eventually("failure", || journal.durable().failed);
    let durable = journal.durable();
    ledger.acknowledged.extend(
        waiting
            .iter()
            .filter(|(_, position)| durable.covers(*position))
            .map(|(n, _)| *n),
    );
}

/// Runs, crashes after `after` operations, and returns how many acknowledged records were lost.
fn lost_after_crash(seed: u64, after: u64, loss: Loss, options: &Options) -> usize {
    let storage = MemoryStorage::new(seed);
    let mut ledger = Ledger::default();
    storage.fail(Operation::Any, after, Fault::Crash);
    // A crash while opening leaves an empty ledger.
    if let Ok(opened) = open_with(&storage, options.clone()) {
        run_until_crash(&opened.journal, &storage, &mut ledger);
    }
    assert!(storage.is_crashed());
    let storage = storage.restart(loss);
    // Another crash while recovering, and then one more: recovery must not lose anything either.
    storage.fail(Operation::Any, seed % 5, Fault::Crash);
    drop(open_with(&storage, options.clone()));
    storage.clear_faults();
    let storage = storage.restart(loss);
    let opened =
        open_with(&storage, options.clone()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let found: Vec<u64> = opened
        .records
        .iter()
        .map(|(_, record)| number(record))
        .collect();
    for (number, (position, bytes)) in found.iter().zip(&opened.records) {
        assert_eq!(*bytes, record(*number), "seed {seed}: never appended");
        assert_eq!(opened.journal.read(*position).unwrap(), bytes);
    }
    assert!(
        found.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "seed {seed}: out of order or with a gap"
    );
    assert!(found.iter().all(|number| *number < ledger.next));
    let found: BTreeSet<u64> = found.into_iter().collect();
    ledger
        .acknowledged
        .iter()
        .filter(|number| **number >= ledger.released && !found.contains(number))
        .count()
}

#[test]
fn nothing_acknowledged_is_lost_at_any_operation() {
    for seed in 0..400 {
        for loss in [Loss::Torn, Loss::Unsynced] {
            // The first hundred operations one by one, later ones further apart.
            let after = if seed < 100 { seed } else { seed * 3 };
            let lost = lost_after_crash(seed, after, loss, &options());
            assert_eq!(lost, 0, "seed {seed}, {loss:?}");
        }
    }
}

/// Fills segments, lets the older ones go, and loses power while the first batch of the next segment is written.
fn crash_in_first_batch(seed: u64) -> (MemoryStorage, BTreeSet<u64>) {
    const KEPT_SEGMENT: u32 = 4;
    let long = |number: u64| [record(number), vec![7; 2_000]].concat();
    let storage = MemoryStorage::new(seed);
    let journal = open_with(&storage, short_segments()).unwrap().journal;
    let (mut kept, mut dropped) = (BTreeSet::new(), Vec::new());
    let mut room = u32::MAX;
    for number in 0.. {
        if room < 6_000 {
            // The last batch of this segment, then the first of the next.
            storage.fail(Operation::Sync, 1, Fault::Crash);
            let _ = journal.append(&[&long(number)], 1);
            break;
        }
        common::until_ready(&journal);
        let position = journal.append(&[&long(number)], 1).unwrap();
        common::durable(&journal, position);
        if position.segment() < KEPT_SEGMENT {
            dropped.push(position);
            continue;
        }
        if kept.is_empty() {
            common::eventually("the next segment", || {
                has_segment(&storage, KEPT_SEGMENT + 1)
            });
            dropped
                .drain(..)
                .for_each(|position| journal.release(position, 1));
            common::eventually("deletion", || !has_segment(&storage, KEPT_SEGMENT - 1));
        }
        kept.insert(number);
        room = short_segments().segment_bytes - position.offset();
    }
    common::eventually("the crash", || storage.is_crashed());
    (storage, kept)
}

fn has_segment(storage: &MemoryStorage, number: u32) -> bool {
    let names = storage.list().unwrap();
    names.contains(&format!("{number:08}.journal"))
}

fn short_segments() -> Options {
    Options {
        segment_bytes: 16 << 10,
        ..options()
    }
}

/// The segment that a crash cut short in its first batch knows less of what was deleted than the one before.
#[test]
fn segments_that_were_deleted_are_not_missed_after_a_crash_in_a_first_batch() {
    for seed in 0..64 {
        let (storage, kept) = crash_in_first_batch(seed);
        let storage = storage.restart(Loss::Torn);
        let opened = open_with(&storage, short_segments())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found: BTreeSet<u64> = opened.records.iter().map(|(_, r)| number(r)).collect();
        assert!(found.is_superset(&kept), "seed {seed}: {found:?}");
    }
}

#[test]
fn nothing_is_lost_when_only_the_process_dies() {
    for seed in 0..50 {
        assert_eq!(
            lost_after_crash(seed, seed * 7, Loss::Nothing, &options()),
            0,
            "seed {seed}"
        );
    }
}

/// The control: without syncs the same test must find loss.
#[test]
fn control_without_syncs_loss_is_found() {
    let unsafe_options = Options {
        sync: Sync::Off,
        ..options()
    };
    let lost: usize = (0..20)
        .map(|seed| lost_after_crash(seed, 30 + seed, Loss::Unsynced, &unsafe_options))
        .sum();
    assert!(lost > 0);
}
