//! A stage in memory runs on every node by itself: what a node emits to it stays there.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use broker::SystemClock;
use control::{Agent, Deployer, NodeSettings, NodeState, Order, Share, definition_name};
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker, native};
use kernel::{Destination, Headers, Message, Name, StageAddress};
use parking_lot::Mutex;
use runtime::{Delivery, Part, Runtime, Settings, StageKind, StageSpec, StopTarget};

use crate::rig::{Cluster, PATIENCE, rules, until};

const SOURCE: &str = "m/source";
const LOCAL: &str = "m/local";

/// What arrived at the stage in memory of each node: the version there, and the node that emitted it.
type Arrived = Arc<Mutex<Vec<(&'static str, String, String)>>>;

/// Emits the name of its node.
struct Names(&'static str);

#[async_trait]
impl Worker for Names {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        match incoming.kind {
            Kind::Message => turn.emit("out", Message::new(self.0)),
            _ => Ok(()),
        }
    }
}

/// Writes down what arrives.
struct Notes {
    node: &'static str,
    version: String,
    arrived: Arrived,
}

#[async_trait]
impl Worker for Notes {
    async fn receive(&mut self, incoming: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        let from = String::from_utf8(incoming.message.body.to_vec())?;
        let version = self.version.clone();
        self.arrived.lock().push((self.node, version, from));
        Ok(())
    }
}

/// Knows both stages; the document says the version of the one in memory.
struct Both {
    node: &'static str,
    runtime: Arc<Runtime>,
    arrived: Arrived,
}

#[async_trait]
impl Deployer for Both {
    async fn deploy(
        &self,
        stage: &StageAddress,
        _revision: u64,
        definition: &[u8],
    ) -> Result<Share, String> {
        let spec = StageSpec::new(stage.clone()).workers(2);
        let (spec, code) = match stage.to_string() == SOURCE {
            true => {
                let node = self.node;
                let local: StageAddress = LOCAL.parse().map_err(|_| "no address")?;
                let key = "header:key".parse().map_err(|_| "no key")?;
                let spec = spec.kind(StageKind::Keyed(key)).output("out", local);
                (spec, native("names", "1", move |_| Names(node)))
            }
            false => {
                let (node, arrived) = (self.node, self.arrived.clone());
                let version = String::from_utf8_lossy(definition).into_owned();
                let notes = move |_: &_| Notes {
                    node,
                    version: version.clone(),
                    arrived: arrived.clone(),
                };
                (spec.delivery(Delivery::Memory), native("notes", "1", notes))
            }
        };
        let whole = spec.delivery == Delivery::Memory;
        let deployed = self.runtime.deploy_shared(spec, code, None).await;
        deployed.map_err(|error| error.to_string())?;
        Ok(Share {
            count: self.runtime.parts(stage).len() as u32,
            whole,
            ..Share::default()
        })
    }

    async fn remove(&self, stage: &StageAddress) {
        let target = StopTarget::Stage(stage.clone());
        self.runtime.stop(&target).await.unwrap();
    }
}

struct Node {
    agent: Agent,
    runtime: Arc<Runtime>,
}

async fn node(cluster: &Cluster, name: &'static str, arrived: &Arrived) -> Node {
    let (clock, bus) = (Arc::new(SystemClock), cluster.bus.clone());
    let runtime = Runtime::start(bus.clone(), Settings::default(), clock.clone());
    let both = Arc::new(Both {
        node: name,
        runtime: runtime.clone(),
        arrived: arrived.clone(),
    });
    let settings = NodeSettings {
        name: Name::new(name).unwrap(),
        labels: BTreeMap::new(),
        address: None,
        rules: rules(),
    };
    let agent = Agent::start(bus, runtime.clone(), both, clock, settings);
    let agent = agent.await.unwrap();
    Node { agent, runtime }
}

async fn define(
    cluster: &Cluster,
    nodes: &[&Node],
    stage: &str,
    revision: u64,
    text: Option<&str>,
) {
    let address: StageAddress = stage.parse().unwrap();
    let name = definition_name(&address).unwrap();
    let body = text.map(str::as_bytes);
    let put = cluster.bus.put_document(&name, revision, body, PATIENCE);
    put.await.unwrap();
    nodes
        .iter()
        .for_each(|node| node.agent.definition_changed(&address));
}

/// Sends a message of each key to the source and waits until all have arrived. Gives from where to where they came.
async fn round(
    cluster: &Cluster,
    arrived: &Arrived,
) -> BTreeMap<(&'static str, String, String), usize> {
    const KEYS: usize = 400;
    arrived.lock().clear();
    let message = |key: usize| {
        let key = format!("k{key}");
        let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
        Message::new("x").with_headers(headers)
    };
    let mut batch: Vec<Message> = (0..KEYS).map(message).collect();
    let queue = Destination::Queue(Name::new("m.source").unwrap());
    let published = cluster.bus.publish(&queue, &mut batch, PATIENCE).await;
    published.unwrap();
    until("all arrive", || arrived.lock().len() == KEYS).await;
    let mut counts = BTreeMap::new();
    for what in arrived.lock().drain(..) {
        *counts.entry(what).or_default() += 1;
    }
    counts
}

fn parts(node: &Node, stage: &str) -> BTreeMap<String, u32> {
    node.agent.parts_of(&stage.parse().unwrap())
}

fn expected(nodes: &[&'static str], version: &str) -> Vec<(&'static str, String, String)> {
    let own = |node: &&'static str| (*node, version.to_owned(), (*node).to_owned());
    nodes.iter().map(own).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_emits_to_a_stage_in_memory_stays_on_that_node() {
    let cluster = Cluster::new();
    let arrived = Arrived::default();
    let first = node(&cluster, "first", &arrived).await;
    let second = node(&cluster, "second", &arrived).await;
    let both = [&first, &second];
    define(&cluster, &both, LOCAL, 0, Some("1")).await;
    define(&cluster, &both, SOURCE, 0, Some("")).await;
    let half = |nodes: u32| {
        let parts = parts(&first, SOURCE);
        parts.len() as u32 == nodes && parts.values().all(|held| *held > 129 / nodes - 5)
    };
    until("both share the source", || half(2)).await;
    until("both have the other stage", || {
        parts(&first, LOCAL) == [("first".into(), 1), ("second".into(), 1)].into()
    })
    .await;
    let counts = round(&cluster, &arrived).await;
    assert!(
        counts
            .keys()
            .cloned()
            .eq(expected(&["first", "second"], "1")),
        "{counts:?}"
    );

    // One that joins later has it, too.
    let third = node(&cluster, "third", &arrived).await;
    until("three share the source", || half(3)).await;
    until("three have the other stage", || {
        parts(&first, LOCAL).len() == 3
    })
    .await;
    let counts = round(&cluster, &arrived).await;
    let all = expected(&["first", "second", "third"], "1");
    assert!(counts.keys().cloned().eq(all), "{counts:?}");

    // A change reaches all.
    define(&cluster, &[&first], LOCAL, 1, Some("2")).await;
    let local: StageAddress = LOCAL.parse().unwrap();
    until("all know", || first.agent.all_know(&local, 2)).await;
    let counts = round(&cluster, &arrived).await;
    let all = expected(&["first", "second", "third"], "2");
    assert!(counts.keys().cloned().eq(all), "{counts:?}");

    // Who leaves need not wait for what it has for itself, and takes nothing more.
    let name = Name::new("third").unwrap();
    let drain = |order: &mut Order| order.state = NodeState::Draining;
    first.agent.order(&name, drain).await.unwrap();
    until("it has given everything away", || {
        let held = |stage| parts(&first, stage).get("third").copied();
        held(SOURCE) == Some(0) && held(LOCAL) == Some(0)
    })
    .await;
    let outside = |count: usize| {
        let queue = Destination::Queue(Name::new("m.local").unwrap());
        let (bus, mut batch) = (cluster.bus.clone(), vec![Message::new("outside"); count]);
        async move { bus.publish(&queue, &mut batch, PATIENCE).await.unwrap() }
    };
    // Any client can send to it, and any of the nodes takes it.
    outside(50).await;
    until("all arrive", || arrived.lock().len() == 50).await;
    assert!(arrived.lock().drain(..).all(|(to, _, _)| to != "third"));
    let resume = |order: &mut Order| order.state = NodeState::Running;
    first.agent.order(&name, resume).await.unwrap();
    until("three have it again", || {
        parts(&first, LOCAL).values().sum::<u32>() == 3 && half(3)
    })
    .await;
    let counts = round(&cluster, &arrived).await;
    assert_eq!(counts.len(), 3, "{counts:?}");

    // Its end is that of all of them.
    define(&cluster, &[&first], LOCAL, 2, None).await;
    for node in [&first, &second, &third] {
        until("it is gone", || node.runtime.stage(&local).is_none()).await;
    }
    // The control: what is shared in parts is not whole anywhere.
    let source: StageAddress = SOURCE.parse().unwrap();
    assert_eq!(first.runtime.parts(&source).len(), 129);
    assert!(first.runtime.parts(&local).is_empty());
    assert!(first.runtime.take(&local, Part::Owner).await.is_err());
}
