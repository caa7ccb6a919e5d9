//! Requests on disk: lines of JSON in a few files, of which the oldest goes when there are too many.
//! Each file is named after the first request in it, so that their order shows.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::log::{Entry, Filter};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const SUFFIX: &str = ".jsonl";
/// A file that has so much is followed by the next.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The last lines may go beyond that; more than this is not one of our files.
const READ_BYTES_MAX: u64 = 2 * FILE_BYTES_MAX;
const FILES_MAX: usize = 16;

/// Writes requests one after another.
pub(super) struct Files {
    folder: PathBuf,
    bytes_max: u64,
    current: Option<Current>,
}

struct Current {
    file: File,
    bytes: u64,
}

impl Files {
    /// Those in this folder, which is made with the first request.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            bytes_max: FILE_BYTES_MAX,
            current: None,
        }
    }

    /// Adds requests behind those that are there.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let Some(first) = entries.first() else {
            return Ok(());
        };
        let mut text = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut text, entry)?;
            text.push(b'\n');
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.open(first.id)?,
        };
        current.file.write_all(&text)?;
        current.bytes += text.len() as u64;
        self.current = Some(current).filter(|current| current.bytes < self.bytes_max);
        Ok(())
    }

    /// The newest file if there is room in it, else the next one.
    fn open(&self, first_id: u64) -> io::Result<Current> {
        match DirBuilder::new().mode(FOLDER_MODE).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut names = list(&self.folder)?;
        if let Some(newest) = names.last() {
            let current = open_at(&path_of(&self.folder, *newest))?;
            if current.bytes < self.bytes_max {
                return Ok(current);
            }
        }
        let current = open_at(&path_of(&self.folder, first_id))?;
        names.push(first_id);
        let too_many = names.len().saturating_sub(FILES_MAX);
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
    if !read_bytes(&file)?.ends_with(b"\n") && bytes > 0 {
        file.write_all(b"\n")?;
        bytes += 1;
    }
    Ok(Current { file, bytes })
}

fn read_bytes(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn path_of(folder: &Path, first_id: u64) -> PathBuf {
    folder.join(format!("{first_id:020}{SUFFIX}"))
}

/// The first requests of all files, the oldest first.
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

/// Up to `limit` requests before this one, the newest first. What cannot be read is left out.
pub(super) fn read(folder: &Path, before: u64, limit: usize, filter: &Filter) -> Vec<Entry> {
    let mut found = Vec::new();
    let files = list(folder).unwrap_or_default();
    for first_id in files.into_iter().rev().filter(|first| *first < before) {
        // The oldest may go while it is read.
        let bytes = File::open(path_of(folder, first_id)).and_then(|file| read_bytes(&file));
        let bytes = bytes.unwrap_or_default();
        for line in bytes.rsplit(|byte| *byte == b'\n') {
            if found.len() == limit {
                return found;
            }
            let entry = serde_json::from_slice::<Entry>(line).ok();
            found.extend(entry.filter(|entry| entry.id < before && filter.wants(entry)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64) -> Entry {
        Entry {
            id,
            at_ms: id,
            method: "POST".to_owned(),
            path: format!("/{id}"),
            who: "token".to_owned(),
            from: None,
            status: 200,
            took_us: 1,
        }
    }

    fn ids(folder: &Path, before: u64, limit: usize) -> Vec<u64> {
        let entries = read(folder, before, limit, &Filter::default());
        entries.iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn requests_are_read_back_over_files_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("requests");
        let mut files = Files::new(folder.clone());
        files.bytes_max = 1_000;
        assert!(ids(&folder, u64::MAX, 5).is_empty(), "nothing is there");
        for id in 1..=500 {
            files.append(&[entry(id)]).unwrap();
        }
        assert_eq!(list(&folder).unwrap().len(), FILES_MAX);
        assert_eq!(ids(&folder, u64::MAX, 3), [500, 499, 498]);
        assert_eq!(ids(&folder, 450, 2), [449, 448]);
        let all = ids(&folder, u64::MAX, usize::MAX);
        assert!((100..200).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted_by(|a, b| *a == b + 1), "none is left out");
    }

    #[test]
    fn half_a_line_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_path_buf();
        Files::new(folder.clone()).append(&[entry(1)]).unwrap();
        let path = path_of(&folder, 1);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(br#"{"id":2,"at"#);
        fs::write(&path, text).unwrap();
        Files::new(folder.clone()).append(&[entry(3)]).unwrap();
        assert_eq!(ids(&folder, u64::MAX, 9), [3, 1]);
        assert_eq!(list(&folder).unwrap(), [1], "a start makes no new file");
    }
}
