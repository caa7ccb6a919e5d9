//! Requests on disk, as lines of JSON.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::log::{Entry, Filter};
use crate::rotation::{self, Limits};

const LIMITS: Limits = Limits {
    file_bytes_max: 1 << 20,
    files_max: 16,
};

/// Writes requests one after another.
pub(super) struct Files(rotation::Files);

impl Files {
    /// Those in this folder, which is made with the first request.
    pub fn new(folder: PathBuf) -> Self {
        Self(rotation::Files::new(folder, LIMITS))
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
        self.0.append(first.id, &text)
    }
}

/// Up to `limit` requests before this one, the newest first. What cannot be read is left out.
pub(super) fn read(folder: &Path, before: u64, limit: usize, filter: &Filter) -> Vec<Entry> {
    let mut found = Vec::new();
    if limit == 0 {
        return found;
    }
    rotation::backwards(folder, before, |line| {
        let entry = serde_json::from_slice::<Entry>(line).ok();
        found.extend(entry.filter(|entry| entry.id < before && filter.wants(entry)));
        match found.len() < limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_back_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |id| Entry {
            id,
            at_ms: id,
            method: "POST".to_owned(),
            path: format!("/{id}"),
            who: "token".to_owned(),
            from: None,
            status: 200,
            took_us: 1,
        };
        let mut files = Files::new(folder.path().to_path_buf());
        for id in 1..=50 {
            files.append(&[entry(id)]).unwrap();
        }
        let ids = |before, limit| -> Vec<u64> {
            let found = read(folder.path(), before, limit, &Filter::default());
            found.iter().map(|entry| entry.id).collect()
        };
        assert_eq!(ids(u64::MAX, 3), [50, 49, 48]);
        assert_eq!(ids(45, 2), [44, 43]);
        assert!(ids(45, 0).is_empty());
    }
}
