//! The plug-in repository: workers' code with its descriptors, by id and version.
//!
//! The own repository is an [index](index) of documents on the bus, so that all nodes on it have the
//! same, and the components that lie in the data folder anyway. Behind it, in order, stand the
//! repositories that are configured: [folders](folder) and [other nodes](remote).

mod built_in;
mod error;
mod folder;
pub(super) mod index;
mod plugin;
mod remote;
mod repository;
pub(super) mod schema;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use kernel::{PluginId, StageAddress, descriptor};
use schemars::JsonSchema;
use semver::Version;
use serde::Serialize;
use tokio::time::timeout;

pub use self::error::PluginError;
use self::index::Index;
use self::plugin::newest;
pub use self::plugin::{Plugin, PluginNotes, PluginQuery, PluginRef, PluginSummary, version_of};
use self::repository::Repository;
pub use self::repository::{Location, PluginSettings, RepositorySettings};
pub use self::schema::ArgsError;
use super::built_in::id_of as built_in_id;
use super::change::{Obtained, Plan};
use super::source::{Component, Source};
use super::store::{Record, StoreError};
use super::{DeployError, Deployments};
use crate::events::{Event, kind};

/// What the own repository is called.
pub const OWN: &str = "own";

/// How often a change is tried while others make theirs.
const CHANGES_MAX: usize = 10;
/// How long another repository may take to list what it has.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// All repositories of a node.
pub(super) struct Plugins {
    pub index: Index,
    others: Vec<Box<dyn Repository>>,
    versions_max: usize,
}

/// What became of an upload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PushedPlugin {
    /// What is there now.
    pub plugin: Plugin,
    /// Whether it was not there before.
    pub created: bool,
}

/// A version and where it was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FoundPlugin {
    /// What is there.
    #[serde(flatten)]
    pub plugin: Plugin,
    /// The name of the repository.
    pub repository: String,
}

/// Plug-ins out of all repositories.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PluginPage {
    /// In the order of their ids.
    pub plugins: Vec<PluginSummary>,
    /// After which one to go on; nothing if these were the last.
    pub next: Option<PluginId>,
    /// Which repositories could not be asked.
    pub troubles: Vec<Trouble>,
}

/// All versions of a plug-in, out of all repositories.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PluginVersions {
    /// What it is called.
    pub id: PluginId,
    /// The newest first.
    pub versions: Vec<FoundPlugin>,
    /// Which repositories could not be asked.
    pub troubles: Vec<Trouble>,
}

/// A repository that could not be asked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Trouble {
    /// Its name.
    pub repository: String,
    /// What went wrong.
    pub reason: String,
}

impl Plugins {
    pub fn new(
        settings: &PluginSettings,
        bus: std::sync::Arc<dyn bus::Bus>,
        fetcher: &super::Fetcher,
    ) -> Self {
        Self {
            index: Index::new(bus),
            others: repository::open(settings, fetcher),
            versions_max: settings.versions_max,
        }
    }
}

impl Deployments {
    /// Takes a component into the own repository. It is checked and not compiled, and nothing of it
    /// runs. The same bytes again change nothing; others under the same version are refused.
    pub async fn push_plugin(
        &self,
        bytes: Bytes,
        named: Option<(PluginId, Version)>,
        notes: PluginNotes,
    ) -> Result<PushedPlugin, PluginError> {
        let this = self.this();
        // To its end, though the caller may lose interest.
        tokio::spawn(async move { this.push(bytes, named, notes).await }).await?
    }

    async fn push(
        &self,
        bytes: Bytes,
        named: Option<(PluginId, Version)>,
        notes: PluginNotes,
    ) -> Result<PushedPlugin, PluginError> {
        let checked = self.loader.check(bytes).await;
        let component = checked.map_err(PluginError::Component)?;
        let read = component.clone();
        let reading = tokio::task::spawn_blocking(move || Plugin::of(&read, named, &notes));
        let mut plugin = reading.await??;
        plugin.pushed_at_ms = Some(self.clock.now().as_millis());
        let index = &self.plugins.index;
        for _ in 0..CHANGES_MAX {
            let (revision, known) = index.get(&plugin.id, &plugin.version).await?;
            if let Some(known) = known {
                return self.pushed_before(&component, known).await;
            }
            self.check_room(&plugin.id).await?;
            self.keep_component(&component).await?;
            let put = index.put(&plugin.id, &plugin.version, revision, Some(&plugin));
            if put.await? {
                self.tell_plugin("pushed", &plugin);
                return Ok(PushedPlugin {
                    plugin,
                    created: true,
                });
            }
        }
        Err(PluginError::Changed {
            id: plugin.id,
            version: plugin.version,
        })
    }

    fn tell_plugin(&self, event: &str, plugin: &Plugin) {
        let event = Event::new(kind::PLUGIN, event)
            .with("id", plugin.id.to_string())
            .with("version", plugin.version.to_string());
        self.tell(event.with("digest", plugin.digest.as_str()));
    }

    /// A version that is there does not change.
    async fn pushed_before(
        &self,
        component: &Component,
        known: Plugin,
    ) -> Result<PushedPlugin, PluginError> {
        if known.digest != component.digest {
            return Err(PluginError::Taken {
                id: known.id,
                version: known.version,
                digest: known.digest,
            });
        }
        // Perhaps it was lost here.
        self.keep_component(component).await?;
        Ok(PushedPlugin {
            plugin: known,
            created: false,
        })
    }

    async fn check_room(&self, id: &PluginId) -> Result<(), PluginError> {
        let versions_max = self.plugins.versions_max;
        match self.plugins.index.versions(id).await?.len() < versions_max {
            true => Ok(()),
            false => Err(PluginError::Full {
                id: id.clone(),
                versions_max,
            }),
        }
    }

    /// Keeps a component here and, if nodes share a bus, where all of them find it.
    async fn keep_component(&self, component: &Component) -> Result<(), StoreError> {
        self.store.save_component(component.clone()).await?;
        match &self.sharing {
            Some(sharing) => sharing.save_component(component).await,
            None => Ok(()),
        }
    }

    /// Lists plug-ins of all repositories. Of those with the same id, the first repository's is shown.
    pub async fn list_plugins(&self, query: &PluginQuery) -> Result<PluginPage, PluginError> {
        // One more than is wanted, to see whether there are more.
        let wider = PluginQuery {
            limit: query.limit + 1,
            ..query.clone()
        };
        let own = self.plugins.index.page(&wider).await?;
        let mut found: BTreeMap<PluginId, PluginSummary> = own
            .into_iter()
            .map(|plugin| (plugin.id.clone(), plugin))
            .collect();
        let mut troubles = Vec::new();
        for repository in self.others(query.own) {
            match in_time(repository.page(&wider)).await {
                Ok(plugins) => {
                    for plugin in plugins {
                        found.entry(plugin.id.clone()).or_insert(plugin);
                    }
                }
                Err(reason) => troubles.push(trouble(&**repository, reason)),
            }
        }
        let is_more = found.len() > query.limit;
        let plugins: Vec<PluginSummary> = found.into_values().take(query.limit).collect();
        let last = plugins.last().map(|plugin| plugin.id.clone());
        Ok(PluginPage {
            next: last.filter(|_| is_more),
            plugins,
            troubles,
        })
    }

    fn others(&self, own: bool) -> &[Box<dyn Repository>] {
        match own {
            true => &[],
            false => &self.plugins.others,
        }
    }

    /// All versions of a plug-in. Of those with the same number, the first repository's is given.
    pub async fn plugin_versions(
        &self,
        id: &PluginId,
        own: bool,
    ) -> Result<PluginVersions, PluginError> {
        let mut versions = found_in(OWN, self.plugins.index.versions(id).await?);
        let mut troubles = Vec::new();
        for repository in self.others(own) {
            match in_time(repository.versions(id)).await {
                Ok(others) => {
                    for other in found_in(repository.name(), others) {
                        let same = |v: &FoundPlugin| v.plugin.version == other.plugin.version;
                        if !versions.iter().any(same) {
                            versions.push(other);
                        }
                    }
                }
                Err(reason) => troubles.push(trouble(&**repository, reason)),
            }
        }
        if versions.is_empty() && troubles.is_empty() {
            return Err(PluginError::Unknown {
                reference: PluginRef {
                    id: id.clone(),
                    version: None,
                },
                versions: Vec::new(),
            });
        }
        versions.sort_by(|a, b| b.plugin.version.cmp(&a.plugin.version));
        Ok(PluginVersions {
            id: id.clone(),
            versions,
            troubles,
        })
    }

    /// Finds a version, in the first repository that has it; without a number, the newest one of the
    /// first repository that has any. A repository that cannot be asked ends the search: one behind it
    /// may have something else under the same name.
    pub async fn plugin(
        &self,
        reference: &PluginRef,
        own: bool,
    ) -> Result<FoundPlugin, PluginError> {
        let mut known = Vec::new();
        let versions = self.plugins.index.versions(&reference.id).await?;
        if let Some(plugin) = chosen(reference, &versions) {
            return Ok(found(OWN, plugin.clone()));
        }
        known.extend(versions.into_iter().map(|plugin| plugin.version));
        for repository in self.others(own) {
            let versions = repository.versions(&reference.id).await?;
            if let Some(plugin) = chosen(reference, &versions) {
                return Ok(found(repository.name(), plugin.clone()));
            }
            known.extend(versions.into_iter().map(|plugin| plugin.version));
        }
        known.sort();
        Err(PluginError::Unknown {
            reference: reference.clone(),
            versions: known,
        })
    }

    /// The component of a version: from the data folder, or else from where it was found. What comes
    /// from elsewhere is compared with the digest that was promised, and kept.
    pub async fn plugin_component(&self, found: &FoundPlugin) -> Result<Component, PluginError> {
        let plugin = &found.plugin;
        let kept = match self.store.load_component(&plugin.digest).await {
            Ok(component) => return Ok(component),
            Err(error) => error,
        };
        let others = self.plugins.others.iter();
        let mut others = others.filter(|repository| repository.name() == found.repository);
        let component = match (&self.sharing, others.next()) {
            (_, Some(repository)) => repository.component(plugin).await?,
            (Some(sharing), None) => sharing.load_component(&plugin.digest).await?,
            (None, None) => return Err(kept.into()),
        };
        if component.digest != plugin.digest {
            return Err(PluginError::Digest {
                repository: found.repository.clone(),
                plugin: format!("{}@{}", plugin.id, plugin.version),
                promised: plugin.digest.clone(),
                found: component.digest,
            });
        }
        self.store.save_component(component.clone()).await?;
        Ok(component)
    }

    /// Removes a version from the own repository, unless a stage uses it.
    pub async fn remove_plugin(
        &self,
        id: &PluginId,
        version: &Version,
    ) -> Result<Plugin, PluginError> {
        let index = &self.plugins.index;
        for _ in 0..CHANGES_MAX {
            let (revision, known) = index.get(id, version).await?;
            let plugin = known.ok_or_else(|| PluginError::Unknown {
                reference: PluginRef::exact(id, version),
                versions: Vec::new(),
            })?;
            let stages = self.stages_of(&PluginRef::exact(id, version)).await?;
            if !stages.is_empty() {
                return Err(PluginError::InUse {
                    id: id.clone(),
                    version: version.clone(),
                    stages,
                });
            }
            if index.put(id, version, revision, None).await? {
                self.forget_plugin(&plugin).await;
                self.tell_plugin("removed", &plugin);
                return Ok(plugin);
            }
        }
        Err(PluginError::Changed {
            id: id.clone(),
            version: version.clone(),
        })
    }

    /// The stages whose code is this version.
    async fn stages_of(&self, reference: &PluginRef) -> Result<Vec<StageAddress>, StoreError> {
        let records = match &self.sharing {
            Some(sharing) => sharing.definitions().await?,
            None => self.records(),
        };
        let source = Source::Plugin(reference.clone());
        let is_used = |record: &Record| {
            let mut origins = std::iter::once(&record.component).chain(&record.router);
            origins.any(|origin| origin.source == source)
        };
        let using = records.into_iter().filter(is_used);
        Ok(using.map(|record| record.spec.address).collect())
    }

    /// What lies in the data folder goes with the next sweep.
    async fn forget_plugin(&self, plugin: &Plugin) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        let digests = HashSet::from([plugin.digest.clone()]);
        if let Err(error) = sharing.forget_components(digests).await {
            tracing::warn!(%error, "a component that nobody needs stays in the store");
        }
    }

    /// What was pushed while the node stood alone is put where all nodes find it.
    pub(super) async fn share_plugins(&self) -> Result<(), StoreError> {
        let Some(sharing) = &self.sharing else {
            return Ok(());
        };
        for digest in self.plugins.index.digests().await? {
            if sharing.has_component(&digest).await? {
                continue;
            }
            match self.store.load_component(&digest).await {
                Ok(component) => sharing.save_component(&component).await?,
                Err(error) => tracing::warn!(%error, "a plug-in cannot be shared: push it again"),
            }
        }
        Ok(())
    }

    /// The code of a plug-in for a deployment, which remembers the exact version.
    pub(super) async fn obtain_plugin(
        &self,
        reference: &PluginRef,
    ) -> Result<Obtained, DeployError> {
        let found = self.plugin(reference, false).await?;
        let component = self.plugin_component(&found).await?;
        let exact = PluginRef::exact(&found.plugin.id, &found.plugin.version);
        Ok((component, Source::Plugin(exact)))
    }
}

/// Compares the arguments with the parameters that the component describes, if it does. Then they are
/// JSON: none at all is an empty object.
pub(super) async fn check_args(plan: &mut Plan) -> Result<(), DeployError> {
    // What is damaged is told when it is loaded.
    let Ok(Some(said)) = descriptor::read(&plan.component.0.bytes) else {
        return Ok(());
    };
    let plugin = said.id().to_owned();
    let Some(parameters) = said.parameters else {
        return Ok(());
    };
    if plan.spec.args.trim().is_empty() {
        plan.spec.args = "{}".to_owned();
    }
    schema::check_args(&plugin, parameters, &plan.spec.args).await?;
    check_built_in(&plan.component.0.bytes, &plan.spec.args)
}

/// What is built in can say more about its arguments than a schema can: whether expressions make sense.
fn check_built_in(component: &[u8], args: &str) -> Result<(), DeployError> {
    let built_in = built_in_id(component).and_then(|id| flows::plugins::find(&id));
    let Some(built_in) = built_in else {
        return Ok(());
    };
    built_in.check(args.as_bytes()).map_err(|error| {
        DeployError::Args(ArgsError {
            plugin: built_in.id().to_owned(),
            pointer: pointer_of(error.field()),
            reason: error.to_string(),
        })
    })
}

/// A field with dots as a JSON pointer.
fn pointer_of(field: &str) -> String {
    let parts = field.split('.').filter(|part| !part.is_empty());
    parts.map(|part| format!("/{part}")).collect()
}

/// The version that is meant.
fn chosen<'a>(reference: &PluginRef, versions: &'a [Plugin]) -> Option<&'a Plugin> {
    match &reference.version {
        Some(version) => versions.iter().find(|plugin| plugin.version == *version),
        None => newest(versions),
    }
}

fn found(repository: &str, plugin: Plugin) -> FoundPlugin {
    FoundPlugin {
        plugin,
        repository: repository.to_owned(),
    }
}

fn found_in(repository: &str, versions: Vec<Plugin>) -> Vec<FoundPlugin> {
    let found = |plugin| found(repository, plugin);
    versions.into_iter().map(found).collect()
}

/// What another repository answers, or why it does not.
async fn in_time<T>(
    asking: impl Future<Output = Result<T, PluginError>> + Send,
) -> Result<T, String> {
    match timeout(LIST_TIMEOUT, asking).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it did not answer within {LIST_TIMEOUT:?}")),
    }
}

fn trouble(repository: &dyn Repository, reason: String) -> Trouble {
    Trouble {
        repository: repository.name().to_owned(),
        reason,
    }
}
