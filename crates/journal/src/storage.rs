//! What the journal needs from a disk, so that tests can stand in for it and fail any operation.

use std::io;

/// A folder of files. Names are plain file names without separators.
pub trait Storage: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;
    /// Makes a new, empty file; fails if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;
    /// Gives a file another name. Durable only after [`Storage::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file. Durable only after [`Storage::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Bytes that can still be allocated.
    fn free_bytes(&self) -> io::Result<u64>;
    /// An unpredictable number (a simulation gives one from its seed).
    fn random(&self) -> io::Result<u64>;
    /// Where this is, for messages to people.
    fn location(&self) -> String;
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Fills `buffer` from `offset`; fails if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`. Durable only after [`StorageFile::sync_data`].
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Sets the length of an empty file, filled with zeros, with all its space taken: later writes
    /// inside need no new space.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length of the file.
    fn bytes(&self) -> io::Result<u64>;
}

/// Whether waiting may help: no space, or no file handle. Anything else is a broken disk.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) || matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
