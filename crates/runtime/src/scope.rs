//! Whose state it is: a worker's, a child's, a bucket's, or that of the owner of a routed stage.

use bytes::{BufMut, Bytes, BytesMut};
use kernel::worker::Ticket;
use kernel::{Address, Name, StageAddress, WorkerAddress};

/// A unit of state within a stage. It stays when workers are restarted, replaced or moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// A worker of a pool or of a routed stage.
    Worker(u32),
    /// A child of a worker.
    Child(u32, Name),
    /// A bucket of a keyed stage.
    Bucket(u32),
    /// The owner of a routed stage.
    Owner,
}

impl Scope {
    /// No other comes before it in their order.
    pub const FIRST: Self = Self::Worker(0);

    /// The bucket of the bus that holds its state.
    pub fn bucket(&self, stage: &StageAddress) -> Name {
        match self {
            Self::Bucket(bucket) => stage.bucket(*bucket),
            Self::Owner => stage.queue(),
            Self::Worker(worker) => stage.worker(*worker).queue(),
            Self::Child(worker, child) => child_address(stage, *worker, child).queue(),
        }
    }

    /// Where answers to its asks go.
    pub fn reply_address(&self, stage: &StageAddress) -> Address {
        match self {
            Self::Bucket(bucket) => Address::Queue(stage.bucket(*bucket)),
            Self::Owner => Address::Stage(stage.clone()),
            Self::Worker(worker) => Address::Worker(stage.worker(*worker)),
            Self::Child(worker, child) => Address::Worker(child_address(stage, *worker, child)),
        }
    }
}

fn child_address(stage: &StageAddress, worker: u32, child: &Name) -> WorkerAddress {
    stage
        .worker(worker)
        .with_child(child.as_str())
        .expect("the name of a child was checked when it was started")
}

/// The keys under which a scope keeps things. Those of the worker itself have a prefix of their
/// own, so that none can be taken for another.
pub(crate) mod keys {
    use super::{BufMut, Bytes, BytesMut, Ticket};

    pub const USER: u8 = b'k';
    pub const ASK: u8 = b'a';
    pub const TIMER: u8 = b't';
    pub const CHILD: u8 = b'c';
    /// What an instance saved.
    pub const SNAPSHOT: &[u8] = b"s";

    pub fn user(key: &[u8]) -> Bytes {
        prefixed(USER, key)
    }

    pub fn ask(ticket: Ticket) -> Bytes {
        prefixed(ASK, &ticket.to_be_bytes())
    }

    pub fn timer(name: &str) -> Bytes {
        prefixed(TIMER, name.as_bytes())
    }

    pub fn child(name: &str) -> Bytes {
        prefixed(CHILD, name.as_bytes())
    }

    fn prefixed(prefix: u8, rest: &[u8]) -> Bytes {
        let mut key = BytesMut::with_capacity(rest.len() + 1);
        key.put_u8(prefix);
        key.put_slice(rest);
        key.freeze()
    }
}
