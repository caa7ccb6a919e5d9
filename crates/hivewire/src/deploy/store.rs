//! What is deployed, so that it survives a restart: records in the state of the bus, the bytes of
//! components in the data folder.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, Commit, Owner, StateWrite};
use bytes::Bytes;
use kernel::{Name, StageAddress};
use runtime::{Delivery, HistoryEntry, StageSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::components::{Components, ComponentsError};
use super::sharing::{Places, Restarts};
use super::source::{Component, Source};

/// The bucket of the records. A node among several has one of its own.
const BUCKET: &str = "hivewire.deployments";
const STAGE_PREFIX: &str = "stage/";
const HISTORY_PREFIX: &str = "history/";
const TIMEOUT: Duration = Duration::from_secs(30);
const SCAN_PAIRS: usize = 100;

/// Why something could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The bus says no.
    #[error("what is deployed cannot be stored: {0}")]
    Bus(#[from] BusError),
    /// The data folder says no.
    #[error(transparent)]
    Components(#[from] ComponentsError),
    /// A step of it panicked, which is a bug.
    #[error("storing broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
    /// Others change the same thing all the time.
    #[error("somebody else changed {stage} at the same time: look at it, and try again")]
    Changed {
        /// The stage.
        stage: StageAddress,
    },
    /// A definition that this version does not understand.
    #[error(
        "the definition of {stage} cannot be read here ({reason}): bring all nodes to the same version of Hivewire"
    )]
    Definition {
        /// The stage.
        stage: StageAddress,
        /// What is wrong with it.
        reason: String,
    },
    /// What is known of a plug-in and not understood by this version.
    #[error(
        "what {document} says of a plug-in cannot be read here ({reason}): bring all nodes to the same version of Hivewire"
    )]
    Plugin {
        /// The name of the document.
        document: Name,
        /// What is wrong with it.
        reason: String,
    },
    /// A flow document that this version does not understand.
    #[error(
        "the flow document {document} cannot be read here ({reason}): bring all nodes to the same version of Hivewire"
    )]
    Flow {
        /// The name of the document.
        document: Name,
        /// What is wrong with it.
        reason: String,
    },
    /// A component that no node has put into the store.
    #[error("the component {digest} is not in the store that the nodes share: deploy it again")]
    NotShared {
        /// Its digest.
        digest: String,
    },
}

/// What is deployed as a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What the stage is to be.
    pub spec: StageSpec,
    /// The code that it runs.
    pub component: Origin,
    /// Its router, if that is one's own.
    pub router: Option<Origin>,
    /// Whether the sources are watched.
    pub watch: bool,
    /// The number of the version, counted over restarts of the node.
    pub version: u32,
    /// What ran before, in case this version does not stand its probation.
    pub previous: Option<Box<Previous>>,
    /// Digests of components that were tried last and did not fit.
    #[serde(default)]
    pub refused: Refused,
    /// Where it runs, if several nodes share it.
    #[serde(default)]
    pub places: Places,
    /// The node that watches the sources, if several share the stage.
    #[serde(default)]
    pub watcher: Option<String>,
    /// How its workers were started again by hand, if several nodes share them.
    #[serde(default)]
    pub restarts: Restarts,
    /// Whether it takes nothing until somebody lets it go on. A deployment does not change that.
    #[serde(default)]
    pub paused: bool,
}

/// What ran before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Previous {
    pub spec: StageSpec,
    pub component: Origin,
    pub router: Option<Origin>,
    pub version: u32,
}

/// What was tried last and did not fit: it is not tried again until it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    pub component: Option<String>,
    pub router: Option<String>,
}

/// A component and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    pub source: Source,
    pub digest: String,
    pub etag: Option<String>,
}

impl Record {
    /// Whether each node that runs it has events and state of its own, in its memory.
    pub fn is_memory(&self) -> bool {
        self.spec.delivery == Delivery::Memory
    }

    /// Whether the same code runs in the same way.
    pub fn runs_the_same(&self, other: &Self) -> bool {
        let router = |record: &Self| record.router.as_ref().map(|own| own.digest.clone());
        self.spec == other.spec
            && self.component.digest == other.component.digest
            && router(self) == router(other)
    }

    /// Whether the same code from the same sources runs in the same way and in the same places.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let router = |record: &Self| record.router.as_ref().map(|own| own.source.clone());
        self.runs_the_same(other)
            && self.component.source == other.component.source
            && router(self) == router(other)
            && self.watch == other.watch
            && self.places == other.places
    }

    /// Ends the replica of a node, unless it is the last one, which ends with its stage.
    pub fn end_replica(&mut self, of: &str) {
        let replicas = &self.places.replicas;
        if replicas.len() > 1 && replicas.contains_key(of) {
            self.places.set_replica(&mut self.spec, of, Vec::new());
            self.version += 1;
        }
    }

    /// The digests of all components that it may need.
    pub fn digests(&self) -> impl Iterator<Item = &String> {
        let previous = self.previous.iter();
        let previous = previous.flat_map(|p| std::iter::once(&p.component).chain(&p.router));
        let all = std::iter::once(&self.component)
            .chain(&self.router)
            .chain(previous);
        all.map(|origin| &origin.digest)
    }
}

/// Everything that was found at the start.
#[derive(Default)]
pub(super) struct Found {
    pub records: Vec<Record>,
    pub histories: Vec<(StageAddress, Vec<HistoryEntry>)>,
}

/// Keeps what is deployed.
pub(super) struct Store {
    bus: Arc<dyn Bus>,
    bucket: Name,
    /// Raised at the first write: a node that deploys nothing writes nothing.
    epoch: OnceCell<u64>,
    components: Arc<Components>,
}

impl Store {
    /// The records of this data folder. The first write takes them over from whoever had them before.
    pub async fn open(
        bus: Arc<dyn Bus>,
        data: &Path,
        node: Option<&Name>,
    ) -> Result<Self, StoreError> {
        let bucket = match node {
            Some(node) => Name::new(&format!("{BUCKET}.{node}")),
            None => Name::new(BUCKET),
        };
        let bucket = bucket.map_err(|error| BusError::Refused {
            reason: error.to_string(),
        })?;
        let data = data.to_path_buf();
        let components = tokio::task::spawn_blocking(move || Components::open(&data)).await??;
        Ok(Self {
            bus,
            bucket,
            epoch: OnceCell::new(),
            components: Arc::new(components),
        })
    }

    /// Reads everything back. What this version cannot read is left alone and told in the log.
    pub async fn read(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let mut after: Option<Bytes> = None;
        loop {
            let scanned = self
                .bus
                .scan(&self.bucket, after.as_deref(), SCAN_PAIRS, TIMEOUT);
            let pairs = scanned.await?;
            let Some((last, _)) = pairs.last() else {
                return Ok(found);
            };
            after = Some(last.clone());
            for (key, value) in &pairs {
                found.add(key, value);
            }
        }
    }

    pub async fn put(&self, record: &Record) -> Result<(), StoreError> {
        let key = stage_key(&record.spec.address);
        self.write(set(key, record)).await
    }

    pub async fn remove(&self, stage: &StageAddress) -> Result<(), StoreError> {
        let key = stage_key(stage);
        self.write(StateWrite::Remove { key }).await
    }

    pub async fn put_history(
        &self,
        stage: &StageAddress,
        entries: &[HistoryEntry],
    ) -> Result<(), StoreError> {
        let key = history_key(stage);
        self.write(set(key, &entries)).await
    }

    pub async fn remove_history(&self, stage: &StageAddress) -> Result<(), StoreError> {
        let key = history_key(stage);
        self.write(StateWrite::Remove { key }).await
    }

    async fn write(&self, write: StateWrite) -> Result<(), StoreError> {
        let raise = || self.bus.raise_epoch(&self.bucket, TIMEOUT);
        let owner = Owner {
            bucket: self.bucket.clone(),
            epoch: *self.epoch.get_or_try_init(raise).await?,
        };
        let commit = Commit {
            owner: Some(owner),
            writes: vec![write],
            ..Commit::default()
        };
        self.bus.commit(&commit, TIMEOUT).await?;
        Ok(())
    }

    pub async fn save_component(&self, component: Component) -> Result<(), StoreError> {
        let components = self.components.clone();
        let saving = tokio::task::spawn_blocking(move || components.save(&component));
        Ok(saving.await??)
    }

    pub async fn load_component(&self, digest: &str) -> Result<Component, StoreError> {
        let (components, digest) = (self.components.clone(), digest.to_owned());
        let loading = tokio::task::spawn_blocking(move || components.load(&digest));
        Ok(loading.await??)
    }

    /// Removes components that are not used, given by their digests.
    pub async fn sweep(&self, used: HashSet<String>) -> Result<usize, StoreError> {
        let components = self.components.clone();
        let sweeping = tokio::task::spawn_blocking(move || components.sweep(&used));
        Ok(sweeping.await??)
    }
}

impl Found {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let key = String::from_utf8_lossy(key);
        if key.starts_with(STAGE_PREFIX) {
            self.records.extend(parsed(&key, value));
        } else if let Some(stage) = key.strip_prefix(HISTORY_PREFIX)
            && let Ok(stage) = stage.parse()
        {
            self.histories
                .extend(parsed(&key, value).map(|entries| (stage, entries)));
        }
    }
}

fn parsed<T: DeserializeOwned>(key: &str, value: &[u8]) -> Option<T> {
    match serde_json::from_slice(value) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::error!(key, %error, "cannot read what is stored about a stage: deploy it again");
            None
        }
    }
}

fn stage_key(stage: &StageAddress) -> Bytes {
    format!("{STAGE_PREFIX}{stage}").into()
}

fn history_key(stage: &StageAddress) -> Bytes {
    format!("{HISTORY_PREFIX}{stage}").into()
}

fn set(key: Bytes, value: &impl Serialize) -> StateWrite {
    let value = serde_json::to_vec(value).expect("records have text keys");
    StateWrite::Set {
        key,
        value: value.into(),
    }
}

#[cfg(test)]
mod tests {
    use broker::{Broker, Settings, SystemClock};
    use bus::engines::EmbeddedBus;
    use journal::{Options, testing::MemoryStorage};

    use super::*;

    fn record(stage: &str) -> Record {
        Record {
            spec: StageSpec::new(stage.parse().unwrap()).workers(3),
            component: Origin {
                source: "/w.wasm".parse().unwrap(),
                digest: "0".repeat(64),
                etag: None,
            },
            router: None,
            watch: true,
            version: 7,
            previous: None,
            paused: false,
            refused: Refused::default(),
            places: Places::default(),
            watcher: None,
            restarts: Restarts::default(),
        }
    }

    #[tokio::test]
    async fn records_come_back_and_an_older_owner_is_fenced() {
        let data = tempfile::tempdir().unwrap();
        let storage = Arc::new(MemoryStorage::new(1));
        let clock = Arc::new(SystemClock);
        let started = Broker::start(storage, Options::default(), Settings::default(), clock);
        let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(started.unwrap().0));
        let first = Store::open(bus.clone(), data.path(), None).await.unwrap();
        for number in 0..2 * SCAN_PAIRS {
            first
                .put(&record(&format!("flow/s{number}")))
                .await
                .unwrap();
        }
        first.remove(&"flow/s7".parse().unwrap()).await.unwrap();
        let second = Store::open(bus, data.path(), None).await.unwrap();
        let found = second.read().await.unwrap();
        assert_eq!(found.records.len(), 2 * SCAN_PAIRS - 1);
        assert!(found.records.contains(&record("flow/s8")));
        assert!(!found.records.contains(&record("flow/s7")));
        second.put(&record("flow/next")).await.unwrap();
        let fenced = first.put(&record("flow/late")).await;
        assert!(matches!(
            fenced,
            Err(StoreError::Bus(BusError::Fenced { .. }))
        ));
    }
}
