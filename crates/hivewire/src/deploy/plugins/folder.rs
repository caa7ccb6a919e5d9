//! A repository that is a folder: its components say themselves what they are.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use kernel::PluginId;
use parking_lot::Mutex;

use super::error::PluginError;
use super::plugin::{Plugin, PluginNotes, PluginQuery, PluginSummary};
use super::repository::Repository;
use crate::deploy::source::{Component, SourceError, Stamp, read_file, stamp};
use crate::deploy::watch::blocking;

/// A folder with more of them is no repository.
const FILES_MAX: usize = 1_000;

/// What was found in files, by their paths. What is no plug-in is remembered, too, so that it is
/// told once.
type Known = HashMap<PathBuf, (Stamp, Option<Plugin>)>;

pub(super) struct Folder {
    name: String,
    folder: PathBuf,
    bytes_max: u64,
    known: Arc<Mutex<Known>>,
}

impl Folder {
    pub fn new(name: String, folder: PathBuf, bytes_max: u64) -> Self {
        Self {
            name,
            folder,
            bytes_max,
            known: Arc::default(),
        }
    }

    fn failed(&self, source: SourceError) -> PluginError {
        PluginError::Repository {
            repository: self.name.clone(),
            source,
        }
    }

    /// All that is there now. Files that have not changed are not read again.
    async fn look(&self) -> Result<Vec<(PathBuf, Plugin)>, PluginError> {
        let (folder, bytes_max, known) = (self.folder.clone(), self.bytes_max, self.known.clone());
        let looking = blocking(move || look(&folder, bytes_max, &known));
        looking.await.map_err(|error| self.failed(error))
    }
}

#[async_trait]
impl Repository for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn page(&self, query: &PluginQuery) -> Result<Vec<PluginSummary>, PluginError> {
        let mut by_id: BTreeMap<PluginId, Vec<Plugin>> = BTreeMap::new();
        for (_, plugin) in self.look().await? {
            by_id.entry(plugin.id.clone()).or_default().push(plugin);
        }
        let summaries = by_id.values();
        let summaries = summaries.filter_map(|versions| PluginSummary::of(versions, &self.name));
        let fitting = summaries.filter(|summary| query.fits(summary));
        Ok(fitting.take(query.limit).collect())
    }

    async fn versions(&self, id: &PluginId) -> Result<Vec<Plugin>, PluginError> {
        let found = self.look().await?.into_iter().map(|(_, plugin)| plugin);
        Ok(found.filter(|plugin| plugin.id == *id).collect())
    }

    async fn component(&self, plugin: &Plugin) -> Result<Component, PluginError> {
        let found = self.look().await?.into_iter();
        let is_it = |found: &Plugin| found.id == plugin.id && found.version == plugin.version;
        let path = found
            .filter(|(_, found)| is_it(found))
            .map(|(path, _)| path);
        let Some(path) = path.into_iter().next() else {
            return Err(PluginError::Nonsense {
                repository: self.name.clone(),
                reason: format!("{}@{} is gone", plugin.id, plugin.version),
            });
        };
        let bytes_max = self.bytes_max;
        let reading = blocking(move || read_file(&path, bytes_max));
        reading.await.map_err(|error| self.failed(error))
    }
}

/// Reads what is new in the folder. Of two files with the same version, the first by name counts.
/// Blocks.
fn look(
    folder: &Path,
    bytes_max: u64,
    known: &Mutex<Known>,
) -> Result<Vec<(PathBuf, Plugin)>, SourceError> {
    let mut known = known.lock();
    let mut now = Known::new();
    let mut found: Vec<(PathBuf, Plugin)> = Vec::new();
    for path in components_in(folder)? {
        let Ok(current) = stamp(&path) else {
            continue;
        };
        let entry = match known.remove(&path) {
            Some(entry) if entry.0 == current => entry,
            _ => (current, read(&path, bytes_max)),
        };
        if let Some(plugin) = &entry.1 {
            let same = |(_, other): &(PathBuf, Plugin)| {
                other.id == plugin.id && other.version == plugin.version
            };
            if !found.iter().any(same) {
                found.push((path.clone(), plugin.clone()));
            }
        }
        now.insert(path, entry);
    }
    *known = now;
    Ok(found)
}

fn components_in(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let failed = |source| SourceError::File {
        path: folder.to_path_buf(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "wasm") {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            return Err(failed(std::io::Error::other(format!(
                "it holds more than {FILES_MAX} components"
            ))));
        }
    }
    paths.sort();
    Ok(paths)
}

/// What a file says that it is; none if it is no plug-in, which is told in the log.
fn read(path: &Path, bytes_max: u64) -> Option<Plugin> {
    let plugin = read_file(path, bytes_max)
        .map_err(|error| error.to_string())
        .and_then(|component| {
            let read = Plugin::of(&component, None, &PluginNotes::default());
            read.map_err(|error| error.to_string())
        });
    match plugin {
        Ok(plugin) => Some(plugin),
        Err(reason) => {
            tracing::warn!(path = %path.display(), reason, "a file of a repository is no plug-in");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plugin::tests::{component, described};
    use super::*;

    fn put(folder: &Path, file: &str, id: &str, version: &str) {
        let component = component(&described(id, version));
        std::fs::write(folder.join(file), &component.bytes).unwrap();
    }

    #[tokio::test]
    async fn a_folder_gives_what_its_files_say_they_are() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "one.wasm", "shop/filter", "1.0.0");
        put(folder.path(), "two.wasm", "shop/filter", "1.1.0");
        put(folder.path(), "copy.wasm", "shop/filter", "1.1.0");
        put(folder.path(), "no.txt", "other", "1.0.0");
        std::fs::write(folder.path().join("junk.wasm"), "junk").unwrap();
        let repository = Folder::new("here".to_owned(), folder.path().to_path_buf(), 10_000);
        let query = PluginQuery {
            limit: 10,
            ..PluginQuery::default()
        };
        let page = repository.page(&query).await.unwrap();
        assert_eq!(page.len(), 1);
        assert_eq!(
            (page[0].versions.len(), page[0].repository.as_str()),
            (2, "here")
        );
        let id = "shop/filter".parse().unwrap();
        let versions = repository.versions(&id).await.unwrap();
        let found = repository.component(&versions[0]).await.unwrap();
        assert_eq!(found.digest, versions[0].digest);
        // What changes is read again.
        put(folder.path(), "two.wasm", "shop/filter", "1.20.0");
        std::fs::remove_file(folder.path().join("copy.wasm")).unwrap();
        let page = repository.page(&query).await.unwrap();
        assert_eq!(page[0].newest.to_string(), "1.20.0");
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(repository.page(&query).await.is_err());
    }
}
