//! What a node is told to be, by people.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::heartbeat::NodeState;

/// What a node is told to be. It lies in the store, so that it holds over restarts of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Order {
    /// What it is to be ready for.
    pub state: NodeState,
    /// Whether its process ends once it has given everything away. A later start takes that back.
    pub stop: bool,
    /// What distinguishes it, in place of what it was started with.
    pub labels: Option<BTreeMap<String, String>>,
    /// How many messages of one queue it may have on their way.
    pub prefetch: Option<u32>,
}
