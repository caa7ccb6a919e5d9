//! What several nodes share: definitions of stages and components, as documents of the bus.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bus::{Bus, BusError, Put};
use bytes::BytesMut;
use control::{Agent, DEFINITIONS, definition_name};
use kernel::{Name, StageAddress};
use runtime::{StageKind, StageSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plugins::index::Index;
use super::source::{Component, digest_of};
use super::store::{Record, StoreError};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Components are cut into pieces that fit into a message of any engine.
const PIECE_BYTES: usize = 256 << 10;
/// How the names of documents begin that hold pieces of components.
const COMPONENTS: &str = "hivewire.component.";
/// How many definitions are read at a time.
const DEFINITIONS_AT_ONCE: usize = 100;
/// How often a change is tried while others make theirs.
const CHANGES_MAX: usize = 10;

/// Where a stage runs, if several nodes share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Places {
    /// Nodes that were named; one that is there twice gets twice as much. If none was, all share.
    pub on: Vec<String>,
    /// Parts that were moved by hand.
    pub moved: BTreeMap<u32, String>,
    /// What was named for a node that is dead waits for it, instead of going elsewhere.
    pub strict: bool,
    /// Where the workers of each replica run, by the node that the replica was deployed for: a flow can
    /// have one on every node, and all share its queues. Empty if places were named in another way.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, Vec<String>>,
}

impl Places {
    /// These nodes, whatever was said before.
    pub(super) fn name(&mut self, on: Vec<String>) {
        self.on = on;
        self.moved.clear();
        self.replicas.clear();
    }

    /// The replica of a node has its workers there from now on, or is no more if there are none.
    pub(super) fn set_replica(&mut self, spec: &mut StageSpec, of: &str, on: Vec<String>) {
        match on.is_empty() {
            true => self.replicas.remove(of),
            false => self.replicas.insert(of.to_owned(), on),
        };
        self.on = self.replicas.values().flatten().cloned().collect();
        spec.workers = self.on.len() as u32;
        self.moved = match spec.kind {
            StageKind::Routed(_) => self.pinned(),
            // Each of the nodes gets one share, which is a worker.
            StageKind::Pool(_) | StageKind::Keyed(_) => BTreeMap::new(),
        };
    }

    /// A routed stage has one share more than workers, so equal shares would not be one worker each. Its
    /// owner is on the first node that it was deployed for.
    fn pinned(&self) -> BTreeMap<u32, String> {
        let owner = self.replicas.keys().next();
        (0..)
            .zip(owner.into_iter().chain(&self.on).cloned())
            .collect()
    }
}

/// How often and how the workers of a shared stage were started again by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restarts {
    pub count: u64,
    pub worker: Option<u32>,
    pub reset: bool,
}

/// What this node has applied of the definition of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    pub revision: u64,
    /// Why it could not.
    pub failure: Option<String>,
}

/// What several nodes share.
pub(super) struct Sharing {
    bus: Arc<dyn Bus>,
    pub node: Name,
    pub agent: OnceLock<Agent>,
}

impl Sharing {
    pub fn new(bus: Arc<dyn Bus>, node: Name) -> Self {
        Self {
            bus,
            node,
            agent: OnceLock::new(),
        }
    }

    /// Whether this node runs a stage, or is to have a part of it if it is its turn. What is in memory runs on each of the
    /// nodes that were named, or on all.
    pub fn runs_here(&self, record: &Record) -> bool {
        let on = &record.places.on;
        !record.is_memory() || on.is_empty() || on.iter().any(|node| node == self.node.as_str())
    }

    /// The definition of a stage and its revision; none if there is no such stage.
    pub async fn definition(
        &self,
        stage: &StageAddress,
    ) -> Result<(u64, Option<Record>), StoreError> {
        let document = self.bus.document(&name_of(stage)?, TIMEOUT).await?;
        let record = match &document.body {
            Some(body) => Some(parse(stage, body)?),
            None => None,
        };
        Ok((document.revision, record))
    }

    /// Stores a definition in place of this revision and gives the new one; none if somebody else
    /// changed it in the meantime.
    pub async fn put(
        &self,
        stage: &StageAddress,
        revision: u64,
        record: Option<&Record>,
    ) -> Result<Option<u64>, StoreError> {
        let body = record.map(|record| serde_json::to_vec(record).expect("its keys are texts"));
        let name = name_of(stage)?;
        let put = self
            .bus
            .put_document(&name, revision, body.as_deref(), TIMEOUT);
        let stored = match put.await? {
            Put::Stored(revision) => Some(revision),
            Put::Conflict(_) => None,
        };
        if stored.is_some()
            && let Some(agent) = self.agent.get()
        {
            agent.definition_changed(stage);
        }
        Ok(stored)
    }

    /// Changes a definition, again if somebody else was faster. Gives the revision and what became
    /// of it; none if there is no such stage, or if nothing is to be changed.
    pub async fn change(
        &self,
        stage: &StageAddress,
        mut change: impl FnMut(&mut Record) -> bool + Send,
    ) -> Result<Option<(u64, Record)>, StoreError> {
        for _ in 0..CHANGES_MAX {
            let (revision, record) = self.definition(stage).await?;
            let Some(mut record) = record else {
                return Ok(None);
            };
            if !change(&mut record) {
                return Ok(None);
            }
            if let Some(revision) = self.put(stage, revision, Some(&record)).await? {
                return Ok(Some((revision, record)));
            }
        }
        Err(StoreError::Changed {
            stage: stage.clone(),
        })
    }

    /// All definitions.
    pub async fn definitions(&self) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let mut after: Option<Name> = None;
        loop {
            let last = after.take();
            let some = self
                .bus
                .documents(DEFINITIONS, last.as_ref(), DEFINITIONS_AT_ONCE, TIMEOUT)
                .await?;
            for (_, document) in &some {
                let record = document
                    .body
                    .as_ref()
                    .map(|body| serde_json::from_slice(body));
                match record {
                    Some(Ok(record)) => records.push(record),
                    Some(Err(error)) => tracing::warn!(%error, "a definition cannot be read"),
                    None => {}
                }
            }
            match some.last() {
                Some((name, _)) => after = Some(name.clone()),
                None => return Ok(records),
            }
        }
    }

    /// Puts a component where all nodes find it.
    pub async fn save_component(&self, component: &Component) -> Result<(), StoreError> {
        let pieces: Vec<&[u8]> = component.bytes.chunks(PIECE_BYTES).collect();
        // The first piece comes last: where it is, all are.
        for (number, piece) in pieces.iter().enumerate().rev() {
            let name = piece_name(&component.digest, number)?;
            loop {
                let document = self.bus.document(&name, TIMEOUT).await?;
                if document
                    .body
                    .as_deref()
                    .is_some_and(|body| body == head(pieces.len(), piece))
                {
                    break;
                }
                let body = head(pieces.len(), piece);
                let put = self
                    .bus
                    .put_document(&name, document.revision, Some(&body), TIMEOUT);
                if let Put::Stored(_) = put.await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether some node has put a component there.
    pub async fn has_component(&self, digest: &str) -> Result<bool, StoreError> {
        let first = self.bus.document(&piece_name(digest, 0)?, TIMEOUT).await?;
        Ok(first.body.is_some())
    }

    /// Reads a component that some node has put there.
    pub async fn load_component(&self, digest: &str) -> Result<Component, StoreError> {
        let missing = || StoreError::NotShared {
            digest: digest.to_owned(),
        };
        let mut bytes = BytesMut::new();
        let mut pieces = 1;
        let mut number = 0;
        while number < pieces {
            let document = self
                .bus
                .document(&piece_name(digest, number)?, TIMEOUT)
                .await?;
            let body = document.body.ok_or_else(missing)?;
            let (count, piece) = body.split_first_chunk().ok_or_else(missing)?;
            pieces = u32::from_le_bytes(*count) as usize;
            bytes.extend_from_slice(piece);
            number += 1;
        }
        if digest_of(&bytes) != digest {
            return Err(missing());
        }
        Ok(Component {
            bytes: bytes.freeze(),
            digest: digest.to_owned(),
            etag: None,
        })
    }

    /// Removes those of these components that no definition and no plug-in needs any more.
    pub async fn forget_components(&self, digests: HashSet<String>) -> Result<(), StoreError> {
        if digests.is_empty() {
            return Ok(());
        }
        let records = self.definitions().await?;
        let mut used = Index::new(self.bus.clone()).digests().await?;
        used.extend(records.iter().flat_map(Record::digests).cloned());
        for digest in digests.iter().filter(|digest| !used.contains(*digest)) {
            let mut number = 0;
            loop {
                let name = piece_name(digest, number)?;
                let document = self.bus.document(&name, TIMEOUT).await?;
                if document.body.is_none() {
                    break;
                }
                // Whoever changed it in the meantime needs it.
                let removed = self
                    .bus
                    .put_document(&name, document.revision, None, TIMEOUT);
                if let Put::Conflict(_) = removed.await? {
                    break;
                }
                number += 1;
            }
        }
        Ok(())
    }
}

/// A piece with the number of all pieces before it.
fn head(pieces: usize, piece: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + piece.len());
    body.extend_from_slice(&(pieces as u32).to_le_bytes());
    body.extend_from_slice(piece);
    body
}

fn name_of(stage: &StageAddress) -> Result<Name, StoreError> {
    definition_name(stage).map_err(|error| refused(error.to_string()))
}

fn piece_name(digest: &str, number: usize) -> Result<Name, StoreError> {
    let name = Name::new(&format!("{COMPONENTS}{digest}.{number}"));
    name.map_err(|error| refused(error.to_string()))
}

fn refused(reason: String) -> StoreError {
    StoreError::Bus(BusError::Refused { reason })
}

fn parse(stage: &StageAddress, body: &[u8]) -> Result<Record, StoreError> {
    serde_json::from_slice(body).map_err(|error| StoreError::Definition {
        stage: stage.clone(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(nodes: &[&str]) -> Vec<String> {
        nodes.iter().map(|&node| node.to_owned()).collect()
    }

    #[test]
    fn replicas_join_and_leave() {
        let mut spec = StageSpec::new("flow/stage".parse().unwrap());
        let mut places = Places::default();
        places.set_replica(&mut spec, "b", texts(&["b", "a"]));
        places.set_replica(&mut spec, "a", texts(&["a"]));
        assert_eq!((spec.workers, &places.on), (3, &texts(&["a", "b", "a"])));
        assert!(places.moved.is_empty());
        places.set_replica(&mut spec, "b", Vec::new());
        assert_eq!((spec.workers, &places.on), (1, &texts(&["a"])));
        places.name(texts(&["c"]));
        assert!(places.replicas.is_empty());
    }

    #[test]
    fn each_worker_of_a_routed_stage_is_where_it_was_named() {
        let kind = StageKind::Routed(runtime::RouterKind::Broadcast);
        let mut spec = StageSpec::new("flow/stage".parse().unwrap());
        spec.kind = kind;
        let mut places = Places::default();
        places.set_replica(&mut spec, "a", texts(&["b", "a"]));
        let moved: Vec<String> = places.moved.into_values().collect();
        assert_eq!(moved, ["a", "b", "a"], "first the owner");
    }
}
