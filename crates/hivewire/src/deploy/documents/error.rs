//! Why a document was not applied.

use flows::document::Problems;

use crate::deploy::store::StoreError;
use crate::deploy::{ControlError, DeployError};

/// Why a document was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It makes no sense.
    #[error("the document was refused, and nothing was touched: {0}")]
    Document(Problems),
    /// It is about another flow.
    #[error("the document is about the flow {said}, and was sent to that of {flow}")]
    OtherFlow {
        /// The flow that it was sent to.
        flow: String,
        /// The flow that it is about.
        said: String,
    },
    /// No flow can be called so, or none of this name was applied.
    #[error(
        "there is no document of a flow {flow}: `hivewire ps` shows what runs, `hivewire run FILE` makes a flow"
    )]
    Unknown {
        /// Its name.
        flow: String,
    },
    /// Somebody expected another document.
    #[error("the document of {flow} has changed in the meantime: look at it, and decide again")]
    NotExpected {
        /// The flow.
        flow: String,
    },
    /// Somebody else applies one at the moment.
    #[error("somebody else changed {flow} at the same time: look at it, and try again")]
    Changed {
        /// The flow.
        flow: String,
    },
    /// One of its stages cannot be so. Nothing was touched.
    #[error("{stage} cannot be so, and nothing was touched: {error}")]
    Unfit {
        /// The stage.
        stage: String,
        /// Why.
        error: Box<DeployError>,
    },
    /// A step failed.
    #[error("could not {step}: {reason}; {undone}")]
    Step {
        /// What was to be done.
        step: String,
        /// Why it was not.
        reason: String,
        /// What became of the steps before.
        undone: String,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something panicked, which is a bug.
    #[error("it broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// Why one step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error(transparent)]
    Deploy(#[from] DeployError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("what waited for the stage as it was could not be brought to it: {0}")]
    Leftovers(#[from] bus::BusError),
    #[error(
        "{messages} messages still wait for {stages}: stop whoever sends to it, and apply the document again"
    )]
    NotDrained { stages: String, messages: u64 },
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Deploy(error.into())
    }
}
