//! Drives workers and the actors of other libraries, all in this process.
//!
//! Every library gets a tokio runtime with one thread per core of its own for each repetition, the
//! same loops, and the same bodies of 128 bytes, each made anew. Every receiver checks the number
//! in every body, so that a message that is lost, doubled or out of order is an error.

pub mod component;
pub mod durable;
pub mod idle;
pub mod kameo;
pub mod native;
pub mod plain;
pub mod probe;
pub mod ractor;
pub mod replace;
mod rig;
mod tally;

pub use rig::{Rig, tokio_runtime};
pub use tally::{BODY_BYTES, Body, Tally, Verdict, body, number_of};

use std::fmt::Display;
use std::time::Duration;

/// How long any single thing may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What can go wrong while workers or actors are driven.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A library refused something.
    #[error("cannot {action}: {reason}")]
    Refused {
        /// What was tried.
        action: String,
        /// Why it failed.
        reason: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {PATIENCE:?}")]
    TooLate {
        /// What was waited for.
        what: String,
    },
    /// Messages were lost, doubled or out of order.
    #[error("{wrong} or more of {messages} messages were not the ones that were due")]
    Wrong {
        /// How many.
        wrong: u32,
        /// Of how many.
        messages: u32,
    },
}

/// The result of driving workers.
pub type Result<T, E = WorkerError> = std::result::Result<T, E>;

/// Says what was tried when a library refuses.
pub(crate) fn refused<E: Display>(action: &str) -> impl FnOnce(E) -> WorkerError {
    move |reason| WorkerError::Refused {
        action: action.to_owned(),
        reason: reason.to_string(),
    }
}

/// Waits for something, but not for ever.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    let too_late = |_| WorkerError::TooLate {
        what: what.to_owned(),
    };
    tokio::time::timeout(PATIENCE, future)
        .await
        .map_err(too_late)
}
