//! Routers: which workers of a stage get a message.
//!
//! A router of one's own is a type that implements [`Router`]. The built-in ones stand in
//! [`ROUTERS`], one file each.

mod broadcast;
#[cfg(test)]
mod contract_tests;
mod random;
mod round_robin;
mod scatter_gather;
mod smallest_mailbox;
mod tail_chopping;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kernel::Message;
use kernel::worker::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Up to that many workers all are looked at; of more, only some.
const LOOKED_AT_MAX: u32 = 64;

/// What a router can see of the workers that it chooses from.
pub trait Workers {
    /// How many there are. They are numbered from zero.
    fn count(&self) -> u32;

    /// How many messages wait for this one.
    fn waiting(&self, worker: u32) -> u32;

    /// Whether this one takes another message now.
    fn has_room(&self, worker: u32) -> bool;
}

/// Chooses the workers that get a message. It is called from several threads at once.
pub trait Router: Send + Sync {
    /// Adds the numbers of the chosen workers to `chosen`, which is empty. It stays empty if nobody
    /// has room now; then the message waits.
    fn select(
        &self,
        message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure>;
}

/// The kinds of router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouterKind {
    /// One after another, without those that have no room.
    RoundRobin,
    /// Any one that has room.
    Random,
    /// The one with the fewest messages waiting.
    SmallestMailbox,
    /// All of them.
    Broadcast,
    /// All of them; the first answer goes to whoever asked.
    ScatterGather,
    /// One, and after a while without an answer another one as well; the first answer goes to
    /// whoever asked.
    TailChopping,
    /// A router of one's own, which is handed over at deployment.
    Own,
}

/// Makes a router.
pub type MakeRouter = fn() -> Arc<dyn Router>;

/// The built-in routers.
pub const ROUTERS: [(RouterKind, MakeRouter); 6] = [
    (RouterKind::RoundRobin, round_robin::make),
    (RouterKind::Random, random::make),
    (RouterKind::SmallestMailbox, smallest_mailbox::make),
    (RouterKind::Broadcast, broadcast::make),
    (RouterKind::ScatterGather, scatter_gather::make),
    (RouterKind::TailChopping, tail_chopping::make),
];

impl RouterKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::RoundRobin,
        Self::Random,
        Self::SmallestMailbox,
        Self::Broadcast,
        Self::ScatterGather,
        Self::TailChopping,
        Self::Own,
    ];

    /// A new router of this kind; none for one's own.
    pub fn router(self) -> Option<Arc<dyn Router>> {
        let built_in = ROUTERS.iter().find(|(kind, _)| *kind == self);
        built_in.map(|(_, make)| make())
    }

    /// Whether it may choose several workers, so that the stage needs an owner that sends copies.
    pub fn is_routed(self) -> bool {
        match self {
            Self::RoundRobin | Self::Random | Self::SmallestMailbox => false,
            Self::Broadcast | Self::ScatterGather | Self::TailChopping | Self::Own => true,
        }
    }

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::SmallestMailbox => "smallest-mailbox",
            Self::Broadcast => "broadcast",
            Self::ScatterGather => "scatter-gather",
            Self::TailChopping => "tail-chopping",
            Self::Own => "own",
        }
    }
}

/// Why a text names no kind of router.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no router {text:?}: choose one of {}", names())]
pub struct RouterKindError {
    text: String,
}

fn names() -> String {
    RouterKind::ALL.map(RouterKind::name).join(", ")
}

impl FromStr for RouterKind {
    type Err = RouterKindError;

    fn from_str(text: &str) -> Result<Self, RouterKindError> {
        let mut kinds = Self::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == text)
            .ok_or_else(|| RouterKindError {
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for RouterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first worker from `start` on, and around, that has room.
fn first_with_room(workers: &dyn Workers, start: u32) -> Option<u32> {
    (start..workers.count())
        .chain(0..start)
        .find(|worker| workers.has_room(*worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_written_alike() {
        for kind in RouterKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let stored = serde_json::to_string(&kind).unwrap();
            assert_eq!(stored, format!("\"{kind}\""));
        }
        let error = "sticky".parse::<RouterKind>().unwrap_err().to_string();
        for kind in RouterKind::ALL {
            assert!(error.contains(kind.name()), "{error}");
        }
    }

    #[test]
    fn every_kind_but_ones_own_is_built_in() {
        for kind in RouterKind::ALL {
            assert_eq!(kind.router().is_some(), kind != RouterKind::Own, "{kind}");
        }
    }
}
