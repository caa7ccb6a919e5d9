//! A damaged journal is reported, with file and place, and never served.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hivewire_tests::hive::{Hive, HiveError};
use hivewire_tests::oracle::{Log, MessageId, Order, Verdict, judge};
use hivewire_tests::stomp_client::Stomp;
use hivewire_tests::workload::drain;

const QUEUE: &str = "/queue/kept";
/// Several segments, so that damage also comes in one that is not the last.
const CONFIG: &str = "[journal]\nsegment_bytes = 65536\n";
const MESSAGES: u64 = 100;
const BODY_BYTES: usize = 2_000;
const FLIPS_IN_BODIES: usize = 12;
const FLIPS_ANYWHERE: usize = 12;
/// A record is found broken at its start, this far before the flipped bit at most.
const RECORD_BYTES_MAX: u64 = 4_096;
const DRAINING_CONSUMER: u32 = 99;
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

/// How the instance ended before its journal was damaged.
#[derive(Clone, Copy, Debug)]
enum End {
    Stopped,
    Killed,
}

/// The data of an instance that has ended, with what it had acknowledged.
struct Ended {
    hive: Hive,
    log: Log,
}

impl Ended {
    fn new(end: End) -> Self {
        let mut hive = Hive::options().config(CONFIG).start().unwrap();
        let mut log = Log::default();
        let mut client = Stomp::connect(hive.stomp_address()).unwrap();
        for sequence in 1..=MESSAGES {
            let id = MessageId {
                sender: 1,
                sequence,
            };
            log.sent(id);
            client.send_durable(QUEUE, &id.body(BODY_BYTES)).unwrap();
            log.acknowledged(id);
        }
        client.close();
        match end {
            End::Stopped => assert!(hive.terminate().unwrap().success()),
            End::Killed => hive.kill9(),
        }
        Self { hive, log }
    }

    /// The files of the journal, oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        let folder = self.hive.data().join("journal");
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "journal"))
            .collect();
        paths.sort();
        paths
    }

    /// Starts a copy of the data after `damage` was done to it.
    fn start_copy(&self, damage: impl FnOnce(&Path)) -> Started {
        let copy = tempfile::tempdir().unwrap();
        let data = copy.path().join("data");
        copy_folder(self.hive.data(), &data);
        damage(&data.join("journal"));
        let before = contents(&data.join("journal"));
        let options = Hive::options().config(CONFIG).data(&data);
        let mut hive = options.prepare().unwrap();
        hive.spawn().unwrap();
        match hive.wait_healthy(REFUSED_WITHIN) {
            Ok(()) => {
                let mut log = self.log.clone();
                drain(hive.stomp_address(), QUEUE, DRAINING_CONSUMER, &mut log).unwrap();
                let order = Order::PerSenderMarkedToo;
                Started::Serves(judge(&log, &BTreeSet::new(), order))
            }
            Err(HiveError::Ended { status, log }) => {
                assert_eq!(status.code(), Some(1), "it said: {log}");
                let after = contents(&data.join("journal"));
                assert!(
                    before == after,
                    "files were changed by a start that was refused"
                );
                Started::Refused(log)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// What became of a start on damaged data.
enum Started {
    Serves(Verdict),
    Refused(String),
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every segment with its bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "journal"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Where in a segment bodies stand: the offsets of some of their bytes.
fn places_in_bodies(bytes: &[u8]) -> Vec<usize> {
    let mark = format!("-{BODY_BYTES}|").into_bytes();
    let found = bytes.windows(mark.len()).enumerate();
    found
        .filter(|(_, window)| *window == mark)
        .map(|(at, _)| at + fastrand::usize(..BODY_BYTES / 2))
        .collect()
}

fn flip(path: &Path, offset: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// The place that a refusal names: "(file 00000001.journal, byte 544)".
fn named_place(refusal: &str) -> Option<(String, u64)> {
    let (_, rest) = refusal.split_once("(file ")?;
    let (file, rest) = rest.split_once(", byte ")?;
    let (byte, _) = rest.split_once(')')?;
    Some((file.to_owned(), byte.parse().ok()?))
}

#[test]
fn a_flipped_bit_in_a_message_is_refused_with_file_and_place() {
    for end in [End::Stopped, End::Killed] {
        let ended = Ended::new(end);
        let segments = ended.segments();
        assert!(segments.len() > 2, "too few segments: {segments:?}");
        for _ in 0..FLIPS_IN_BODIES {
            let segment = &segments[fastrand::usize(..segments.len())];
            let mut places = places_in_bodies(&fs::read(segment).unwrap());
            if let End::Killed = end {
                // Damage in the very last batch cannot be told from a crash while it was written.
                places.pop();
            }
            let Some(offset) = fastrand::choice(places) else {
                continue;
            };
            let name = segment.file_name().unwrap().to_str().unwrap();
            let started = ended.start_copy(|folder| flip(&folder.join(name), offset, 3));
            let Started::Refused(refusal) = started else {
                panic!("{end:?}: served although {name} is damaged at byte {offset}");
            };
            let (file, byte) = named_place(&refusal)
                .unwrap_or_else(|| panic!("{end:?}: no place in the refusal: {refusal}"));
            assert_eq!(file, name, "{refusal}");
            let distance = (offset as u64).checked_sub(byte);
            assert!(
                distance.is_some_and(|distance| distance < RECORD_BYTES_MAX),
                "damaged at byte {offset}: {refusal}"
            );
        }
    }
}

/// A bit of this byte of this file flipped.
#[derive(Clone, Copy, Debug)]
struct Flip<'a> {
    name: &'a str,
    offset: usize,
    bit: u8,
}

fn start_flipped(ended: &Ended, at: Flip<'_>) -> Started {
    ended.start_copy(|folder| flip(&folder.join(at.name), at.offset, at.bit))
}

#[test]
fn a_flipped_bit_in_any_byte_in_use_is_refused() {
    let ended = Ended::new(End::Stopped);
    // The last segments hold the mark of the clean end, whose loss harms nothing.
    for segment in &ended.segments()[..2] {
        let bytes = fs::read(segment).unwrap();
        let name = segment.file_name().unwrap().to_str().unwrap();
        for _ in 0..FLIPS_ANYWHERE {
            let in_use: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
            let at = Flip {
                name,
                offset: fastrand::choice(in_use).unwrap(),
                bit: fastrand::u8(..8),
            };
            let Started::Refused(refusal) = start_flipped(&ended, at) else {
                panic!("served after {at:?}");
            };
            assert!(named_place(&refusal).is_some(), "{at:?}: {refusal}");
        }
    }
}

#[test]
fn a_flipped_bit_in_an_unused_byte_harms_no_message() {
    let ended = Ended::new(End::Stopped);
    for segment in ended.segments() {
        let bytes = fs::read(&segment).unwrap();
        let name = segment.file_name().unwrap().to_str().unwrap();
        let unused: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == 0).collect();
        let at = Flip {
            name,
            offset: fastrand::choice(unused).unwrap(),
            bit: fastrand::u8(..8),
        };
        // A zero may also be part of a number in use.
        match start_flipped(&ended, at) {
            Started::Refused(refusal) => assert!(named_place(&refusal).is_some(), "{refusal}"),
            Started::Serves(verdict) => verdict.assert_clean(&format!("{at:?}")),
        }
    }
}

/// Cuts a file to this length.
fn truncate(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn a_shortened_or_missing_segment_is_refused_with_its_name() {
    let ended = Ended::new(End::Stopped);
    let segments = ended.segments();
    let first_and_last = [&segments[0], &segments[segments.len() - 2]];
    for segment in first_and_last {
        let name = segment.file_name().unwrap().to_str().unwrap();
        let bytes = fs::metadata(segment).unwrap().len();
        let lengths = [0, 1, 511, 512, bytes / 2, bytes - 512, bytes - 1];
        let mut refusals: Vec<Started> = lengths
            .iter()
            .map(|length| ended.start_copy(|folder| truncate(&folder.join(name), *length)))
            .collect();
        refusals.push(ended.start_copy(|folder| fs::remove_file(folder.join(name)).unwrap()));
        for started in refusals {
            let Started::Refused(refusal) = started else {
                panic!("served although {name} is shortened or missing");
            };
            let place = named_place(&refusal);
            assert_eq!(
                place.map(|(file, _)| file).as_deref(),
                Some(name),
                "{refusal}"
            );
        }
    }
}

#[test]
fn control_undamaged_data_is_served_whole() {
    for end in [End::Stopped, End::Killed] {
        let ended = Ended::new(end);
        let Started::Serves(verdict) = ended.start_copy(|_| {}) else {
            panic!("{end:?}: refused although nothing is damaged");
        };
        verdict.assert_clean("undamaged");
        assert_eq!(verdict.acknowledged, MESSAGES as usize);
    }
}
