//! A broker with a store of state that can be made to fail.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::testing::{Loss, MemoryStorage};
use journal::{AppendError, Options, Position};
use kernel::Name;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::state::cold::{ColdStore, Moved, Moving, Pairs, Stamp, StateError};
use crate::state::{DiskStore, StateWrite};
use crate::{
    Broker, Commit, CommitError, PublishError, Settings, StartError, StateCommit, StateSettings,
    SystemClock,
};

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// What goes wrong in the next move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends before the store has anything.
    Before,
    /// The process ends when the store has everything and the journal does not know.
    After,
    /// There is no space.
    Full,
}

/// A store in a folder that fails when it is told to.
pub struct FaultyStore {
    inner: DiskStore,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl ColdStore for FaultyStore {
    fn stamp(&self) -> Option<Stamp> {
        self.inner.stamp()
    }

    fn buckets(&self) -> Result<Vec<(Name, Moved)>, StateError> {
        self.inner.buckets()
    }

    fn get(&self, bucket: &Name, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        self.inner.get(bucket, key)
    }

    fn value_bytes(&self, bucket: &Name, key: &[u8]) -> Result<Option<usize>, StateError> {
        self.inner.value_bytes(bucket, key)
    }

    fn pairs(&self, bucket: &Name, start: Bound<&[u8]>) -> Pairs {
        self.inner.pairs(bucket, start)
    }

    fn take_in(&self, moving: &[Moving]) -> Result<Stamp, StateError> {
        let (place, reason) = ("the test".to_owned(), "it is told to".to_owned());
        let broken = |action| StateError::Broken {
            action,
            place: place.clone(),
            reason: reason.clone(),
        };
        let fault = self.fault.lock().take();
        match fault {
            None => self.inner.take_in(moving),
            Some(Fault::Before) => Err(broken("written")),
            Some(Fault::After) => {
                self.inner.take_in(moving)?;
                Err(broken("reported"))
            }
            Some(Fault::Full) => Err(StateError::Full { place, reason }),
        }
    }

    fn tidy(&self) -> Result<(), StateError> {
        self.inner.tidy()
    }

    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }
}

pub struct Rig {
    pub broker: Arc<Broker>,
    pub storage: MemoryStorage,
    pub settings: Settings,
    folder: Arc<TempDir>,
    fault: Arc<Mutex<Option<Fault>>>,
    options: Options,
    /// Where the last commit stands.
    last: Mutex<Option<Position>>,
}

/// A journal with segments so small that tests see many of them.
fn small_journal() -> Options {
    Options {
        segment_bytes: 64 << 10,
        record_bytes_max: 24 << 10,
        pending_bytes_max: 16 << 10,
        ..Options::default()
    }
}

pub fn settings(memory_bytes_max: usize) -> Settings {
    Settings {
        state: StateSettings { memory_bytes_max },
        ..Settings::default()
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn set(key: &[u8], value: &[u8]) -> StateWrite {
    StateWrite::Set {
        key: Bytes::copy_from_slice(key),
        value: Bytes::copy_from_slice(value),
    }
}

pub fn remove(key: &[u8]) -> StateWrite {
    StateWrite::Remove {
        key: Bytes::copy_from_slice(key),
    }
}

/// Starts a broker over a journal and a folder of state.
pub fn start(
    storage: &MemoryStorage,
    folder: &Path,
    settings: &Settings,
    fault: &Arc<Mutex<Option<Fault>>>,
) -> Result<Arc<Broker>, StartError> {
    start_on(storage, small_journal(), folder, settings, fault)
}

fn start_on(
    storage: &MemoryStorage,
    options: Options,
    folder: &Path,
    settings: &Settings,
    fault: &Arc<Mutex<Option<Fault>>>,
) -> Result<Arc<Broker>, StartError> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let store = FaultyStore {
        inner: DiskStore::open(folder, NEXT_ID.fetch_add(1, Ordering::Relaxed))?,
        fault: fault.clone(),
    };
    let (store, storage): (Arc<dyn ColdStore>, _) = (Arc::new(store), Arc::new(storage.clone()));
    let (settings, clock) = (settings.clone(), Arc::new(SystemClock));
    let started = Broker::start_over(Some(store), storage, options, settings, clock);
    started.map(|(broker, _)| broker)
}

impl Rig {
    pub fn new(settings: Settings) -> Self {
        Self::on(settings, small_journal())
    }

    pub fn with_large_records(settings: Settings) -> Self {
        let options = Options {
            segment_bytes: 1 << 20,
            record_bytes_max: 256 << 10,
            ..Options::default()
        };
        Self::on(settings, options)
    }

    fn on(settings: Settings, options: Options) -> Self {
        let storage = MemoryStorage::new(7);
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let fault = Arc::default();
        let state = folder.path().join("state");
        Self {
            broker: start_on(&storage, options.clone(), &state, &settings, &fault).unwrap(),
            storage,
            settings,
            folder,
            fault,
            options,
            last: Mutex::default(),
        }
    }

    pub fn state_folder(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub fn fail_next_move(&self, fault: Fault) {
        *self.fault.lock() = Some(fault);
    }

    pub fn fault_is_over(&self) -> bool {
        self.fault.lock().is_none()
    }

    /// Ends everything where it stands; gives what is left of the journal.
    pub fn end(&self, loss: Loss) -> MemoryStorage {
        self.broker.mover.as_ref().unwrap().stop();
        let storage = self.storage.restart(loss);
        storage.clear_faults();
        *self.fault.lock() = None;
        storage
    }

    pub fn crash(self, loss: Loss) -> Self {
        let storage = self.end(loss);
        let (state, options) = (self.state_folder(), self.options.clone());
        let started = start_on(&storage, options, &state, &self.settings, &self.fault);
        Self {
            broker: started.unwrap(),
            storage,
            last: Mutex::default(),
            ..self
        }
    }

    pub fn raise(&self, bucket: &str) -> (u64, Position) {
        loop {
            match self.broker.raise_epoch(&name(bucket)) {
                Ok(raised) => return raised,
                Err(CommitError::Send(PublishError::Journal(AppendError::NotReady))) => {
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub async fn commit(&self, bucket: &str, epoch: u64, writes: Vec<StateWrite>) -> Position {
        let started = Instant::now();
        loop {
            self.broker.ready_for_state().await;
            let state = StateCommit {
                bucket: name(bucket),
                epoch,
                writes: writes.clone(),
            };
            let commit = Commit {
                state: Some(state),
                ..Commit::default()
            };
            match self.broker.commit(commit) {
                Ok(stored) => {
                    *self.last.lock() = stored;
                    return stored.expect("something was written");
                }
                Err(CommitError::Send(PublishError::Journal(AppendError::NotReady))) => {
                    assert!(started.elapsed() < TIMEOUT, "the commit is never taken");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub async fn durable(&self, stored: Position) {
        let wait = self.broker.journal().wait(stored);
        tokio::time::timeout(TIMEOUT, wait).await.unwrap().unwrap();
    }

    /// Waits until no crash can take a commit back.
    pub async fn all_durable(&self) {
        let last = *self.last.lock();
        if let Some(last) = last {
            self.durable(last).await;
        }
    }

    pub fn get(&self, bucket: &str, key: &[u8]) -> Option<Bytes> {
        self.broker.state(&name(bucket), key).unwrap()
    }

    /// All pairs, read in pages.
    pub fn pairs(&self, bucket: &str, page: usize) -> Vec<(Bytes, Bytes)> {
        let mut all: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key.clone());
            let found = self
                .broker
                .scan_state(&name(bucket), after.as_deref(), page);
            let found = found.unwrap();
            let is_last = found.len() < page;
            all.extend(found);
            if is_last {
                return all;
            }
        }
    }

    pub fn generation(&self) -> u64 {
        let parts = self.broker.mover.as_ref().unwrap();
        parts.stamp().map_or(0, |stamp| stamp.generation)
    }

    /// Waits until everything in memory fits, and nothing can be lost.
    pub async fn until_moved(&self) {
        until("state is on disk", || {
            self.broker.shared.state.excess_bytes() == 0
        })
        .await;
        self.all_durable().await;
    }

    /// Fills and empties segments of the journal, and has what holds the oldest moved.
    pub async fn clean(&self, rounds: usize) {
        let queue = self.broker.queue(&name("busy")).unwrap();
        for _ in 0..rounds {
            for _ in 0..12 {
                let message = kernel::Message::new(vec![0; 20_000]);
                let durable = true;
                let mut batch = vec![crate::Publication { message, durable }];
                while !batch.is_empty() {
                    self.broker.ready().await;
                    queue.publish(&mut batch);
                }
            }
            queue.purge();
            self.broker.tidy();
        }
    }
}

pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
