//! Several changes as one step: messages consumed, messages sent, state written.

use std::pin::Pin;

use bytes::Bytes;
use kernel::{Destination, Message, Name};

use crate::capabilities::AckLevel;
use crate::contract::Subscription;
use crate::delivery::Receipt;
use crate::error::BusError;

/// What is to happen in one step: all of it, or nothing.
#[derive(Default)]
pub struct Commit<'a> {
    /// Whose state it is and who writes it. Needed if there are state writes; without it the
    /// commit is not fenced.
    pub owner: Option<Owner>,
    /// The messages it consumes.
    pub consumed: Vec<Consumed<'a>>,
    /// The changes of state, in order.
    pub writes: Vec<StateWrite>,
    /// The messages it sends, in order. They leave when all of it is permanent.
    pub sends: Vec<(Destination, Message)>,
}

/// The owner of a bucket's state at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The bucket.
    pub bucket: Name,
    /// The epoch that [`crate::Bus::raise_epoch`] gave the owner.
    pub epoch: u64,
}

/// Messages of one subscription that a commit consumes.
pub struct Consumed<'a> {
    /// The subscription that holds them; it must belong to the same engine.
    pub subscription: &'a dyn Subscription,
    /// Which ones. In the order of their delivery they cost least.
    pub receipts: Vec<Receipt>,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateWrite {
    /// The key gets this value.
    Set {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// The key is removed.
    Remove {
        /// The key.
        key: Bytes,
    },
}

/// A commit that has its place: it becomes permanent before everything that is committed after it,
/// unless the engine is lost.
pub enum Submitted {
    /// It is permanent already.
    Done(AckLevel),
    /// It becomes permanent when this says so.
    Waits(Pin<Box<dyn Future<Output = Result<AckLevel, BusError>> + Send>>),
}

impl Submitted {
    /// Waits until it is permanent.
    pub async fn permanent(self) -> Result<AckLevel, BusError> {
        match self {
            Self::Done(level) => Ok(level),
            Self::Waits(wait) => wait.await,
        }
    }
}
