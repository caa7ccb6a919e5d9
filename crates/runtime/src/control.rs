//! What a stage asks of a worker. It is done between two batches.

use std::sync::Arc;

use bytes::Bytes;
use kernel::worker::Failure;
use tokio::sync::oneshot;

use crate::moves::MoveId;
use crate::stage::Version;

/// Tells whoever asked that it was done, or why it could not be.
pub(crate) type Done<T> = oneshot::Sender<Result<T, Failure>>;

/// What a stage asks of a worker.
pub(crate) enum Control {
    /// Have an instance, from now on.
    Start(Done<()>),
    /// Say what would have to be handed over now.
    Snapshot(Done<Bytes>),
    /// Go over to this version.
    Replace {
        version: Arc<Version>,
        /// Go back by itself if the new version fails soon.
        on_probation: bool,
        done: Done<()>,
    },
    /// Go over to this version from the committed state, whatever the instance has.
    Force { version: Arc<Version> },
    /// Handle what waits of one bucket, commit it, and give it up.
    Leave { bucket: u32, done: Done<()> },
    /// Settle what was begun of one bucket, and give what waits of it to the stage.
    Give { id: MoveId, done: Done<()> },
    /// Begin anew from the committed state, or without any.
    Restart { reset: bool, done: Option<Done<()>> },
    /// Save the state and do without an instance until a message comes.
    Passivate,
    /// The pause after a failure is over.
    Resume,
    /// The time has come for a provider to give more.
    Provide,
    /// See whether there is something to do.
    Look,
    /// What was committed is in doubt: read it again.
    Reload,
    /// A commit of this bucket was refused: see to its messages.
    Settle { bucket: u32 },
    /// End for good, and leave no state behind.
    End(Done<()>),
    /// End: save the state, or run the worker's own `stop` if it is for good.
    Stop { for_good: bool, done: Done<()> },
}
