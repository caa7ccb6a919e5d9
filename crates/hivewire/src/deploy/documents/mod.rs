//! Flow documents on a node: checked, kept, and applied by the smallest set of steps.
//!
//! A document is claimed before anything is done, by compare-and-swap on its revision, so that of two who apply at the
//! same time on different nodes one is refused. What was broken off by the end of a node is done again by the next
//! apply: stages that are as they should be are not touched by that.

mod drain;
mod error;
mod leftovers;
mod lookup;
mod steps;
mod store;

use std::collections::BTreeSet;

use flows::document::{Document, Problems, Step, plan};
use kernel::{Name, StageAddress};
use xxhash_rust::xxh3::xxh3_128;

pub use self::error::ApplyError;
pub(super) use self::store::FlowStore;
pub use self::store::{FlowRecord, FlowVersion};
use super::{Deployments, Expected};
use crate::events::{Event, kind};

/// What an apply led to, or would lead to.
#[derive(Clone, Debug)]
pub struct AppliedFlow {
    /// The number of the version.
    pub version: u64,
    /// Whether anything is other than before.
    pub changed: bool,
    /// What was done, or would be.
    pub steps: Vec<Step>,
    /// What somebody should look at.
    pub warnings: Problems,
}

/// Tells a document from all others of its flow.
pub fn tag_of(document: &Document) -> String {
    let json = serde_json::to_vec(document).unwrap_or_default();
    format!("{:032x}", xxh3_128(&json))
}

impl Deployments {
    /// The flow as it was applied last.
    pub async fn flow_document(&self, flow: &str) -> Result<FlowRecord, ApplyError> {
        let name = name_of(flow)?;
        let (_, record) = self.flow_store.get(&name).await?;
        record.ok_or_else(|| unknown(flow))
    }

    /// All flows that were applied, in the order of their names.
    pub async fn flow_documents(&self) -> Result<Vec<FlowRecord>, ApplyError> {
        Ok(self.flow_store.all().await?)
    }

    /// The versions of a flow that are kept, the newest first.
    pub async fn flow_versions(&self, flow: &str) -> Result<Vec<FlowVersion>, ApplyError> {
        let versions = self.flow_store.versions(&name_of(flow)?).await?;
        match versions.is_empty() {
            true => Err(unknown(flow)),
            false => Ok(versions),
        }
    }

    /// One version of a flow.
    pub async fn flow_version(&self, flow: &str, version: u64) -> Result<FlowRecord, ApplyError> {
        let record = self.flow_store.version(&name_of(flow)?, version).await?;
        record.ok_or_else(|| unknown(&format!("{flow} with the version {version}")))
    }

    /// What would be done to make a flow like this.
    pub async fn plan_flow(
        &self,
        document: &Document,
        expected: &Expected,
    ) -> Result<AppliedFlow, ApplyError> {
        Ok(self.plan_to(document, expected).await?.applied)
    }

    /// Makes a flow like this document. It goes on to its end though the caller may lose interest.
    pub async fn apply_flow(
        &self,
        document: Document,
        expected: Expected,
    ) -> Result<AppliedFlow, ApplyError> {
        let this = self.this();
        let applying = async move { this.apply_in_order(document, &expected).await };
        tokio::spawn(applying).await?
    }

    async fn plan_to(
        &self,
        document: &Document,
        expected: &Expected,
    ) -> Result<Planned, ApplyError> {
        let flow = name_of(&document.flow)?;
        let (revision, was) = self.flow_store.get(&flow).await?;
        if !is_expected(expected, was.as_ref()) {
            return Err(ApplyError::NotExpected {
                flow: flow.to_string(),
            });
        }
        let warnings = self.check_document(document).await?;
        if warnings.has_errors() {
            return Err(ApplyError::Document(warnings));
        }
        let steps = self.steps_to(was.as_ref(), document);
        let is_same = was
            .as_ref()
            .is_some_and(|was| was.document == *document && !was.is_applying);
        let applied = AppliedFlow {
            version: was.as_ref().map_or(0, |was| was.version),
            changed: !is_same || !steps.is_empty(),
            steps,
            warnings,
        };
        Ok(Planned {
            flow,
            revision,
            was,
            applied,
        })
    }

    /// The steps from what stands there to what is wanted.
    fn steps_to(&self, was: Option<&FlowRecord>, new: &Document) -> Vec<Step> {
        let Some(was) = was else {
            return plan(None, new).steps;
        };
        let mut old = was.document.clone();
        // What was stopped by hand is to begin again, and what was broken off is done again.
        old.stages
            .retain(|name, _| !was.is_applying && self.has_stage(&new.flow, name));
        let mut steps = plan(Some(&old), new).steps;
        if was.is_applying {
            steps.extend(self.left_over(was, new));
        }
        steps
    }

    /// Stages that an apply that was broken off has left.
    fn left_over(&self, was: &FlowRecord, new: &Document) -> Option<Step> {
        let all: BTreeSet<&String> = was.going.iter().chain(was.document.stages.keys()).collect();
        let is_left =
            |name: &&String| !new.stages.contains_key(*name) && self.has_stage(&new.flow, name);
        let stages: Vec<String> = all.into_iter().filter(is_left).cloned().collect();
        (!stages.is_empty()).then_some(Step::Remove { stages })
    }

    fn has_stage(&self, flow: &str, stage: &str) -> bool {
        StageAddress::new(flow, stage).is_ok_and(|stage| self.exists(&stage))
    }

    async fn apply_in_order(
        &self,
        document: Document,
        expected: &Expected,
    ) -> Result<AppliedFlow, ApplyError> {
        let _order = self.flow_order.lock().await;
        let Planned {
            flow,
            revision,
            was,
            mut applied,
        } = self.plan_to(&document, expected).await?;
        if !applied.changed {
            return Ok(applied);
        }
        let prepared = self.prepare(applied.steps.clone(), &document).await?;
        let going = going(&applied.steps);
        let mut record = FlowRecord {
            version: applied.version + 1,
            at_ms: self.clock.now().as_millis(),
            document,
            is_applying: true,
            going,
        };
        let revision = self.claim(&flow, revision, Some(&record)).await?;
        self.tell_flow(&flow, "applying", record.version);
        if let Err(error) = self.do_steps(flow.as_str(), prepared).await {
            self.claim(&flow, revision, was.as_ref()).await?;
            return Err(error);
        }
        (record.is_applying, record.going) = (false, Vec::new());
        self.claim(&flow, revision, Some(&record)).await?;
        self.flow_store.keep_version(&flow, &record).await?;
        self.tell_flow(&flow, "applied", record.version);
        applied.version = record.version;
        Ok(applied)
    }

    async fn claim(
        &self,
        flow: &Name,
        revision: u64,
        record: Option<&FlowRecord>,
    ) -> Result<u64, ApplyError> {
        let put = self.flow_store.put(flow, revision, record).await?;
        put.ok_or_else(|| ApplyError::Changed {
            flow: flow.to_string(),
        })
    }

    fn tell_flow(&self, flow: &Name, event: &str, version: u64) {
        let event = Event::new(kind::FLOW, event).with("flow", flow.as_str());
        self.tell(event.with("version", version));
    }
}

/// What is to be done, and what stands there.
struct Planned {
    flow: Name,
    revision: u64,
    was: Option<FlowRecord>,
    applied: AppliedFlow,
}

fn is_expected(expected: &Expected, was: Option<&FlowRecord>) -> bool {
    match (expected, was) {
        (Expected::Anything, _) | (Expected::Something, Some(_)) => true,
        (Expected::OneOf(tags), Some(was)) => tags.contains(&tag_of(&was.document)),
        (_, None) => false,
    }
}

fn going(steps: &[Step]) -> Vec<String> {
    let of_step = |step: &Step| match step {
        Step::Remove { stages } => stages.clone(),
        _ => Vec::new(),
    };
    steps.iter().flat_map(of_step).collect()
}

/// The flow of this name. Only what can name a flow is asked for.
fn name_of(flow: &str) -> Result<Name, ApplyError> {
    let address = StageAddress::new(flow, "stage").map_err(|_| unknown(flow))?;
    Ok(address.flow().clone())
}

fn unknown(flow: &str) -> ApplyError {
    ApplyError::Unknown {
        flow: flow.to_owned(),
    }
}
