//! Files that a crash left open.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use super::WarcError;
use super::files::{ENDING, OPEN, finish};

/// What was done about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Its name now, unless nothing of it was left.
    pub file: Option<PathBuf>,
    /// How many records it has.
    pub records: u64,
    /// How many bytes were cut off, which were no whole record.
    pub cut_bytes: u64,
}

/// Makes whole what a crash left open in this folder: what is no whole record at the end of a file is cut off. Files that
/// somebody writes are left alone. All of each file is read, so this takes its time.
pub fn repair(folder: &Path, prefix: &str) -> Result<Vec<Repaired>, WarcError> {
    let mut repaired = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(repaired),
        entries => entries.map_err(|error| WarcError::file(folder, error))?,
    };
    for entry in entries {
        let path = entry
            .map_err(|error| WarcError::file(folder, error))?
            .path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let is_open = name.is_some_and(|name| {
            let middle = name
                .strip_prefix(prefix)
                .and_then(|name| name.strip_prefix('-'));
            middle.is_some_and(|middle| middle.ends_with(&format!("{ENDING}{OPEN}")))
        });
        if is_open {
            repaired.extend(repair_file(&path)?);
        }
    }
    Ok(repaired)
}

fn repair_file(path: &Path) -> Result<Option<Repaired>, WarcError> {
    let told = |error| WarcError::file(path, error);
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        // Somebody finished it meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(told)?,
    };
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let (records, whole) = whole_records(BufReader::with_capacity(256 << 10, &file));
    let length = file.metadata().map_err(told)?.len();
    let cut_bytes = length.saturating_sub(whole);
    if cut_bytes > 0 {
        file.set_len(whole).map_err(told)?;
        file.sync_all().map_err(told)?;
    }
    let file = match whole {
        0 => std::fs::remove_file(path).map(|()| None).map_err(told)?,
        _ => Some(finish(path)?),
    };
    Ok(Some(Repaired {
        file,
        records,
        cut_bytes,
    }))
}

/// How many whole records there are at the beginning, and where they end.
fn whole_records(from: impl BufRead) -> (u64, u64) {
    let mut from = Counting { from, consumed: 0 };
    let (mut records, mut whole) = (0, 0);
    while from.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
        let mut record = GzDecoder::new(&mut from);
        let mut begin = [0; 5];
        let is_record = record.read_exact(&mut begin).is_ok() && &begin == b"WARC/";
        // Its checksum is compared at its end.
        if !is_record || std::io::copy(&mut record, &mut std::io::sink()).is_err() {
            break;
        }
        records += 1;
        whole = from.consumed;
    }
    (records, whole)
}

/// Knows how far it was read.
struct Counting<R> {
    from: R,
    consumed: u64,
}

impl<R: BufRead> Read for Counting<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(to)?;
        self.consumed += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counting<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.from.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.from.consume(amount);
        self.consumed += amount as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::pack::Packer;
    use super::*;

    #[test]
    fn wherever_a_file_ends_what_is_whole_is_known() {
        let (mut packer, mut packed, mut ends) = (Packer::new(), Vec::new(), vec![0]);
        for record in 0..8 {
            let noise: String = (0..record * 40).map(|_| fastrand::alphanumeric()).collect();
            let record = format!("WARC/1.1\r\n\r\n{noise}\r\n\r\n");
            packer.pack(record.as_bytes(), &mut packed).unwrap();
            ends.push(packed.len());
        }
        for length in 0..=packed.len() {
            let whole = ends.iter().rposition(|end| *end <= length).unwrap();
            let found = whole_records(&packed[..length]);
            assert_eq!(found, (whole as u64, ends[whole] as u64), "{length}");
        }
        // Whatever one byte becomes, what comes before it is whole.
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0xff;
            let before = ends.iter().rposition(|end| *end <= at).unwrap();
            assert!(whole_records(&damaged[..]).0 >= before as u64, "{at}");
        }
    }
}
