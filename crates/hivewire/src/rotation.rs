//! Lines in a few files, of which the oldest goes when there are too many. Each file is named after the
//! number of the first line in it, so that their order shows.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const SUFFIX: &str = ".jsonl";
/// No file of ours is larger, whatever is set.
pub(crate) const FILE_BYTES_LIMIT: u64 = 64 << 20;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// A file gets no more than this, unless one piece alone has more.
    pub file_bytes_max: u64,
    /// How many files there are at most.
    pub files_max: usize,
}

/// Writes lines one after another.
pub(crate) struct Files {
    folder: PathBuf,
    limits: Limits,
    current: Option<Current>,
}

struct Current {
    file: File,
    bytes: u64,
}

impl Files {
    /// Those in this folder, which is made with the first line.
    pub fn new(folder: PathBuf, limits: Limits) -> Self {
        Self {
            folder,
            limits,
            current: None,
        }
    }

    /// From now on, so much is kept.
    pub fn set_limits(&mut self, limits: Limits) {
        if self.limits != limits {
            self.limits = limits;
            self.current = None;
        }
    }

    /// Adds whole lines behind those that are there. The number of the first is larger than all before.
    pub fn append(&mut self, first: u64, lines: &[u8]) -> io::Result<()> {
        let bytes = lines.len() as u64;
        let has_room = |current: &Current| current.bytes + bytes <= self.limits.file_bytes_max;
        let mut current = match self.current.take().filter(has_room) {
            Some(current) => current,
            None => self.open(first, bytes)?,
        };
        current.file.write_all(lines)?;
        current.bytes += bytes;
        self.current = Some(current);
        Ok(())
    }

    /// The newest file if there is room in it, else the next one.
    fn open(&self, first: u64, bytes: u64) -> io::Result<Current> {
        match DirBuilder::new().mode(FOLDER_MODE).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut names = list(&self.folder)?;
        let mut opened = None;
        if let Some(newest) = names.last() {
            let current = open_at(&path_of(&self.folder, *newest))?;
            let has_room = current.bytes + bytes <= self.limits.file_bytes_max;
            opened = has_room.then_some(current);
        }
        let current = match opened {
            Some(current) => current,
            None => {
                names.push(first);
                open_at(&path_of(&self.folder, first))?
            }
        };
        let too_many = names.len().saturating_sub(self.limits.files_max.max(1));
        for old in &names[..too_many] {
            fs::remove_file(path_of(&self.folder, *old))?;
        }
        Ok(current)
    }
}

/// A crash may have left half a line at the end, which must not spoil the next one.
fn open_at(path: &Path) -> io::Result<Current> {
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true);
    let mut file = options.mode(FILE_MODE).open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok(Current { file, bytes })
}

fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}{SUFFIX}"))
}

/// The first numbers of all files, the oldest first.
fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let mut names = Vec::new();
    for found in fs::read_dir(folder)? {
        let name = found?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        names.extend(name.and_then(|name| name.parse::<u64>().ok()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Shows lines of files that begin before this number, the newest first, until whoever looks has seen
/// enough. What cannot be read is left out.
pub(crate) fn backwards(
    folder: &Path,
    before: u64,
    mut look: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    let files = list(folder).unwrap_or_default();
    for first in files.into_iter().rev().filter(|first| *first < before) {
        let mut bytes = Vec::new();
        // The oldest may go while it is read.
        let read = File::open(path_of(folder, first))
            .and_then(|file| file.take(2 * FILE_BYTES_LIMIT).read_to_end(&mut bytes));
        if read.is_err() {
            continue;
        }
        let lines = bytes.rsplit(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            if look(line).is_break() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        file_bytes_max: 100,
        files_max: 4,
    };

    fn all(folder: &Path, before: u64) -> Vec<String> {
        let mut lines = Vec::new();
        backwards(folder, before, |line| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            ControlFlow::Continue(())
        });
        lines
    }

    fn sizes(folder: &Path) -> Vec<u64> {
        let found = fs::read_dir(folder).unwrap();
        found
            .map(|file| file.unwrap().metadata().unwrap().len())
            .collect()
    }

    #[test]
    fn lines_are_read_back_over_files_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("lines");
        assert!(all(&folder, u64::MAX).is_empty(), "nothing is there");
        let mut files = Files::new(folder.clone(), LIMITS);
        for number in 1..=100 {
            files
                .append(number, format!("line {number:04}\n").as_bytes())
                .unwrap();
        }
        assert_eq!(sizes(&folder), [100; 4]);
        let found = all(&folder, u64::MAX);
        assert_eq!((found.len(), found[0].as_str()), (40, "line 0100"));
        assert!(found.is_sorted_by(|a, b| a > b));
        assert_eq!(
            all(&folder, 81).len(),
            20,
            "files that begin later are left out"
        );

        files.set_limits(Limits {
            files_max: 2,
            ..LIMITS
        });
        files.append(101, b"line 0101\n").unwrap();
        assert_eq!(sizes(&folder).len(), 2);
        assert_eq!(all(&folder, u64::MAX)[0], "line 0101");
    }

    #[test]
    fn half_a_line_spoils_no_other_and_a_start_makes_no_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_path_buf();
        Files::new(folder.clone(), LIMITS)
            .append(1, b"one\n")
            .unwrap();
        let path = path_of(&folder, 1);
        fs::write(&path, "one\nhal").unwrap();
        Files::new(folder.clone(), LIMITS)
            .append(3, b"three\n")
            .unwrap();
        assert_eq!(all(&folder, u64::MAX), ["three", "hal", "one"]);
        assert_eq!(list(&folder).unwrap(), [1]);
    }
}
