//! A broker and its nodes, and what they say of themselves.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClusterError, Result, wait_for};
use crate::peers::PeerError;
use crate::peers::hivewire::Hivewire;
use crate::peers::node::{Node, Shared};
use crate::workers::refused;

/// How many parts a keyed stage has: its buckets and its entrance.
pub const PARTS: u32 = runtime::BUCKETS + 1;

/// A broker and the nodes that share it. Dropping it ends all of them.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes, in the order in which they joined.
    pub nodes: Vec<Node>,
    /// The broker, in a process of its own.
    pub broker: Hivewire,
}

/// What nodes say of each other.
#[derive(Debug, Deserialize)]
pub struct View {
    /// All that were heard of.
    pub nodes: Vec<NodeView>,
}

/// What is said of one node.
#[derive(Debug, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// `running`, or `dead` and others.
    pub state: String,
    /// What it has of each stage.
    pub stages: BTreeMap<String, StageView>,
}

/// What a node has of a stage.
#[derive(Debug, Deserialize)]
pub struct StageView {
    /// How many parts.
    pub parts: u32,
}

impl View {
    /// How many nodes are running.
    pub fn running(&self) -> usize {
        let running = self.nodes.iter().filter(|node| node.state == "running");
        running.count()
    }

    /// How many parts of a stage each node that runs has.
    pub fn parts(&self, stage: &str) -> BTreeMap<String, u32> {
        let running = self.nodes.iter().filter(|node| node.state == "running");
        let of = |node: &NodeView| node.stages.get(stage).map_or(0, |stage| stage.parts);
        running.map(|node| (node.name.clone(), of(node))).collect()
    }
}

impl Cluster {
    /// Starts a broker and nodes of these names.
    pub fn start(names: &[&str]) -> Result<Self> {
        let mut cluster = Self {
            nodes: Vec::new(),
            broker: Hivewire::start()?,
        };
        for name in names {
            cluster.join(name)?;
        }
        Ok(cluster)
    }

    /// Starts one more node.
    pub fn join(&mut self, name: &str) -> Result<()> {
        let shared = Shared {
            bus: format!("stomp://{}", self.address()),
            state: None,
        };
        let node = Node::start(name, &shared)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Where clients connect to the broker.
    pub fn address(&self) -> SocketAddr {
        self.broker.stomp_address()
    }

    /// Deploys a worker of `tests/workers` as a keyed stage, at the first node.
    pub fn deploy(&self, worker: &str, stage: &str, more: &Value) -> Result<()> {
        self.post(&self.request(worker, stage, more)?)
    }

    /// Makes a deployment at the first node.
    pub fn post(&self, request: &Value) -> Result<()> {
        self.nodes[0].post("deployments", request)?;
        Ok(())
    }

    /// The request that deploys a worker of `tests/workers` as a keyed stage; it is built if need be.
    pub fn request(&self, worker: &str, stage: &str, more: &Value) -> Result<Value> {
        let source = build::test_worker(worker).map_err(refused("build a worker"))?;
        let mut request = json!({
            "as": stage,
            "source": source,
            "watch": false,
            "key": "header:key",
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        Ok(request)
    }

    /// Moves a flow, a stage or a worker to a node.
    pub fn relocate(&self, what: &str, to: &str) -> Result<()> {
        let order = json!({ "what": what, "to": to });
        self.nodes[0].post("moves", &order)?;
        Ok(())
    }

    /// What the first node says of all.
    pub fn view(&self) -> Result<View> {
        view_from(&self.nodes[0])
    }

    /// Waits until so many nodes run and together have all of a stage, each about the same.
    pub fn wait_until_shared(&self, stage: &str, nodes: usize) -> Result<BTreeMap<String, u32>> {
        let what = format!("that {nodes} nodes share {stage}");
        wait_for(&what, || {
            let parts = self.view()?.parts(stage);
            let total: u32 = parts.values().sum();
            let most = PARTS.div_ceil(nodes as u32) + 1;
            let is_even = parts.values().all(|count| (1..=most).contains(count));
            let is_shared = parts.len() == nodes && total == PARTS && is_even;
            Ok(is_shared
                .then_some(parts.clone())
                .ok_or(format!("{parts:?}")))
        })
    }
}

/// What a node says of all.
pub fn view_from(node: &Node) -> Result<View> {
    let answer = node.get("nodes")?;
    serde_json::from_value(answer).map_err(|error| {
        ClusterError::Peer(PeerError::UnexpectedAnswer {
            peer: node.name().to_owned(),
            answer: error.to_string(),
        })
    })
}
