//! What the kernel asks, answered from the model.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::FallocateFlags;

use super::content::Content;
use super::model::{Kind, Model, Node};
use super::{Operation, SECTOR_BYTES};

/// How long the kernel may trust what it was told: nobody but this mount changes anything.
const VALID_FOR: Duration = Duration::from_secs(3600);
/// How often a sync that hangs looks whether it may go on.
const HANGING_LOOK_UP: Duration = Duration::from_millis(1);
const BLOCK_BYTES: u32 = 4096;
/// What a file system without a limit says of itself.
const CAPACITY_BYTES_UNLIMITED: u64 = 1 << 40;
const SYNC_FLAGS: u32 = rustix::fs::OFlags::DSYNC.bits();

/// Past the page cache, so that each write of a program arrives as one operation, unsplit.
const OPEN_FLAGS: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// Answers the kernel's requests one at a time.
pub(super) struct Server {
    model: Arc<Mutex<Model>>,
}

impl Server {
    pub(super) fn new(model: Arc<Mutex<Model>>) -> Self {
        Self { model }
    }

    /// Counts the operation, does it, and fails it if that was where the power went: then it
    /// may have happened or not, which the crash decides.
    fn counted<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut Model) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut model = self.model.lock();
        let cut_now = model.count(operation)?;
        // The model refuses everything without power, so the last operation borrows some.
        model.power_cut = false;
        let result = work(&mut model);
        model.power_cut = cut_now;
        if cut_now { Err(Errno::EIO) } else { result }
    }

    /// A sync during which the power goes has not happened at all.
    fn synced(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut Model) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut model = self.model_once_syncs_go_on();
        if model.count(operation)? {
            return Err(Errno::EIO);
        }
        work(&mut model)
    }

    /// Requests are answered one at a time, so the whole disk hangs, as disks do.
    fn model_once_syncs_go_on(&self) -> MutexGuard<'_, Model> {
        loop {
            let model = self.model.lock();
            if !model.faults.hang_syncs || model.power_cut {
                return model;
            }
            drop(model);
            std::thread::sleep(HANGING_LOOK_UP);
        }
    }

    fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        kind: Kind,
    ) -> Result<FileAttr, Errno> {
        let node = Node {
            kind,
            mode: (mode & 0o7777) as u16,
        };
        self.counted(Operation::Create, |model| {
            let number = model.add((parent.0, name), node)?;
            attributes(model, number)
        })
    }

    fn write_bytes(&self, node: u64, offset: u64, data: &[u8], sync: bool) -> Result<(), Errno> {
        self.counted(Operation::Write, |model| {
            model.grow(node, |content| content.write(offset, data))
        })?;
        if sync { self.sync_file(node) } else { Ok(()) }
    }

    fn sync_file(&self, node: u64) -> Result<(), Errno> {
        self.synced(Operation::Sync, |model| {
            let (fail, fake) = (model.faults.fail_syncs, model.faults.fake_syncs);
            let content = model.content_mut(node)?;
            if fail {
                content.fail_sync();
                return Err(Errno::EIO);
            }
            if !fake {
                content.sync();
            }
            Ok(())
        })
    }
}

fn attributes(model: &Model, number: u64) -> Result<FileAttr, Errno> {
    let node = model.node(number)?;
    let (kind, size, used) = match &node.kind {
        Kind::File(content) => (FileType::RegularFile, content.size(), content.used_bytes()),
        Kind::Directory(_) => (FileType::Directory, 0, 0),
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: used / SECTOR_BYTES as u64,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind,
        perm: node.mode,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    })
}

fn empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&VALID_FOR, &attr, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn attr(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attr) => reply.attr(&VALID_FOR, &attr),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels refuse it; then programs cannot map files here, and most never do.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let model = self.model.lock();
        let found = model.lookup(parent.0, name);
        entry(found.and_then(|node| attributes(&model, node)), reply);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attr(attributes(&self.model.lock(), ino.0), reply);
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = match size {
            Some(size) => self.counted(Operation::Truncate, |model| {
                model.grow(ino.0, |content| content.truncate(size))
            }),
            None => Ok(()),
        };
        let mut model = self.model.lock();
        let result = cut.and_then(|()| match mode {
            Some(mode) => model.set_mode(ino.0, (mode & 0o7777) as u16),
            None => Ok(()),
        });
        attr(result.and_then(|()| attributes(&model, ino.0)), reply);
    }

    fn mknod(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::File(Content::default());
        entry(self.make(parent, name, mode & !umask, kind), reply);
    }

    fn mkdir(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::Directory(Default::default());
        entry(self.make(parent, name, mode & !umask, kind), reply);
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let kind = Kind::File(Content::default());
        match self.make(parent, name, mode & !umask, kind) {
            Ok(attr) => {
                self.model.lock().opened(attr.ino.0);
                reply.created(&VALID_FOR, &attr, Generation(0), FileHandle(0), OPEN_FLAGS);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.counted(Operation::Remove, |model| model.remove((parent.0, name)));
        empty(result, reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(req, parent, name, reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let result = self.counted(Operation::Rename, |model| {
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                return Err(Errno::EINVAL);
            }
            let taken = model.lookup(newparent.0, newname).is_ok();
            if taken && flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            model.rename((parent.0, name), (newparent.0, newname))
        });
        empty(result, reply);
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let mut model = self.model.lock();
        match model.content(ino.0).map(|_| ()) {
            Ok(()) => {
                model.opened(ino.0);
                reply.opened(FileHandle(0), OPEN_FLAGS);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.model.lock().content(ino.0) {
            Ok(content) => reply.data(&content.read(offset, size as usize)),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let sync = flags.0 as u32 & SYNC_FLAGS != 0;
        match self.write_bytes(ino.0, offset, data, sync) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.model.lock().released(ino.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        empty(self.sync_file(ino.0), reply);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let model = self.model.lock();
        let entries = match model.entries(ino.0) {
            Ok(entries) => entries,
            Err(error) => return reply.error(error),
        };
        let mut position = 0;
        for (name, node) in entries {
            position += 1;
            let is_directory = model.entries(*node).is_ok();
            let kind = if is_directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            if position > offset && reply.add(INodeNo(*node), position, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let result = self.synced(Operation::SyncDirectory, |model| {
            if model.faults.fail_syncs {
                return Err(Errno::EIO);
            }
            if model.faults.fake_syncs {
                return Ok(());
            }
            model.sync_directory(ino.0)
        });
        empty(result, reply);
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let model = self.model.lock();
        let capacity = model
            .faults
            .capacity_bytes
            .unwrap_or(CAPACITY_BYTES_UNLIMITED);
        let block = u64::from(BLOCK_BYTES);
        let blocks = capacity / block;
        let free = capacity.saturating_sub(model.used_bytes()) / block;
        reply.statfs(
            blocks,
            free,
            free,
            1 << 20,
            1 << 20,
            BLOCK_BYTES,
            255,
            BLOCK_BYTES,
        );
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let known =
            FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(flags) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let keep_size = flags.contains(FallocateFlags::KEEP_SIZE);
        let makes_zeros = flags.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE);
        let result = self.counted(Operation::Allocate, |model| {
            model.grow(ino.0, |content| {
                if makes_zeros {
                    content.zero(offset, length);
                }
                if !flags.contains(FallocateFlags::PUNCH_HOLE) {
                    content.allocate(offset + length, keep_size);
                }
            })
        });
        empty(result, reply);
    }
}
