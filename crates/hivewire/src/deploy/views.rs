//! Stages as people see them: what the runtime says, and where the code came from.

use std::collections::BTreeMap;

use kernel::StageAddress;
use kernel::worker::CodeInfo;
use runtime::{FlowView, StageState, StageView};
use serde::Serialize;

use super::sharing::Places;
use super::slot::{Numbers, SlotState};
use super::store::Record;

/// A flow and its stages.
#[derive(Clone, Debug, Serialize)]
pub struct FlowShown {
    /// Its name.
    pub flow: String,
    /// Its stages, by name.
    pub stages: Vec<StageShown>,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageShown {
    /// What the runtime says.
    #[serde(flatten)]
    pub stage: StageView,
    /// Where its code came from; nothing if it is linked in.
    pub deployment: Option<DeploymentShown>,
    /// How many parts of it each node has, if several share it.
    pub nodes: Option<BTreeMap<String, u32>>,
    /// How many parts there are then.
    pub parts: Option<u32>,
}

/// Where the code of a stage came from.
#[derive(Clone, Debug, Serialize)]
pub struct DeploymentShown {
    /// A path, a URI, a plug-in, or `upload`.
    pub source: String,
    /// The same of its router, if that is one's own.
    pub router_source: Option<String>,
    /// Whether the sources are watched.
    pub watch: bool,
    /// Why it does not run at all, if it could not be loaded at the start.
    pub failure: Option<String>,
    /// Why its sources cannot be read at the moment.
    pub trouble: Option<String>,
    /// The digest of the last version that did not fit, as long as no other came.
    pub refused_digest: Option<String>,
    /// Where it runs, if several nodes share it.
    pub places: Places,
}

impl DeploymentShown {
    fn of(record: &Record, state: &SlotState) -> Self {
        let troubles = &state.troubles;
        let trouble = troubles.component.as_ref().or(troubles.router.as_ref());
        let refused = &record.refused;
        Self {
            source: record.component.source.to_string(),
            router_source: record.router.as_ref().map(|own| own.source.to_string()),
            watch: record.watch,
            failure: state.failure.clone(),
            trouble: trouble.cloned(),
            refused_digest: refused
                .component
                .as_ref()
                .or(refused.router.as_ref())
                .cloned(),
            places: record.places.clone(),
        }
    }
}

impl StageShown {
    /// A stage of the runtime.
    pub(super) fn running(
        mut stage: StageView,
        state: Option<&SlotState>,
        numbers: Numbers,
    ) -> Self {
        stage.version = numbers.shown(stage.version);
        for worker in &mut stage.workers {
            worker.version = numbers.shown(worker.version);
        }
        let deployed = state.and_then(|state| state.record.as_ref().map(|record| (record, state)));
        Self {
            stage,
            deployment: deployed.map(|(record, state)| DeploymentShown::of(record, state)),
            nodes: None,
            parts: None,
        }
    }

    /// A stage that could not be loaded.
    pub(super) fn not_loaded(state: &SlotState) -> Option<Self> {
        let record = state.record.as_ref()?;
        state.failure.as_ref()?;
        let code = CodeInfo {
            name: String::new(),
            version: String::new(),
            digest: record.component.digest.clone(),
            native: false,
            outputs: Vec::new(),
            capabilities: Vec::new(),
        };
        let stage = StageView {
            spec: record.spec.clone(),
            code,
            version: record.version,
            state: StageState::Failed,
            turns: 0,
            turns_per_second: 0.0,
            failures: 0,
            restarts: 0,
            dead: 0,
            unconnected: 0,
            late_replies: 0,
            waiting: 0,
            workers_count: 0,
            workers: Vec::new(),
        };
        Some(Self {
            stage,
            deployment: Some(DeploymentShown::of(record, state)),
            nodes: None,
            parts: None,
        })
    }

    fn address(&self) -> &StageAddress {
        &self.stage.spec.address
    }
}

/// Flows in the order of their names out of stages in any order.
pub(super) fn flows(mut stages: Vec<StageShown>) -> Vec<FlowShown> {
    stages.sort_by(|a, b| a.address().cmp(b.address()));
    let mut flows: Vec<FlowShown> = Vec::new();
    for stage in stages {
        let flow = stage.address().flow().to_string();
        match flows.last_mut() {
            Some(last) if last.flow == flow => last.stages.push(stage),
            _ => flows.push(FlowShown {
                flow,
                stages: vec![stage],
            }),
        }
    }
    flows
}

/// All stages of flows.
pub(super) fn stages(flows: Vec<FlowView>) -> impl Iterator<Item = StageView> {
    flows.into_iter().flat_map(|flow| flow.stages)
}
