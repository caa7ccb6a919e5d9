//! A disk that is soon full, for tests of what happens then.
//!
//! [`SmallDisk`] is an ext4 file system in a file, mounted through a loop device: full as real
//! disks are full. Where loop devices are refused it is a tmpfs of the same size.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

const BALLAST: &str = "ballast";

/// What a [`SmallDisk`] is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// ext4 in a file behind a loop device.
    Loop,
    /// A tmpfs with a limit.
    Tmpfs,
}

/// A mounted file system of a limited size. Dropping it unmounts it.
pub struct SmallDisk {
    mount: PathBuf,
    kind: DiskKind,
    // Holds the image and the mount point, and goes last.
    _directory: TempDir,
}

impl SmallDisk {
    /// Makes and mounts a disk of this size.
    pub fn mount(size_bytes: u64) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("hivewire-small-")
            .tempdir()?;
        let mount = directory.path().join("disk");
        fs::create_dir(&mount)?;
        let image = directory.path().join("image");
        let kind = match mount_loop(&image, &mount, size_bytes) {
            Ok(()) => DiskKind::Loop,
            Err(_) => {
                mount_tmpfs(&mount, size_bytes)?;
                DiskKind::Tmpfs
            }
        };
        Ok(Self {
            mount,
            kind,
            _directory: directory,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// What it is made of.
    pub fn kind(&self) -> DiskKind {
        self.kind
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let status = rustix::fs::statvfs(&self.mount)?;
        Ok(status.f_bavail * status.f_frsize)
    }

    /// Takes up all space but this much, with a file that nobody else uses.
    pub fn fill_leaving(&self, free_bytes: u64) -> io::Result<()> {
        let mut ballast = File::options()
            .create(true)
            .append(true)
            .open(self.mount.join(BALLAST))?;
        let mut step = 1 << 20;
        while step >= 512 {
            if self.free_bytes()? < free_bytes + step as u64 {
                step /= 2;
                continue;
            }
            match ballast.write_all(&vec![0xAA; step]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => step /= 2,
                Err(error) => return Err(error),
            }
        }
        ballast.sync_all()
    }

    /// Frees what [`Self::fill_leaving`] took.
    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.mount.join(BALLAST))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if unmount(&self.mount, UnmountFlags::empty()).is_err() {
            // A process still has files open: let go of the mount all the same.
            let _ = unmount(&self.mount, UnmountFlags::DETACH);
        }
    }
}

fn mount_loop(image: &Path, mount: &Path, size_bytes: u64) -> io::Result<()> {
    File::create(image)?.set_len(size_bytes)?;
    // No blocks kept for root, or root would never see the disk full.
    let mut format = Command::new("mkfs.ext4");
    run(format.args(["-q", "-F", "-m", "0"]).arg(image))?;
    let mut attach = Command::new("mount");
    run(attach
        .args(["-t", "ext4", "-o", "loop"])
        .arg(image)
        .arg(mount))
}

fn mount_tmpfs(mount: &Path, size_bytes: u64) -> io::Result<()> {
    let mut attach = Command::new("mount");
    let options = format!("size={size_bytes}");
    run(attach
        .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
        .arg(mount))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let message = format!("{program} failed: {}; mounting needs root", said.trim());
    Err(io::Error::other(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_and_free_again() {
        let disk = SmallDisk::mount(32 << 20).unwrap();
        fs::write(disk.path().join("first"), b"fits").unwrap();
        disk.fill_leaving(0).unwrap();
        let full = fs::write(disk.path().join("second"), vec![1; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        disk.free().unwrap();
        fs::write(disk.path().join("third"), vec![1; 1 << 20]).unwrap();
        assert_eq!(fs::read(disk.path().join("first")).unwrap(), b"fits");
    }
}
