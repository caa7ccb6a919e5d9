//! What a node says of itself, once a second and whenever it matters.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::Claims;

/// What a node is ready for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It takes its share.
    #[default]
    Running,
    /// It keeps what it has and does nothing with it until it is told to go on.
    Paused,
    /// It gives everything away, and takes nothing.
    Draining,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node. No two that live have the same name.
    pub node: String,
    /// Numbers the starts of a node of this name: the later one is larger.
    pub start: u64,
    /// Numbers the heartbeats since that start.
    pub number: u64,
    /// What it is ready for.
    #[serde(default)]
    pub state: NodeState,
    /// It has just started and still listens who has what: it takes nothing yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listens: bool,
    /// What distinguishes it, for those who choose places by it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where it answers over HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// How busy it is: the share of its cores in use, in hundredths.
    #[serde(default)]
    pub load: u32,
    /// What it knows of each stage, by the address. If there are many, only those of which it holds
    /// something, and those that changed of late.
    #[serde(default)]
    pub stages: BTreeMap<String, StageBeat>,
    /// What it goes by, if not all stages are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defined: Option<Defined>,
}

/// Which definitions a node goes by, in little space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    /// Stands for all stages and their revisions: see [`crate::Definitions`].
    pub digest: u64,
    /// Stages among them that this node cannot run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// What a node says of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageBeat {
    /// The revision of the definition that it goes by.
    pub revision: u64,
    /// The version of the code that it runs.
    #[serde(default)]
    pub version: u32,
    /// The shares that it holds.
    #[serde(default)]
    pub holds: Claims,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_from_before_there_were_addresses_is_understood() {
        let old: Heartbeat = serde_json::from_str(r#"{"node":"a","start":1,"number":2}"#).unwrap();
        assert_eq!(old.address, None);
        let address = "127.0.0.1:8000".parse().ok();
        let new = Heartbeat { address, ..old };
        let text = serde_json::to_string(&new).unwrap();
        assert!(text.contains(r#""address":"127.0.0.1:8000""#), "{text}");
        assert_eq!(serde_json::from_str::<Heartbeat>(&text).unwrap(), new);
    }
}
