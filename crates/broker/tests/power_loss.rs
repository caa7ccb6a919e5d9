//! State survives loss of power at whatever operation on the disk it comes, while it is committed, moved to disk and merged
//! there: after it, state is what some commit made of it, and that is none before the last acknowledged one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker::{
    AppendError, Broker, Commit, CommitError, PublishError, Settings, StartError, StateCommit,
    StateSettings, StateWrite, SystemClock,
};
use bytes::Bytes;
use hivewire_tests::lossy_fs::LossyFs;
use journal::{DiskStorage, Options};
use kernel::Name;

const TIMEOUT: Duration = Duration::from_secs(20);
const COMMITS: u64 = 60;
const KEYS: u64 = 12;
const POINTS: u64 = 150;
const POINTS_CONTROL: u64 = 40;
/// At every so many points the power goes once more during the next start.
const TWICE_EVERY: u64 = 3;
const START_OPERATIONS: u64 = 20;
/// At every so many points nothing unsynced is left at all.
const LOSE_ALL_EVERY: u64 = 4;

type Pairs = BTreeMap<Bytes, Bytes>;

/// What a commit writes: some keys get values, one goes.
fn writes(commit: u64) -> Vec<StateWrite> {
    let key = |number: u64| Bytes::from(format!("key {}", number % KEYS));
    let mut writes: Vec<StateWrite> = (0..3)
        .map(|index| StateWrite::Set {
            key: key(commit * 5 + index),
            value: Bytes::from(format!("{commit:0300}")),
        })
        .collect();
    let key = key(commit * 7 + 1);
    writes.push(StateWrite::Remove { key });
    writes
}

/// State after so many commits.
fn after(commits: u64) -> Pairs {
    let mut pairs = Pairs::new();
    for write in (0..commits).flat_map(writes) {
        match write {
            StateWrite::Set { key, value } => _ = pairs.insert(key, value),
            StateWrite::Remove { key } => _ = pairs.remove(&key),
        }
    }
    pairs
}

fn bucket() -> Name {
    Name::new("b").unwrap()
}

/// So little memory that every few commits are moved to disk.
fn start(journal: &Path, state: &Path) -> Result<Arc<Broker>, StartError> {
    let Ok(storage) = DiskStorage::open(journal.join("journal")) else {
        return Err(StartError::System(std::io::ErrorKind::Other.into()));
    };
    let options = Options {
        segment_bytes: 16 << 10,
        record_bytes_max: 8 << 10,
        pending_bytes_max: 8 << 10,
        ..Options::default()
    };
    let settings = Settings {
        state: StateSettings {
            memory_bytes_max: 5_000,
        },
        ..Settings::default()
    };
    let (state, clock) = (state.join("state"), Arc::new(SystemClock));
    Broker::start_with_state(&state, Arc::new(storage), options, settings, clock).map(|(b, _)| b)
}

/// Commits until all is done or the power goes; says how many were acknowledged and how many were begun.
async fn run(broker: &Broker) -> (u64, u64) {
    for commit in 0..COMMITS {
        let stored = loop {
            let ready = tokio::time::timeout(TIMEOUT, broker.ready_for_state()).await;
            ready.expect("there is room in time");
            let state = Some(StateCommit {
                bucket: bucket(),
                epoch: 0,
                writes: writes(commit),
            });
            let sends = Vec::new();
            match broker.commit(Commit {
                state,
                sends,
                ..Commit::default()
            }) {
                Ok(stored) => break stored.expect("it is stored"),
                Err(CommitError::Send(PublishError::Journal(AppendError::NotReady))) => {}
                Err(_) => return (commit, commit),
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, broker.journal().wait(stored)).await;
        if waited.expect("the sync ends in time").is_err() {
            return (commit, commit + 1);
        }
        broker.tidy();
    }
    (COMMITS, COMMITS)
}

fn pairs(broker: &Broker) -> Result<Pairs, broker::StateError> {
    Ok(broker
        .scan_state(&bucket(), None, 1_000)?
        .into_iter()
        .collect())
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn crash(disk: &mut LossyFs, seed: u64) {
    let crashed = match seed.is_multiple_of(LOSE_ALL_EVERY) {
        true => disk.crash_losing_all_unsynced(),
        false => disk.crash(seed),
    };
    crashed.unwrap();
}

/// Loses power at this operation; gives how many commits had been acknowledged.
fn lose_power_at(operation: u64, seed: u64) -> u64 {
    let mut disk = LossyFs::mount().unwrap();
    disk.cut_power_at(operation);
    let runtime = runtime();
    let (mut acknowledged, mut begun) = (0, 0);
    runtime.block_on(async {
        if let Ok(broker) = start(disk.path(), disk.path()) {
            (acknowledged, begun) = run(&broker).await;
        }
    });
    drop(runtime);
    crash(&mut disk, seed);
    if seed % TWICE_EVERY == TWICE_EVERY - 1 {
        disk.cut_power_at(1 + seed / TWICE_EVERY % START_OPERATIONS);
        let runtime = self::runtime();
        runtime.block_on(async { drop(start(disk.path(), disk.path())) });
        drop(runtime);
        crash(&mut disk, seed);
    }
    let runtime = self::runtime();
    runtime.block_on(async {
        let point = format!("operation {operation}, seed {seed}");
        let broker = start(disk.path(), disk.path());
        let broker = broker.unwrap_or_else(|error| panic!("no start after {point}: {error}"));
        let found = pairs(&broker).unwrap_or_else(|error| panic!("after {point}: {error}"));
        let is_possible = (acknowledged..=begun).any(|commits| after(commits) == found);
        assert!(
            is_possible,
            "after {point}: {acknowledged} commits were acknowledged"
        );
    });
    drop(runtime);
    acknowledged
}

/// How many operations there are without loss of power, and that they are what this is about.
fn undisturbed() -> u64 {
    let disk = LossyFs::mount().unwrap();
    let runtime = runtime();
    runtime.block_on(async {
        let broker = start(disk.path(), disk.path()).unwrap();
        assert_eq!(run(&broker).await, (COMMITS, COMMITS));
        assert_eq!(pairs(&broker).unwrap(), after(COMMITS));
        assert!(broker.state_bytes().disk > 0, "nothing was moved to disk");
    });
    drop(runtime);
    let operations = disk.operations();
    eprintln!("{operations} operations: {:?}", disk.operation_counts());
    operations
}

#[test]
fn acknowledged_state_survives_wherever_the_power_goes() {
    let operations = undisturbed();
    let points = hivewire_tests::soak::times(POINTS);
    let (next, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= points {
                        break;
                    }
                    let operation = 1 + seed * operations / points;
                    acknowledged.fetch_add(lose_power_at(operation, seed), Ordering::Relaxed);
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner();
    eprintln!("{points} points, {acknowledged} commits acknowledged, none lost");
    assert!(acknowledged > points, "next to nothing was acknowledged");
}

/// The journal on an honest disk, state on one that only says that it syncs: that must be found out.
#[test]
fn control_on_a_disk_that_does_not_sync_state_is_lost() {
    let (mut lost, mut refused) = (0, 0);
    for seed in 0..POINTS_CONTROL {
        let (mut honest, mut faking) = (LossyFs::mount().unwrap(), LossyFs::mount().unwrap());
        faking.fake_syncs();
        let runtime = runtime();
        let acknowledged = runtime.block_on(async {
            let broker = start(honest.path(), faking.path()).unwrap();
            run(&broker).await.0
        });
        drop(runtime);
        honest.crash_losing_all_unsynced().unwrap();
        faking.crash(seed).unwrap();
        let runtime = self::runtime();
        runtime.block_on(async {
            match start(honest.path(), faking.path()).map(|broker| pairs(&broker)) {
                Err(_) | Ok(Err(_)) => refused += 1,
                Ok(Ok(found)) => lost += u64::from(found != after(acknowledged)),
            }
        });
        drop(runtime);
    }
    eprintln!("{lost} of {POINTS_CONTROL} lost something without a word, {refused} were refused");
    assert!(
        lost + refused > 0,
        "nothing was lost although nothing was synced"
    );
    assert_eq!(lost, 0, "what is lost is found out");
}
