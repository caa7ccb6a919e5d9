//! Stages as people see them: what the runtime says, and where the code came from.

use std::collections::BTreeMap;

use kernel::descriptor::PluginKind;
use kernel::worker::CodeInfo;
use kernel::{Name, StageAddress};
use runtime::{HistoryEntry, HistoryEvent, StageSpec, StageState, StageView};
use schemars::JsonSchema;
use serde::Serialize;

use super::sharing::{Places, Sharing};
use super::slot::{Numbers, SlotState};
use super::store::Record;

/// A flow and its stages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowShown {
    /// Its name.
    pub flow: String,
    /// Its stages, by name.
    pub stages: Vec<StageShown>,
}

/// A stage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageShown {
    /// What the runtime says.
    #[serde(flatten)]
    pub stage: StageView,
    /// Where its code came from; nothing if it is linked in.
    pub deployment: Option<DeploymentShown>,
    /// How many parts of it each node has, if several share it. One in memory is a part of its own on each node.
    pub nodes: Option<BTreeMap<String, u32>>,
    /// How many parts there are then.
    pub parts: Option<u32>,
}

/// Where the code of a stage came from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
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

    /// A stage that could not be loaded, or that only other nodes run.
    pub(super) fn not_running(state: &SlotState, sharing: Option<&Sharing>) -> Option<Self> {
        let record = state.record.as_ref()?;
        let is_elsewhere = sharing.is_some_and(|sharing| !sharing.runs_here(record));
        let stage_state = match &state.failure {
            Some(_) => StageState::Failed,
            None if is_elsewhere => StageState::Running,
            None => return None,
        };
        let code = CodeInfo {
            name: String::new(),
            version: String::new(),
            digest: record.component.digest.clone(),
            native: false,
            kind: PluginKind::default(),
            outputs: Vec::new(),
            capabilities: Vec::new(),
        };
        let stage = StageView {
            spec: record.spec.clone(),
            code,
            version: record.version,
            state: stage_state,
            paused: record.paused,
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
            moves: runtime::MovePauses::default(),
            stands: None,
            latency: None,
            scaling: None,
        };
        Some(Self {
            stage,
            deployment: Some(DeploymentShown::of(record, state)),
            nodes: None,
            parts: None,
        })
    }

    pub(super) fn address(&self) -> &StageAddress {
        &self.stage.spec.address
    }
}

/// Flows in the order of their names out of stages in any order.
pub(crate) fn flows(mut stages: Vec<StageShown>) -> Vec<FlowShown> {
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

/// Which stages somebody wants to see. What is not said is not asked for.
#[derive(Clone, Debug)]
pub struct StageQuery {
    /// Those of this flow.
    pub flow: Option<Name>,
    /// Those whose address begins so.
    pub prefix: Option<String>,
    /// Those that are so.
    pub state: Option<StageState>,
    /// Those that this node has a part of.
    pub node: Option<String>,
    /// Those after this one.
    pub after: Option<StageAddress>,
    /// How many at most.
    pub limit: usize,
}

impl Default for StageQuery {
    fn default() -> Self {
        Self {
            flow: None,
            prefix: None,
            state: None,
            node: None,
            after: None,
            limit: usize::MAX,
        }
    }
}

impl StageQuery {
    pub(super) fn wants_address(&self, address: &StageAddress) -> bool {
        let begins = |prefix: &String| address.to_string().starts_with(prefix);
        self.flow.as_ref().is_none_or(|flow| flow == address.flow())
            && self.after.as_ref().is_none_or(|after| after < address)
            && self.prefix.as_ref().is_none_or(begins)
    }

    pub(super) fn wants(&self, stage: &StageShown) -> bool {
        self.state.is_none_or(|state| state == stage.stage.state)
    }
}

/// What a stage is to be, as it is stored. It changes only when somebody changes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DefinitionShown {
    /// Its flow and name.
    pub stage: StageAddress,
    /// The number of the version.
    pub version: u32,
    /// What it is to be.
    pub spec: StageSpec,
    /// A path, a URI, a plug-in, or `upload`.
    pub source: String,
    /// The digest of the component.
    pub digest: String,
    /// Where its router comes from, if that is one's own.
    pub router_source: Option<String>,
    /// The digest of that router.
    pub router_digest: Option<String>,
    /// Whether the sources are watched.
    pub watch: bool,
    /// Where it runs, if several nodes share it.
    pub places: Places,
}

impl DefinitionShown {
    pub(super) fn of(record: &Record) -> Self {
        let router = record.router.as_ref();
        Self {
            stage: record.spec.address.clone(),
            version: record.version,
            spec: record.spec.clone(),
            source: record.component.source.to_string(),
            digest: record.component.digest.clone(),
            router_source: router.map(|own| own.source.to_string()),
            router_digest: router.map(|own| own.digest.clone()),
            watch: record.watch,
            places: record.places.clone(),
        }
    }
}

/// A version that a stage had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VersionShown {
    /// Its number.
    pub version: u32,
    /// The digest of its code.
    pub digest: String,
    /// When it was deployed, in milliseconds since 1970.
    pub deployed_at_ms: u64,
    /// What became of it.
    pub state: VersionState,
}

/// What became of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VersionState {
    /// It is the one that runs, or is to run.
    Current,
    /// Another one took over, or the stage was stopped.
    Past,
    /// It failed on probation.
    RolledBack,
}

/// The versions in a history, the newest first.
pub(super) fn versions(history: &[HistoryEntry], current: Option<u32>) -> Vec<VersionShown> {
    let mut versions: BTreeMap<u32, VersionShown> = BTreeMap::new();
    for entry in history {
        match entry.event {
            HistoryEvent::Deployed | HistoryEvent::Replaced => {
                versions.insert(
                    entry.version,
                    VersionShown {
                        version: entry.version,
                        digest: entry.digest.clone(),
                        deployed_at_ms: entry.at_ms,
                        state: VersionState::Past,
                    },
                );
            }
            HistoryEvent::RolledBack => {
                if let Some(version) = versions.get_mut(&entry.version) {
                    version.state = VersionState::RolledBack;
                }
            }
            _ => {}
        }
    }
    if let Some(current) = current.and_then(|current| versions.get_mut(&current)) {
        current.state = VersionState::Current;
    }
    versions.into_values().rev().collect()
}
