//! A store of state in a folder: a tree of sorted tables that are written once, each with checksums and a filter.
//!
//! It is made when something is moved to disk for the first time. There is no log of its own: what it takes in at once
//! becomes tables, and counts as soon as a new list of tables, safe on disk, names them.

use std::fs::{DirBuilder, File};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use journal::Position;
use kernel::Name;
use lsm_tree::compaction::{CompactionStrategy, Leveled};
use lsm_tree::config::PinningPolicy;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, Guard, SeqNo, SequenceNumberCounter};
use parking_lot::Mutex;

use super::cold::{ColdStore, Moved, Moving, Pairs, Stamp, StateError};
use super::layer::Layer;

/// Blocks of tables that are kept in memory; the filters and indexes come on top.
const CACHE_BYTES: u64 = 16 << 20;

/// The size of a table.
const TABLE_BYTES: u64 = 32 << 20;

/// So many lists of new tables are merged with older ones at once.
const RUNS_MERGED: u8 = 8;

/// Free space that a move leaves on the disk, for the journal.
const FREE_BYTES_MIN: u64 = 64 << 20;

const FOLDER_MODE: u32 = 0o700;

/// The list of tables that counts; a folder without it holds nothing.
const CURRENT: &str = "current";

/// What keys in the tree begin with: what is known about a bucket, what is known about the store, and a bucket's pairs.
const ABOUT_BUCKET: u8 = 1;
const ABOUT_STORE: u8 = 2;
const PAIR: u8 = 3;

const FORMAT: u64 = 1;

/// State in a folder.
pub(crate) struct DiskStore {
    place: Place,
    tree: OnceLock<Tree>,
    stamp: Mutex<Option<Stamp>>,
    /// Drawn once, for a store that is made.
    new_id: u64,
}

/// Where a store lies, for messages to people.
#[derive(Clone)]
struct Place(Arc<Path>);

struct Tree {
    tables: AnyTree,
    sequence: SequenceNumberCounter,
    strategy: Arc<dyn CompactionStrategy + Send + Sync>,
}

impl DiskStore {
    /// The store in this folder; if there is none, one is made when it is needed, with this id.
    pub fn open(folder: &Path, new_id: u64) -> Result<Self, StateError> {
        let store = Self {
            place: Place(folder.into()),
            tree: OnceLock::new(),
            stamp: Mutex::new(None),
            new_id,
        };
        if folder.join(CURRENT).exists() {
            let tree = store.open_tree()?;
            *store.stamp.lock() = store.read_stamp(&tree)?;
            let _ = store.tree.set(tree);
        }
        Ok(store)
    }

    fn open_tree(&self) -> Result<Tree, StateError> {
        let sequence = SequenceNumberCounter::new(1);
        let visible = SequenceNumberCounter::new(1);
        // In memory always: without them a look for a key that is not there would read from disk.
        let config = Config::new(&self.place.0, sequence.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE_BYTES)))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_partitioning_policy(PinningPolicy::all(false))
            .index_block_partitioning_policy(PinningPolicy::all(false));
        let tables = self.guarded("opened", || config.open())?;
        let next = tables.get_highest_seqno().map_or(1, |highest| highest + 1);
        sequence.fetch_max(next);
        visible.fetch_max(next);
        let strategy = Leveled::default()
            .with_l0_threshold(RUNS_MERGED)
            .with_table_target_size(TABLE_BYTES);
        Ok(Tree {
            tables,
            sequence,
            strategy: Arc::new(strategy),
        })
    }

    /// The tree, made if there is none.
    fn tree_or_new(&self) -> Result<&Tree, StateError> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        make_folder(&self.place.0).map_err(|error| self.place.error("made", &error.into()))?;
        let tree = self.open_tree()?;
        Ok(self.tree.get_or_init(|| tree))
    }

    fn read_stamp(&self, tree: &Tree) -> Result<Option<Stamp>, StateError> {
        let value = self.read(tree, &[ABOUT_STORE])?;
        let Some(value) = value else {
            return Ok(None);
        };
        match numbers(&value) {
            Some([FORMAT, id, generation]) => Ok(Some(Stamp { id, generation })),
            _ => Err(self
                .place
                .broken("opened", "it was written by a newer version of Hivewire")),
        }
    }

    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        let value = self.guarded("read", || tree.tables.get(key, SeqNo::MAX))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// The tree reports some damage by a panic.
    fn guarded<T>(
        &self,
        action: &'static str,
        work: impl FnOnce() -> Result<T, lsm_tree::Error>,
    ) -> Result<T, StateError> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.place.error(action, &error)),
            Err(_) => Err(self.place.broken(action, "its files do not fit together")),
        }
    }

    /// A try that ends for lack of space would leave files behind, so it is not begun.
    fn check_space(&self, moving: &[Moving]) -> Result<(), StateError> {
        let needed: usize = moving.iter().map(|part| part.layer.bytes()).sum();
        let needed = needed as u64 + FREE_BYTES_MIN;
        let free = match rustix::fs::statvfs(&*self.place.0) {
            Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
            Err(error) => return Err(self.place.error("written", &io::Error::from(error).into())),
        };
        match free < needed {
            true => Err(self
                .place
                .full(format!("{free} bytes are free, and {needed} are needed"))),
            false => Ok(()),
        }
    }
}

impl Place {
    fn error(&self, action: &'static str, error: &lsm_tree::Error) -> StateError {
        match error {
            lsm_tree::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.full(error.to_string())
            }
            error => self.broken(action, &error.to_string()),
        }
    }

    fn full(&self, reason: String) -> StateError {
        StateError::Full {
            place: self.0.display().to_string(),
            reason,
        }
    }

    fn broken(&self, action: &'static str, reason: &str) -> StateError {
        StateError::Broken {
            action,
            place: self.0.display().to_string(),
            reason: reason.to_owned(),
        }
    }
}

impl ColdStore for DiskStore {
    fn stamp(&self) -> Option<Stamp> {
        *self.stamp.lock()
    }

    fn buckets(&self) -> Result<Vec<(Name, Moved)>, StateError> {
        let Some(tree) = self.tree.get() else {
            return Ok(Vec::new());
        };
        let mut buckets = Vec::new();
        for pair in self.guarded("read", || {
            Ok(tree.tables.prefix([ABOUT_BUCKET], SeqNo::MAX, None))
        })? {
            let (key, value) = self.guarded("read", || pair.into_inner())?;
            let name = str::from_utf8(&key[1..])
                .ok()
                .and_then(|text| Name::new(text).ok());
            let (Some(name), Some([through, pairs, bytes])) = (name, numbers(&value)) else {
                return Err(self
                    .place
                    .broken("read", "what it says about a bucket makes no sense"));
            };
            let through = Position::from_raw(through);
            buckets.push((
                name,
                Moved {
                    through,
                    pairs,
                    bytes,
                },
            ));
        }
        Ok(buckets)
    }

    fn get(&self, bucket: &Name, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        match self.tree.get() {
            Some(tree) => self.read(tree, &pair_key(bucket, key)),
            None => Ok(None),
        }
    }

    fn value_bytes(&self, bucket: &Name, key: &[u8]) -> Result<Option<usize>, StateError> {
        let Some(tree) = self.tree.get() else {
            return Ok(None);
        };
        let key = pair_key(bucket, key);
        let bytes = self.guarded("read", || tree.tables.size_of(key, SeqNo::MAX))?;
        Ok(bytes.map(|bytes| bytes as usize))
    }

    fn pairs(&self, bucket: &Name, start: Bound<&[u8]>) -> Pairs {
        let Some(tree) = self.tree.get() else {
            return Box::new(std::iter::empty());
        };
        let prefix_bytes = pair_key(bucket, &[]).len();
        let start = match start {
            Bound::Included(key) => Bound::Included(pair_key(bucket, key)),
            Bound::Excluded(key) => Bound::Excluded(pair_key(bucket, key)),
            Bound::Unbounded => Bound::Included(pair_key(bucket, &[])),
        };
        let range = (start, Bound::Excluded(after_bucket(bucket)));
        let place = self.place.clone();
        let found = tree.tables.range(range, SeqNo::MAX, None);
        Box::new(found.map(move |pair| match pair.into_inner() {
            Ok((key, value)) => Ok((
                Bytes::copy_from_slice(&key[prefix_bytes..]),
                Bytes::copy_from_slice(&value),
            )),
            Err(error) => Err(place.error("read", &error)),
        }))
    }

    fn take_in(&self, moving: &[Moving]) -> Result<Stamp, StateError> {
        let tree = self.tree_or_new()?;
        self.check_space(moving)?;
        let before = self.stamp();
        let stamp = Stamp {
            id: before.map_or(self.new_id, |stamp| stamp.id),
            generation: before.map_or(0, |stamp| stamp.generation) + 1,
        };
        self.guarded("written", || write(tree, moving, stamp))?;
        *self.stamp.lock() = Some(stamp);
        Ok(stamp)
    }

    fn tidy(&self) -> Result<(), StateError> {
        let Some(tree) = self.tree.get() else {
            return Ok(());
        };
        self.guarded("tidied", || {
            let oldest_needed = tree.sequence.get();
            tree.tables.compact(tree.strategy.clone(), oldest_needed)
        })
    }

    fn disk_bytes(&self) -> u64 {
        self.tree.get().map_or(0, |tree| tree.tables.disk_space())
    }
}

/// Writes everything in the order of keys, which the tree relies on.
fn write(tree: &Tree, moving: &[Moving], stamp: Stamp) -> Result<(), lsm_tree::Error> {
    let mut tables = tree.tables.ingestion()?;
    let mut by_name: Vec<&Moving> = moving.iter().collect();
    by_name.sort_by(|a, b| a.bucket.as_str().cmp(b.bucket.as_str()));
    for part in &by_name {
        let (key, after) = (about_bucket_key(&part.bucket), part.after);
        let value = from_numbers([after.through.raw(), after.pairs, after.bytes]);
        match after.pairs {
            0 => tables.write_tombstone(key)?,
            _ => tables.write(key, value)?,
        }
    }
    let value = from_numbers([FORMAT, stamp.id, stamp.generation]);
    tables.write(vec![ABOUT_STORE], value)?;
    by_name.sort_by_key(|part| pair_key(&part.bucket, &[]));
    for part in by_name {
        for (key, value) in Layer::changes(&part.layer) {
            let key = pair_key(&part.bucket, key);
            match value {
                Some(value) => tables.write(key, &value[..])?,
                None => tables.write_tombstone(key)?,
            }
        }
    }
    tables.finish()
}

fn about_bucket_key(bucket: &Name) -> Vec<u8> {
    let mut key = vec![ABOUT_BUCKET];
    key.extend_from_slice(bucket.as_str().as_bytes());
    key
}

fn pair_key(bucket: &Name, key: &[u8]) -> Vec<u8> {
    let name = bucket.as_str().as_bytes();
    let mut whole = Vec::with_capacity(2 + name.len() + key.len());
    whole.push(PAIR);
    // A name has at most 255 bytes, as in the journal.
    whole.push(name.len() as u8);
    whole.extend_from_slice(name);
    whole.extend_from_slice(key);
    whole
}

/// The first key behind all pairs of a bucket.
fn after_bucket(bucket: &Name) -> Vec<u8> {
    let mut key = pair_key(bucket, &[]);
    // No byte of a name is the largest there is.
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}

fn from_numbers(numbers: [u64; 3]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn numbers(value: &[u8]) -> Option<[u64; 3]> {
    let (chunks, rest) = value.as_chunks::<8>();
    let numbers: Vec<u64> = chunks
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect();
    if rest.is_empty() {
        numbers.try_into().ok()
    } else {
        None
    }
}

/// Makes the folder, and makes sure that loss of power does not take it away.
fn make_folder(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)?;
    }
    match folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
