//! Many nodes: who is alive, who owns what, and how it is handed over.
//!
//! Nodes have no master. Each hears the heartbeats of all others ([`Members`]), computes from those
//! that live who should own each share of a stage ([`places`]), and sees to its own part
//! ([`Ownership`]): it lets go of what belongs to others now, and takes what is its own once nobody
//! holds it any more. Nodes that see different things for a while may disagree; then the store
//! decides, which refuses the commits of all owners but the last.
//!
//! People ask any node for something of another; how that gets there and back is in [`Commands`].
//!
//! What is wrong on a node or with the others, and who is told, is in [`alerts`].
//!
//! An [`Agent`] runs all this for one node. The rest is state machines: what happened and the time go
//! in, what is to be done comes out. They do no I/O and read no clock, so that whole clusters are
//! simulated from a seed.

mod agent;
pub mod alerts;
mod claims;
mod commands;
mod definitions;
mod heartbeat;
mod members;
mod order;
mod ownership;
mod placement;

pub use agent::{
    Agent, DEFINITIONS, Deployer, Ended, HEARTBEATS, NodeSeen, NodeSettings, definition_name,
};
pub use claims::Claims;
pub use commands::{ANSWERS, COMMANDS, CommandError, CommandHandler, Commands};
pub use definitions::Definitions;
pub use heartbeat::{Defined, Heartbeat, NodeState, StageBeat};
pub use members::{Able, Heard, Member, Members, Rules};
pub use order::Order;
pub use ownership::{Action, Event, Ownership, Share, ShareState};
pub use placement::{Place, places};
