//! The index of the own repository: one document of the bus for each version of a plug-in. All
//! nodes on the bus have the same, and a document that is made only once cannot be made anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, Document, Put};
use kernel::{Name, PluginId};
use semver::Version;

use super::OWN;
use super::plugin::{Plugin, PluginQuery, PluginSummary};
use crate::deploy::store::StoreError;

/// How the names of these documents begin.
const PREFIX: &str = "hivewire.plugin.";
/// Comes before all that can stand in an id, so that documents lie in the order of ids.
const SEPARATOR: char = '!';
/// Comes after all that can stand in a version.
const LAST: char = '~';
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many documents are read at a time.
const DOCUMENTS_AT_ONCE: usize = 50;

pub(in crate::deploy) struct Index {
    bus: Arc<dyn Bus>,
}

impl Index {
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self { bus }
    }

    /// A version and the revision of its document; none if there is no such version.
    pub async fn get(
        &self,
        id: &PluginId,
        version: &Version,
    ) -> Result<(u64, Option<Plugin>), StoreError> {
        let name = name_of(id, &version.to_string())?;
        let document = self.bus.document(&name, TIMEOUT).await?;
        let plugin = match &document.body {
            Some(body) => Some(parse(&name, body)?),
            None => None,
        };
        Ok((document.revision, plugin))
    }

    /// Stores or removes a version if its document still has this revision; whether it had.
    pub async fn put(
        &self,
        id: &PluginId,
        version: &Version,
        revision: u64,
        plugin: Option<&Plugin>,
    ) -> Result<bool, StoreError> {
        let name = name_of(id, &version.to_string())?;
        let body = plugin.map(|plugin| serde_json::to_vec(plugin).expect("its keys are texts"));
        let put = self
            .bus
            .put_document(&name, revision, body.as_deref(), TIMEOUT);
        Ok(matches!(put.await?, Put::Stored(_)))
    }

    /// All versions of a plug-in.
    pub async fn versions(&self, id: &PluginId) -> Result<Vec<Plugin>, StoreError> {
        let mut versions = Vec::new();
        let prefix = format!("{PREFIX}{id}{SEPARATOR}");
        self.scan(&prefix, None, |plugin| {
            versions.push(plugin);
            true
        })
        .await?;
        Ok(versions)
    }

    /// Those plug-ins that are asked for, in the order of their ids.
    pub async fn page(&self, query: &PluginQuery) -> Result<Vec<PluginSummary>, StoreError> {
        let after = match &query.after {
            Some(id) => Some(name_of(id, &LAST.to_string())?),
            None => None,
        };
        let mut page = Vec::new();
        let mut versions: Vec<Plugin> = Vec::new();
        let add = |versions: &[Plugin], page: &mut Vec<PluginSummary>| {
            let summary = PluginSummary::of(versions, OWN);
            page.extend(summary.filter(|summary| query.fits(summary)));
        };
        self.scan(PREFIX, after, |plugin| {
            if versions.first().is_some_and(|first| first.id != plugin.id) {
                add(&versions, &mut page);
                versions.clear();
            }
            versions.push(plugin);
            page.len() < query.limit
        })
        .await?;
        if page.len() < query.limit {
            add(&versions, &mut page);
        }
        Ok(page)
    }

    /// The digests of everything.
    pub async fn digests(&self) -> Result<HashSet<String>, StoreError> {
        let mut digests = HashSet::new();
        self.scan(PREFIX, None, |plugin| {
            digests.insert(plugin.digest);
            true
        })
        .await?;
        Ok(digests)
    }

    /// Hands over one version after another until `each` wants no more.
    async fn scan(
        &self,
        prefix: &str,
        mut after: Option<Name>,
        mut each: impl FnMut(Plugin) -> bool + Send,
    ) -> Result<(), StoreError> {
        loop {
            let some = self
                .bus
                .documents(prefix, after.as_ref(), DOCUMENTS_AT_ONCE, TIMEOUT)
                .await?;
            for (name, document) in &some {
                if let Some(plugin) = readable(name, document)
                    && !each(plugin)
                {
                    return Ok(());
                }
            }
            match some.last() {
                Some((name, _)) => after = Some(name.clone()),
                None => return Ok(()),
            }
        }
    }
}

/// What this version of Hivewire can read; the rest is told in the log.
fn readable(name: &Name, document: &Document) -> Option<Plugin> {
    match parse(name, document.body.as_ref()?) {
        Ok(plugin) => Some(plugin),
        Err(error) => {
            tracing::warn!(%error, "a plug-in is left out");
            None
        }
    }
}

fn parse(name: &Name, body: &[u8]) -> Result<Plugin, StoreError> {
    serde_json::from_slice(body).map_err(|error| StoreError::Plugin {
        document: name.clone(),
        reason: error.to_string(),
    })
}

fn name_of(id: &PluginId, version: &str) -> Result<Name, StoreError> {
    let name = Name::new(&format!("{PREFIX}{id}{SEPARATOR}{version}"));
    name.map_err(|error| {
        StoreError::Bus(BusError::Refused {
            reason: error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use broker::{Broker, Settings, SystemClock};
    use bus::engines::EmbeddedBus;
    use journal::{Options, testing::MemoryStorage};

    use super::super::plugin::tests::{component, described};
    use super::super::plugin::{PluginNotes, version_of};
    use super::*;

    fn index() -> Index {
        let storage = Arc::new(MemoryStorage::new(1));
        let clock = Arc::new(SystemClock);
        let started = Broker::start(storage, Options::default(), Settings::default(), clock);
        Index::new(Arc::new(EmbeddedBus::new(started.unwrap().0)))
    }

    fn plugin(id: &str, version: &str) -> Plugin {
        let component = component(&described(id, version));
        Plugin::of(&component, None, &PluginNotes::default()).unwrap()
    }

    async fn add(index: &Index, id: &str, version: &str) {
        let plugin = plugin(id, version);
        let stored = index.put(&plugin.id, &plugin.version, 0, Some(&plugin));
        assert!(stored.await.unwrap());
    }

    async fn ids(index: &Index, query: &PluginQuery) -> Vec<String> {
        let page = index.page(query).await.unwrap();
        page.iter().map(|summary| summary.id.to_string()).collect()
    }

    #[tokio::test]
    async fn pages_follow_each_other_in_the_order_of_ids() {
        let index = index();
        // Ids of which one begins with the other, and more versions than are read at a time.
        for id in ["a", "a-b", "a/b", "a_b", "ab", "shop/filter"] {
            for version in 0..20 {
                add(&index, id, &format!("1.{version}.0")).await;
            }
        }
        let mut query = PluginQuery {
            limit: 2,
            ..PluginQuery::default()
        };
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = ids(&index, &query).await;
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            query.after = Some(last.parse().unwrap());
            seen.extend(page);
        }
        assert_eq!(seen, ["a", "a-b", "a/b", "a_b", "ab", "shop/filter"]);
        let query = PluginQuery {
            text: Some("FILTER".to_owned()),
            limit: 2,
            ..PluginQuery::default()
        };
        let page = index.page(&query).await.unwrap();
        assert_eq!(page.len(), 1);
        assert_eq!(page[0].newest, version_of("1.19.0").unwrap());
        assert_eq!(page[0].versions.len(), 20);
        let id = "a".parse().unwrap();
        assert_eq!(index.versions(&id).await.unwrap().len(), 20);
    }

    #[tokio::test]
    async fn a_version_is_made_once() {
        let index = index();
        let one = plugin("a", "1.0.0");
        let put = |revision, plugin| index.put(&one.id, &one.version, revision, plugin);
        assert!(put(0, Some(&one)).await.unwrap());
        assert!(!put(0, Some(&one)).await.unwrap());
        let (revision, found) = index.get(&one.id, &one.version).await.unwrap();
        assert_eq!(found.as_ref(), Some(&one));
        assert!(put(revision, None).await.unwrap());
        assert!(index.versions(&one.id).await.unwrap().is_empty());
        assert!(index.digests().await.unwrap().is_empty());
    }
}
