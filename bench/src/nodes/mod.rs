//! Clusters of nodes, each a process of the real binary on a Hivewire broker in a process of its own,
//! and a stream of messages through a stage that they share.
//!
//! Every message is due at a time, and every result is stamped when it comes out of the queue behind
//! the stage, so that whoever falls behind is seen. The stage counts the messages of each key in its
//! state; a result that is lost, doubled or out of order, or one with a wrong count, is an error.

pub mod beats;
pub mod cluster;
pub mod crowd;
pub mod ears;
pub mod fifty;
pub mod judge;
pub mod relocation;
pub mod roll_out;
pub mod shares;
pub mod stream;
pub mod take_over;

use std::time::Duration;

use crate::drivers::LoadError;
use crate::peers::PeerError;
use crate::workers::WorkerError;

/// How long anything may take before it counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What can go wrong in a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A process could not be started or asked.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Messages could not be sent or received.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A component could not be built.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Something did not happen in time.
    #[error("{what} did not happen within {PATIENCE:?}; it is {seen}")]
    TooLate {
        /// What was waited for.
        what: String,
        /// What was seen last.
        seen: String,
    },
    /// The nodes did harm to messages or state.
    #[error(
        "of {sent} messages {lost} were lost, {doubled} doubled, {inverted} out of order; {miscounted} results show wrong state"
    )]
    Harm {
        /// Messages sent.
        sent: usize,
        /// Messages that never came out.
        lost: usize,
        /// Messages that came out again.
        doubled: usize,
        /// Messages that came out after a later one of the same key.
        inverted: usize,
        /// Results that are not those of the state that their key should have had.
        miscounted: usize,
    },
    /// The sender did not keep its rate.
    #[error(
        "only {reached:.0} messages/s instead of {wanted} could be sent: the machine is too busy"
    )]
    TooSlow {
        /// What was reached.
        reached: f64,
        /// What was meant.
        wanted: u32,
    },
    /// Something came that nobody sent.
    #[error("unexpected: {0}")]
    Unexpected(String),
}

/// The result of what is done with a cluster.
pub type Result<T> = std::result::Result<T, ClusterError>;

/// Looks again and again until something is so; `look` gives what is waited for, or what it is instead.
pub(crate) fn wait_for<T>(
    what: &str,
    mut look: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match look()? {
            Ok(found) => return Ok(found),
            Err(seen) if std::time::Instant::now() > deadline => {
                let what = what.to_owned();
                return Err(ClusterError::TooLate { what, seen });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
