//! Why something could not be deployed, stopped or started again.

use kernel::{StageAddress, WorkerAddress};
use wasm::LoadError;

use super::plugins::{ArgsError, PluginError};
use super::source::SourceError;
use super::store::StoreError;

/// Why something was not deployed. Whatever ran before goes on.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// What was asked for contradicts itself.
    #[error("{0}")]
    Request(String),
    /// Somebody expected something else to be there.
    #[error(
        "{}: look at GET /api/v1/flows/{}/{}/definition and decide again", other_version(.stage, *.version), .stage.flow(), .stage.stage()
    )]
    NotExpected {
        /// The stage.
        stage: StageAddress,
        /// The version that is there.
        version: Option<u32>,
    },
    /// There is nothing at its source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is no such plug-in, or it cannot be had.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The arguments are not those that the plug-in describes.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The component does not fit.
    #[error(transparent)]
    Component(LoadError),
    /// The component of the router does not fit.
    #[error("the router cannot be used: {0}")]
    Router(LoadError),
    /// The stage cannot be so, or the new version failed while it took over.
    #[error(transparent)]
    Stage(runtime::DeployError),
    /// It could not be kept for the next start.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is stored, but this node has not come to it.
    #[error(
        "it is stored and all nodes will come to it, but this one has not within {seconds} s: see its log"
    )]
    Late {
        /// How long it was waited for.
        seconds: u64,
    },
    /// This node could not apply it, so it was taken back.
    #[error("{reason}; what was there before goes on")]
    Taken {
        /// What went wrong.
        reason: String,
    },
    /// Something panicked, which is a bug.
    #[error("the deployment broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl DeployError {
    /// Which check refused it, in one word.
    pub fn check(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::NotExpected { .. } => "expected",
            Self::Source(_) => "source",
            Self::Plugin(_) => "plugin",
            Self::Args(_) => "args",
            Self::Component(_) => "component",
            Self::Router(_) => "router",
            Self::Stage(_) => "stage",
            Self::Store(_) => "store",
            Self::Late { .. } => "late",
            Self::Taken { .. } => "stage",
            Self::Broken(_) => "broken",
        }
    }
}

fn other_version(stage: &StageAddress, version: Option<u32>) -> String {
    match version {
        Some(version) => {
            format!("{stage} has changed in the meantime and has version {version} now")
        }
        None => format!("there is no stage {stage}"),
    }
}

/// Why a stage was not stopped or started again.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no such stage.
    #[error(transparent)]
    Unknown(#[from] UnknownStage),
    /// A stage that was not deployed.
    #[error("{stage} was not deployed: its code is linked into the node")]
    LinkedIn {
        /// Its address.
        stage: StageAddress,
    },
    /// The runtime says no.
    #[error(transparent)]
    Runtime(#[from] runtime::StopError),
    /// Nodes are named, and this one stands alone.
    #[error(
        "this node stands alone: start it with --name NAME, or join others with `hivewire join`"
    )]
    Alone,
    /// A node that nobody has heard of.
    #[error("no node {node} was heard of{}", known_nodes(.known))]
    UnknownNode {
        /// Its name.
        node: String,
        /// Those that were.
        known: Vec<String>,
    },
    /// A worker that there is not.
    #[error("there is no worker {worker}, or nothing belongs to it")]
    UnknownWorker {
        /// Its address.
        worker: WorkerAddress,
    },
    /// The bus says no.
    #[error("the bus that the nodes share does not serve: {0}")]
    Bus(#[from] bus::BusError),
    /// It could not be loaded again.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// It was done, and could not be stored.
    #[error("it was done, but the next start will not know: {0}")]
    Store(#[from] StoreError),
    /// Something panicked, which is a bug.
    #[error("it broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

fn known_nodes(known: &[String]) -> String {
    match known.is_empty() {
        true => ": nobody was heard yet".to_owned(),
        false => format!(": there are {}", known.join(", ")),
    }
}

/// A name that nothing has, and the one that was perhaps meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no {kind} {name}{}", .nearest.as_ref().map_or_else(|| ": nothing is deployed yet".to_owned(), |nearest| format!("; did you mean {nearest}?"))
)]
pub struct UnknownStage {
    /// `flow` or `stage`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The name that looks most like it.
    pub nearest: Option<String>,
}

impl UnknownStage {
    /// Finds what looks most like a stage among these.
    pub(super) fn stage(stage: &StageAddress, known: &[StageAddress]) -> Self {
        let names = known.iter().map(StageAddress::to_string);
        Self::among("stage", &stage.to_string(), names)
    }

    /// Finds what looks most like a flow among the flows of these.
    pub(super) fn flow(flow: &str, known: &[StageAddress]) -> Self {
        let names = known.iter().map(|stage| stage.flow().to_string());
        Self::among("flow", flow, names)
    }

    fn among(kind: &'static str, name: &str, known: impl Iterator<Item = String>) -> Self {
        let likeness = |known: &String| strsim::normalized_damerau_levenshtein(known, name);
        let nearest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        Self {
            kind,
            name: name.to_owned(),
            nearest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_stage_comes_with_the_nearest_one() {
        let known: Vec<StageAddress> = ["shop/orders", "shop/bills", "bank/orders"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let unknown = UnknownStage::stage(&"shop/order".parse().unwrap(), &known);
        assert_eq!(
            unknown.to_string(),
            "there is no stage shop/order; did you mean shop/orders?"
        );
        let unknown = UnknownStage::flow("banc", &known);
        assert_eq!(unknown.nearest.as_deref(), Some("bank"));
        let nothing = UnknownStage::flow("banc", &[]);
        assert!(nothing.to_string().contains("nothing is deployed yet"));
    }
}
