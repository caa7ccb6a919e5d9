//! `results.json`: a list of rows, of which other benchmarks own some.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What can go wrong with a file of results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file does not hold a list of rows.
    #[error("{path} is not a list of results ({source}); mend or remove it")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// One comparison as it came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub name: String,
    /// Hivewire's figure.
    pub ours: f64,
    /// The peer's figure.
    pub peer: f64,
    /// Whom we are compared with.
    pub peer_name: String,
    /// Ours divided by the peer's.
    pub ratio: f64,
    /// The unit of both figures.
    pub unit: String,
    /// What else was seen, in plain words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Reads the rows that have the form of ours.
pub fn read_rows(path: &Path) -> Result<Vec<Row>, ResultsError> {
    let entries = read_entries(path)?;
    let rows = entries.into_iter().map(serde_json::from_value);
    Ok(rows.filter_map(Result::ok).collect())
}

/// Replaces the rows of the same names, adds new ones, and keeps all others as they are.
pub fn merge_results(path: &Path, rows: &[Row]) -> Result<(), ResultsError> {
    let mut entries = read_entries(path)?;
    for row in rows {
        // A row is made of text and numbers, which always have a JSON form.
        let entry = serde_json::to_value(row).expect("a row has a JSON form");
        match entries.iter_mut().find(|entry| entry["name"] == row.name) {
            Some(old) => *old = entry,
            None => entries.push(entry),
        }
    }
    let text = serde_json::to_string_pretty(&entries).expect("rows have a JSON form");
    std::fs::write(path, text + "\n").map_err(|source| ResultsError::File {
        action: "write",
        path: path.display().to_string(),
        source,
    })
}

fn read_entries(path: &Path) -> Result<Vec<Value>, ResultsError> {
    let shown = || path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| ResultsError::Malformed {
            path: shown(),
            source,
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(ResultsError::File {
            action: "read",
            path: shown(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ours: f64) -> Row {
        Row {
            name: name.to_owned(),
            ours,
            peer: 1.0,
            peer_name: "peer".to_owned(),
            ratio: ours,
            unit: "messages/s".to_owned(),
            note: String::new(),
        }
    }

    #[test]
    fn rows_are_replaced_added_and_kept() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("results.json");
        std::fs::write(&path, r#"[{"name":"foreign","anything":[1]}]"#).expect("written");
        merge_results(&path, &[row("a", 1.0), row("b", 2.0)]).expect("merged");
        merge_results(&path, &[row("a", 3.0)]).expect("merged again");
        assert_eq!(
            read_rows(&path).expect("readable"),
            [row("a", 3.0), row("b", 2.0)]
        );
        let entries = read_entries(&path).expect("readable");
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0]["anything"][0], 1);
    }

    #[test]
    fn a_broken_file_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("results.json");
        std::fs::write(&path, "{").expect("written");
        assert!(merge_results(&path, &[row("a", 1.0)]).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "{");
    }
}
