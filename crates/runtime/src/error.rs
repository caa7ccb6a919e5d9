//! What can go wrong for those who use the runtime, and what to do about it.

use std::time::Duration;

use bus::BusError;
use kernel::{Address, StageAddress, WorkerAddress};

/// Why a part of a stage was not taken, or not let go in order.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// There is no such stage here.
    #[error("the stage {stage} does not run on this node")]
    Unknown {
        /// The stage.
        stage: StageAddress,
    },
    /// All of the stage is on this node.
    #[error("the stage is not shared among nodes, so it has no parts that could be taken or left")]
    NotShared,
    /// The store did not raise the epoch.
    #[error("the epoch could not be raised: {0}")]
    Bus(BusError),
    /// What was pending could not be read.
    #[error("what was pending could not be brought back: {reason}")]
    Restore {
        /// Why.
        reason: String,
    },
    /// What was in hand was not committed; it comes again at the next owner.
    #[error("the part was left, but not in order: {reason}")]
    Leave {
        /// Why.
        reason: String,
    },
}

/// Why a stage has not the size, or a bucket not the worker, that it was given.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// There is no such stage here.
    #[error("the stage {stage} does not run on this node; `hivewire ps` lists what runs")]
    Unknown {
        /// The stage.
        stage: StageAddress,
    },
    /// It cannot be.
    #[error("the size was not changed: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// A bucket stays where it was.
    #[error("bucket {bucket} stays with {worker}, which did not give it: {reason}")]
    Move {
        /// The bucket.
        bucket: u32,
        /// Who has it.
        worker: WorkerAddress,
        /// Why.
        reason: String,
    },
}

/// Why a stage was not deployed. What ran before goes on.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The deployment itself makes no sense.
    #[error("the deployment was refused: {reason}")]
    Spec {
        /// Why, and what to do.
        reason: String,
    },
    /// The code asks for more than it was granted.
    #[error("{name} asks for {}, which was not granted: deploy it with {remedy}", .missing.join(", "))]
    NotGranted {
        /// The code.
        name: String,
        /// What it was not granted.
        missing: Vec<String>,
        /// What to add to the deployment.
        remedy: String,
    },
    /// The workers of a new stage did not start.
    #[error("{stage} did not start: {reason}")]
    Start {
        /// The stage.
        stage: StageAddress,
        /// Why.
        reason: String,
    },
    /// The new version does not fit the state of the running one.
    #[error("the new version of {stage} was refused before any worker went over: {reason}")]
    DryRun {
        /// The stage.
        stage: StageAddress,
        /// Why.
        reason: String,
    },
    /// A worker could not go over.
    #[error("{stage} goes on with the old version, because {worker} could not go over: {reason}")]
    HandOver {
        /// The stage.
        stage: StageAddress,
        /// The worker.
        worker: WorkerAddress,
        /// Why.
        reason: String,
    },
    /// The bus did not give the state.
    #[error("the state of the stage could not be read: {0}")]
    Bus(BusError),
    /// The runtime ends.
    #[error("the node is stopping and deploys nothing any more")]
    Stopping,
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody had room for it.
    #[error("{0}; send slower, or give the stage more workers")]
    NoRoom(String),
    /// The bus did not take it.
    #[error("{to} did not get the message: {error}")]
    Bus {
        /// Where to.
        to: Address,
        /// Why.
        error: BusError,
    },
}

/// Why an ask has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The question was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// No answer came in time.
    #[error("{to} has not answered within {waited:?}")]
    TimedOut {
        /// Who was asked.
        to: Address,
        /// How long was waited.
        waited: Duration,
    },
    /// Whoever had the question gave it up without an answer.
    #[error("{to} will not answer: it handled the message without a reply, or failed over it")]
    NoAnswer {
        /// Who was asked.
        to: Address,
    },
}

/// Why a stage or worker was not stopped or restarted.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// There is none.
    #[error("there is no {what}; `hivewire ps` lists what runs")]
    Unknown {
        /// What was meant.
        what: String,
    },
    /// It did not come back.
    #[error("{worker} did not restart: {reason}")]
    Restart {
        /// The worker.
        worker: WorkerAddress,
        /// Why.
        reason: String,
    },
}
