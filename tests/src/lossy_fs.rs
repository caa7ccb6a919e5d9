//! A file system that forgets what was not synced, for tests of loss of power.
//!
//! The main type is [`LossyFs`]: a FUSE file system in memory that any process can use. It knows
//! for every sector and every name in a directory whether a sync has made it permanent.
//! [`LossyFs::crash`] then shows the disk as it could be found after loss of power: what was
//! synced is there, everything else is there or not, as a seed decides.
//!
//! - `fsync` and `fdatasync` on a file keep its bytes and its size, but not its name.
//! - `fsync` on a directory keeps its names: files created, renamed and removed.
//! - Unsynced bytes tear at sectors of [`SECTOR_BYTES`]; each survives or not. A rename survives
//!   wholly or not at all.
//! - Every write, sync, creation, renaming, removal, allocation and cut counts as one operation,
//!   and the power can be cut at any one of them. That operation itself may or may not have
//!   happened; all later ones fail with an I/O error.
//!
//! ```no_run
//! use hivewire_tests::lossy_fs::LossyFs;
//!
//! let mut disk = LossyFs::mount()?;
//! std::fs::write(disk.path().join("forgotten"), "never synced")?;
//! disk.crash(42)?; // unmounts, loses, mounts again
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! It keeps no times, owners, links or extended attributes, and needs the right to mount.

mod chance;
mod content;
mod fuse;
mod model;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption};
use parking_lot::Mutex;
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::poll::wait_until;
use chance::Chance;
use model::Model;

/// What the disk writes wholly or not at all.
pub const SECTOR_BYTES: usize = 512;

const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// The kinds of operation that are counted and at which the power can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes written to a file.
    Write,
    /// A file synced.
    Sync,
    /// A directory synced.
    SyncDirectory,
    /// A file or directory created.
    Create,
    /// A name changed.
    Rename,
    /// A file or directory removed.
    Remove,
    /// Space allocated or holes made.
    Allocate,
    /// A file cut or stretched.
    Truncate,
}

/// What goes wrong, and when. Everything is off at first.
#[derive(Clone, Debug, Default)]
struct Faults {
    cut_power_at: Option<u64>,
    fail_syncs: bool,
    fake_syncs: bool,
    hang_syncs: bool,
    capacity_bytes: Option<u64>,
}

/// What a crash took away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Sectors that went back to what they held at the last sync.
    pub sectors: u64,
    /// Changes of names that were taken back.
    pub names: u64,
}

/// Why the file system could not do what a test asked of it.
#[derive(thiserror::Error)]
pub enum LossyFsError {
    /// Mounting was refused.
    #[error("cannot mount at {path}: {source}; run as root on a machine with /dev/fuse")]
    Mount {
        /// Where it should have been mounted.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something still uses the mounted file system.
    #[error("cannot unmount {path}: {source}; end every process that has files open there first")]
    Unmount {
        /// Where it is mounted.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Tests unwrap these, so what they print then has to be readable.
impl fmt::Debug for LossyFsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mounted file system that loses what was not synced. Dropping it unmounts it.
pub struct LossyFs {
    model: Arc<Mutex<Model>>,
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl LossyFs {
    /// Mounts an empty file system in a new temporary directory.
    pub fn mount() -> Result<Self, LossyFsError> {
        let directory = tempfile::Builder::new()
            .prefix("hivewire-lossy-")
            .tempdir()
            .map_err(|source| LossyFsError::Mount {
                path: std::env::temp_dir(),
                source,
            })?;
        let mut disk = Self {
            model: Arc::new(Mutex::new(Model::new())),
            session: None,
            directory,
        };
        disk.remount()?;
        Ok(disk)
    }

    /// Where it is mounted. The place stays the same after a crash.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Operations since mounting or since the last crash.
    pub fn operations(&self) -> u64 {
        self.model.lock().operations()
    }

    /// The same, by kind.
    pub fn operation_counts(&self) -> BTreeMap<Operation, u64> {
        self.model.lock().operation_counts()
    }

    /// Cuts the power at the operation with this number, counted from 1 like [`Self::operations`].
    pub fn cut_power_at(&self, operation: u64) {
        self.model.lock().faults.cut_power_at = Some(operation);
    }

    /// Cuts the power now.
    pub fn cut_power(&self) {
        self.model.lock().power_cut = true;
    }

    /// Whether the power is gone, so that every operation fails.
    pub fn power_is_cut(&self) -> bool {
        self.model.lock().power_cut
    }

    /// Lets every sync fail with an I/O error, or work again. What a failed sync should have
    /// written is lost, even if a later sync says it worked: this is what Linux does.
    pub fn fail_syncs(&self, fail: bool) {
        self.model.lock().faults.fail_syncs = fail;
    }

    /// Lets every sync say that it worked and do nothing, for controls.
    pub fn fake_syncs(&self) {
        self.model.lock().faults.fake_syncs = true;
    }

    /// Lets every sync hang until the guard is dropped, or the power goes. Meanwhile a process
    /// that syncs cannot even be killed.
    pub fn hang_syncs(&self) -> HangingSyncs {
        self.model.lock().faults.hang_syncs = true;
        HangingSyncs {
            model: self.model.clone(),
        }
    }

    /// Limits the space for file contents; beyond it writes fail with "no space left".
    pub fn limit_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.model.lock().faults.capacity_bytes = capacity_bytes;
    }

    /// Every file with its size, for messages about failures.
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        self.model.lock().files()
    }

    /// Loss of power, and the disk as it is found afterwards: unmounts, drops what was not
    /// synced as `seed` decides, and mounts what is left at the same place. Counting starts
    /// anew. Processes that use the file system must have ended.
    pub fn crash(&mut self, seed: u64) -> Result<Loss, LossyFsError> {
        self.crash_by(Chance::even(seed))
    }

    /// The same, but nothing at all is left of what was not synced.
    pub fn crash_losing_all_unsynced(&mut self) -> Result<Loss, LossyFsError> {
        self.crash_by(Chance::LoseAll)
    }

    fn crash_by(&mut self, chance: Chance) -> Result<Loss, LossyFsError> {
        self.cut_power();
        self.unmount()?;
        let loss = self.model.lock().crash(chance);
        self.remount()?;
        Ok(loss)
    }

    fn remount(&mut self) -> Result<(), LossyFsError> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("hivewire-lossy".into()),
            MountOption::NoAtime,
        ];
        let server = fuse::Server::new(self.model.clone());
        let session = fuser::spawn_mount(server, self.path(), &config).map_err(|source| {
            LossyFsError::Mount {
                path: self.path().to_owned(),
                source,
            }
        })?;
        self.session = Some(session);
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), LossyFsError> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        let mut last = Ok(());
        // A process that was just killed may hold the file system for a moment longer.
        wait_until(UNMOUNT_TIMEOUT, || {
            last = unmount(self.path(), UnmountFlags::empty());
            last.is_ok()
        });
        if let Err(error) = last {
            self.session = Some(session);
            return Err(LossyFsError::Unmount {
                path: self.path().to_owned(),
                source: error.into(),
            });
        }
        // The server ends by itself once the kernel has let go; its result says nothing more.
        let _ = session.join();
        Ok(())
    }
}

/// As long as it lives, syncs hang.
#[must_use]
pub struct HangingSyncs {
    model: Arc<Mutex<Model>>,
}

impl Drop for HangingSyncs {
    fn drop(&mut self) {
        self.model.lock().faults.hang_syncs = false;
    }
}

impl Drop for LossyFs {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            // Leave no dead mount behind, even if a process still has files open.
            let _ = unmount(self.path(), UnmountFlags::DETACH);
        }
    }
}
