//! A disk in memory that loses, tears, fails and rots on demand. For the tests of this crate and of those above.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use self::disk::{Change, Disk, Entry, FileState, Plan, apply, apply_entry};
use crate::storage::{Storage, StorageFile};

mod disk;

/// What a crash does to what was not synced.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Everything unsynced is gone.
    Unsynced,
    /// Of everything unsynced, some sectors and some names stay, by chance.
    Torn,
    /// Nothing is lost: the process was killed, the machine was not.
    Nothing,
}

/// An operation that can be made to fail.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Any of those below. Reads are not counted.
    Any,
    /// Making a file.
    Create,
    /// Taking space.
    Allocate,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing the folder.
    SyncDir,
}

/// How an operation fails.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error. Nothing happened.
    InputOutput,
    /// No space left. Nothing happened.
    NoSpace,
    /// The power fails during the operation: from here on everything fails, until [`MemoryStorage::restart`].
    Crash,
}

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStorage {
    disk: Arc<Mutex<Disk>>,
    generation: u64,
}

impl MemoryStorage {
    /// An empty disk; `seed` determines its random choices.
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            random: seed,
            ..Disk::default()
        };
        Self {
            disk: Arc::new(Mutex::new(disk)),
            generation: 0,
        }
    }

    /// Lets `operation` fail once, after `after` more of it have succeeded.
    pub fn fail(&self, operation: Operation, after: u64, fault: Fault) {
        self.disk.lock().plans.push(Plan {
            operation,
            remaining: after,
            fault,
        });
    }

    /// Forgets all faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.disk.lock().plans.clear();
    }

    /// Limits the space for files; `None` takes the limit away.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.disk.lock().capacity_bytes = capacity_bytes;
    }

    /// How many operations there were.
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// How many files were synced.
    pub fn syncs(&self) -> u64 {
        self.disk.lock().syncs
    }

    /// Whether a planned crash has happened.
    pub fn is_crashed(&self) -> bool {
        self.disk.lock().crashed
    }

    /// The power fails now, if it has not yet, and comes back. Returns the disk as the next process finds it; all
    /// older handles and files fail from now on.
    pub fn restart(&self, loss: Loss) -> MemoryStorage {
        let mut disk = self.disk.lock();
        disk.lose(loss);
        disk.crashed = false;
        disk.generation += 1;
        Self {
            disk: self.disk.clone(),
            generation: disk.generation,
        }
    }

    /// The contents of a file.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk.lock();
        disk.names
            .get(name)
            .map(|file| disk.files[file].current.clone())
    }

    /// Replaces the contents of a file, or makes one, durably.
    pub fn set_contents(&self, name: &str, contents: Vec<u8>) {
        let mut disk = self.disk.lock();
        let file = disk
            .names
            .get(name)
            .copied()
            .unwrap_or_else(|| disk.add_file(name));
        disk.durable_names.insert(name.to_owned(), file);
        let state = FileState {
            durable: contents.clone(),
            current: contents,
            unsynced: Vec::new(),
        };
        disk.files.insert(file, state);
    }

    /// Flips one bit of a file, durably.
    pub fn flip_bit(&self, name: &str, bit: usize) {
        let mut disk = self.disk.lock();
        let file = disk.names[name];
        let state = disk.files.get_mut(&file).expect("a name has a file");
        state.current[bit / 8] ^= 1 << (bit % 8);
        if let Some(byte) = state.durable.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Cuts a file off, durably.
    pub fn truncate(&self, name: &str, bytes: usize) {
        let mut disk = self.disk.lock();
        let file = disk.names[name];
        let state = disk.files.get_mut(&file).expect("a name has a file");
        state.current.truncate(bytes);
        state.durable.truncate(bytes);
    }

    /// A disk of its own with the same contents.
    pub fn copy(&self) -> MemoryStorage {
        let disk = self.disk.lock();
        let copy = Disk {
            files: disk.files.clone(),
            names: disk.names.clone(),
            durable_names: disk.durable_names.clone(),
            unsynced_names: disk.unsynced_names.clone(),
            next_file: disk.next_file,
            random: disk.random,
            capacity_bytes: disk.capacity_bytes,
            ..Disk::default()
        };
        Self {
            disk: Arc::new(Mutex::new(copy)),
            generation: 0,
        }
    }

    fn begin(&self, operation: Operation) -> io::Result<(parking_lot::MutexGuard<'_, Disk>, bool)> {
        let mut disk = self.disk.lock();
        disk.check_alive(self.generation)?;
        match disk.count(operation) {
            None => Ok((disk, false)),
            Some(Fault::Crash) => Ok((disk, true)),
            Some(Fault::InputOutput) => Err(Errno::IO.into()),
            Some(Fault::NoSpace) => Err(Errno::NOSPC.into()),
        }
    }

    /// Does a change of names; if the power fails meanwhile, it happens unsynced and the caller never learns.
    fn change_names(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut Disk) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut disk, crash) = self.begin(operation)?;
        let changed = change(&mut disk);
        disk.end(crash).and(changed)
    }
}

fn not_found() -> io::Error {
    Errno::NOENT.into()
}

impl Storage for MemoryStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        let disk = self.disk.lock();
        disk.check_alive(self.generation)?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let disk = self.disk.lock();
        disk.check_alive(self.generation)?;
        let file = *disk.names.get(name).ok_or_else(not_found)?;
        Ok(Box::new(MemoryFile {
            storage: self.clone(),
            file,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut made = 0;
        self.change_names(Operation::Create, |disk| {
            if disk.names.contains_key(name) {
                return Err(Errno::EXIST.into());
            }
            made = disk.add_file(name);
            disk.unsynced_names.push(Entry::Set(name.to_owned(), made));
            Ok(())
        })?;
        Ok(Box::new(MemoryFile {
            storage: self.clone(),
            file: made,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change_names(Operation::Rename, |disk| {
            let file = disk.names.remove(from).ok_or_else(not_found)?;
            disk.names.insert(to.to_owned(), file);
            disk.unsynced_names.push(Entry::Set(to.to_owned(), file));
            disk.unsynced_names.push(Entry::Gone(from.to_owned()));
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change_names(Operation::Remove, |disk| {
            disk.names.remove(name).ok_or_else(not_found)?;
            disk.unsynced_names.push(Entry::Gone(name.to_owned()));
            Ok(())
        })
    }

    fn sync_dir(&self) -> io::Result<()> {
        let (mut disk, crash) = self.begin(Operation::SyncDir)?;
        if !crash {
            for entry in std::mem::take(&mut disk.unsynced_names) {
                apply_entry(&mut disk.durable_names, entry);
            }
        }
        disk.end(crash)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        Ok(disk.capacity_bytes.map_or(u64::MAX, |capacity| {
            capacity.saturating_sub(disk.used_bytes())
        }))
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.disk.lock().random())
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryFile {
    storage: MemoryStorage,
    file: u64,
}

impl MemoryFile {
    fn change(&self, operation: Operation, change: Change) -> io::Result<()> {
        let (mut disk, crash) = self.storage.begin(operation)?;
        let state = disk.files.get_mut(&self.file).ok_or_else(not_found)?;
        apply(&mut state.current, &change);
        state.unsynced.push(change);
        disk.end(crash)
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let disk = self.storage.disk.lock();
        disk.check_alive(self.storage.generation)?;
        let state = disk.files.get(&self.file).ok_or_else(not_found)?;
        let rest = state.current.get(offset as usize..).unwrap_or_default();
        let bytes = rest
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(
            Operation::Write,
            Change::Write {
                offset: offset as usize,
                data: data.to_vec(),
            },
        )
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if self.storage.free_bytes()? < bytes {
            return Err(Errno::NOSPC.into());
        }
        self.change(Operation::Allocate, Change::Length(bytes as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let (mut disk, crash) = self.storage.begin(Operation::Sync)?;
        disk.syncs += 1;
        if !crash {
            let state = disk.files.get_mut(&self.file).ok_or_else(not_found)?;
            for change in std::mem::take(&mut state.unsynced) {
                apply(&mut state.durable, &change);
            }
        }
        disk.end(crash)
    }

    fn bytes(&self) -> io::Result<u64> {
        let disk = self.storage.disk.lock();
        disk.check_alive(self.storage.generation)?;
        disk.files
            .get(&self.file)
            .map(|state| state.current.len() as u64)
            .ok_or_else(not_found)
    }
}
