//! Where flow documents are kept: one document of the bus for each flow, and one for each of its last versions.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, Put};
use flows::document::Document;
use kernel::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deploy::store::StoreError;

/// How the names of documents begin that hold flows.
const FLOWS: &str = "hivewire.flow.";
/// How the names of documents begin that hold versions of flows.
const VERSIONS: &str = "hivewire.flow-version.";
/// Comes before all that can stand in the name of a flow.
const SEPARATOR: char = '!';
/// How many versions are kept.
pub const VERSIONS_MAX: u64 = 50;
const TIMEOUT: Duration = Duration::from_secs(30);
const DOCUMENTS_AT_ONCE: usize = 10;
/// How much a document of the bus may hold.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A flow as it was applied last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Counts what was applied.
    pub version: u64,
    /// When.
    pub at_ms: u64,
    /// The document.
    pub document: Document,
    /// Whether its steps are under way, or were broken off by the end of a node: then nobody knows how far they came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_applying: bool,
    /// Stages that are to go when it is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub going: Vec<String>,
}

/// A version of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlowVersion {
    /// Its number.
    pub version: u64,
    /// When it was applied, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many stages it has.
    pub stages: usize,
}

pub(in crate::deploy) struct FlowStore {
    bus: Arc<dyn Bus>,
}

impl FlowStore {
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self { bus }
    }

    /// The flow and the revision of its document; none if none was applied.
    pub async fn get(&self, flow: &Name) -> Result<(u64, Option<FlowRecord>), StoreError> {
        let name = name_of(format!("{FLOWS}{flow}"))?;
        let document = self.bus.document(&name, TIMEOUT).await?;
        let record = match &document.body {
            Some(body) => Some(parse(&name, body)?),
            None => None,
        };
        Ok((document.revision, record))
    }

    /// All flows, in the order of their names.
    pub async fn all(&self) -> Result<Vec<FlowRecord>, StoreError> {
        let mut records = Vec::new();
        let mut after: Option<Name> = None;
        loop {
            let last = after.take();
            let found = self
                .bus
                .documents(FLOWS, last.as_ref(), DOCUMENTS_AT_ONCE, TIMEOUT);
            let found = found.await?;
            for (name, document) in &found {
                if let Some(body) = &document.body {
                    records.push(parse(name, body)?);
                }
            }
            match found.last() {
                Some((name, _)) => after = Some(name.clone()),
                None => return Ok(records),
            }
        }
    }

    /// Stores a flow in place of this revision and gives the new one; none if somebody else changed it meanwhile.
    pub async fn put(
        &self,
        flow: &Name,
        revision: u64,
        record: Option<&FlowRecord>,
    ) -> Result<Option<u64>, StoreError> {
        let name = name_of(format!("{FLOWS}{flow}"))?;
        let body = record.map(encode).transpose()?;
        let put = self
            .bus
            .put_document(&name, revision, body.as_deref(), TIMEOUT);
        Ok(match put.await? {
            Put::Stored(revision) => Some(revision),
            Put::Conflict(_) => None,
        })
    }

    /// Keeps a version, and lets the one go that is too old.
    pub async fn keep_version(&self, flow: &Name, record: &FlowRecord) -> Result<(), StoreError> {
        let name = version_name(flow, record.version)?;
        let body = encode(record)?;
        let known = self.bus.document(&name, TIMEOUT).await?;
        self.bus
            .put_document(&name, known.revision, Some(&body), TIMEOUT)
            .await?;
        let Some(old) = record
            .version
            .checked_sub(VERSIONS_MAX)
            .filter(|old| *old > 0)
        else {
            return Ok(());
        };
        let name = version_name(flow, old)?;
        let known = self.bus.document(&name, TIMEOUT).await?;
        if known.body.is_some() {
            self.bus
                .put_document(&name, known.revision, None, TIMEOUT)
                .await?;
        }
        Ok(())
    }

    /// One version.
    pub async fn version(
        &self,
        flow: &Name,
        version: u64,
    ) -> Result<Option<FlowRecord>, StoreError> {
        let name = version_name(flow, version)?;
        let document = self.bus.document(&name, TIMEOUT).await?;
        document.body.map(|body| parse(&name, &body)).transpose()
    }

    /// The versions that are kept, the newest first.
    pub async fn versions(&self, flow: &Name) -> Result<Vec<FlowVersion>, StoreError> {
        let prefix = format!("{VERSIONS}{flow}{SEPARATOR}");
        let mut versions = Vec::new();
        let mut after: Option<Name> = None;
        loop {
            let last = after.take();
            let found = self
                .bus
                .documents(&prefix, last.as_ref(), DOCUMENTS_AT_ONCE, TIMEOUT);
            let found = found.await?;
            for (name, document) in &found {
                if let Some(body) = &document.body {
                    let record = parse(name, body)?;
                    versions.push(FlowVersion {
                        version: record.version,
                        at_ms: record.at_ms,
                        stages: record.document.stages.len(),
                    });
                }
            }
            match found.last() {
                Some((name, _)) => after = Some(name.clone()),
                None => break,
            }
        }
        versions.sort_by_key(|version| std::cmp::Reverse(version.version));
        Ok(versions)
    }
}

fn version_name(flow: &Name, version: u64) -> Result<Name, StoreError> {
    name_of(format!("{VERSIONS}{flow}{SEPARATOR}{version:010}"))
}

fn name_of(text: String) -> Result<Name, StoreError> {
    Name::new(&text).map_err(|error| refused(error.to_string()))
}

fn encode(record: &FlowRecord) -> Result<Vec<u8>, StoreError> {
    let body = serde_json::to_vec(record).map_err(|error| refused(error.to_string()))?;
    match body.len() > RECORD_BYTES_MAX {
        true => Err(refused(format!(
            "the document has {} bytes as JSON, and at most {RECORD_BYTES_MAX} can be kept: make several flows of it",
            body.len()
        ))),
        false => Ok(body),
    }
}

fn refused(reason: String) -> StoreError {
    StoreError::Bus(BusError::Refused { reason })
}

fn parse(name: &Name, body: &[u8]) -> Result<FlowRecord, StoreError> {
    serde_json::from_slice(body).map_err(|error| StoreError::Flow {
        document: name.clone(),
        reason: error.to_string(),
    })
}
