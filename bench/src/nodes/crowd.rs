//! One real node with its own broker among very many others, which are simulated: they send real
//! heartbeats over STOMP and do nothing else. The stages are really defined, as documents on the bus of
//! which each names the same small component; the real node has deployed all of them and runs its share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bus::engines::{StompBus, StompSettings};
use bus::{Bus, Put};
use control::{Claims, Defined, Definitions, HEARTBEATS, Heartbeat, NodeState, Place, StageBeat};
use kernel::{Destination, Message, Name, StageAddress};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};

use super::ears::Ears;
use super::{ClusterError, Result, wait_for};
use crate::peers::hivewire::Hivewire;
use crate::peers::resident_bytes;
use crate::workers::refused;

/// The real node.
const HUB: &str = "hub";
const STAGES_PER_NODE: u32 = 10;
const STAGES_PER_FLOW: u32 = 100;
/// How many listen to events.
const EARS: usize = 100;
/// Heartbeats of a second are sent in so many batches.
const BATCHES: u64 = 20;
const CALL: Duration = Duration::from_secs(30);
/// How many definitions are written at a time.
const WRITES_AT_ONCE: usize = 64;

/// One real node and many others.
pub struct Crowd {
    nodes: u32,
    notes: AtomicU32,
    // They end before the node does.
    ears: Ears,
    beating: JoinHandle<()>,
    runtime: Runtime,
    hub: Hivewire,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

fn unexpected(error: impl std::fmt::Display) -> ClusterError {
    ClusterError::Unexpected(error.to_string())
}

impl Crowd {
    /// Starts a node, lets it hear so many others, and defines ten times as many stages.
    pub fn gather(nodes: u32) -> Result<Self> {
        let hub = Hivewire::start_named(HUB)?;
        let token = hub.token()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(unexpected)?;
        let bus = {
            let _inside = runtime.enter();
            let mut settings = StompSettings::new(format!("stomp://{}", hub.stomp_address()));
            settings.node = Some(Name::new("crowd").map_err(unexpected)?);
            Arc::new(StompBus::start(&settings).map_err(unexpected)?)
        };
        let beats = Arc::new(Mutex::new((0..nodes).map(first_beat).collect::<Vec<_>>()));
        let beating = runtime.spawn(beat(bus.clone(), beats.clone()));
        let crowd = Self {
            ears: Ears::open(hub.http_address(), &token, EARS)?,
            nodes,
            notes: AtomicU32::new(0),
            beating,
            runtime,
            hub,
        };
        crowd.wait_until("that all nodes are seen", "nodes?limit=10000", |answer| {
            let seen = answer["nodes"].as_array().map_or(0, Vec::len);
            (seen == nodes as usize + 1).then_some(()).ok_or(seen)
        })?;
        crowd.define(&bus, &beats)?;
        Ok(crowd)
    }

    /// How many others there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// How many stages there are.
    pub fn stages(&self) -> u32 {
        self.nodes * STAGES_PER_NODE
    }

    fn define(&self, bus: &Arc<StompBus>, beats: &Mutex<Vec<Heartbeat>>) -> Result<()> {
        let stages: Vec<StageAddress> = (0..self.stages()).map(address).collect();
        let source = build::test_worker("echo").map_err(refused("build a worker"))?;
        let first = json!({ "as": stages[0], "source": source, "watch": false });
        self.post("deployments", &first)?;
        let document = definition(bus, &self.runtime, &stages[0])?;
        self.runtime
            .block_on(write_all(bus, &stages[1..], &document))?;
        self.wait_until("that all stages are there", "flows?limit=10000", |answer| {
            let flows = answer["flows"].as_array().into_iter().flatten();
            let count: usize = flows
                .map(|flow| flow["stages"].as_array().map_or(0, Vec::len))
                .sum();
            (count == stages.len()).then_some(()).ok_or(count)
        })?;
        hold(beats, &stages);
        self.wait_until(
            "that every stage has its node",
            "nodes?limit=10000",
            |answer| {
                let nodes = answer["nodes"].as_array().into_iter().flatten();
                let held =
                    nodes.map(|node| node["stages"].as_object().map_or(0, |held| held.len()));
                let held: usize = held.sum();
                (held == stages.len()).then_some(()).ok_or(held)
            },
        )
    }

    fn wait_until(
        &self,
        what: &str,
        path: &str,
        is_so: impl Fn(&Value) -> std::result::Result<(), usize>,
    ) -> Result<()> {
        wait_for(what, || {
            let answer: Value = serde_json::from_slice(&self.hub.get(path)?).map_err(unexpected)?;
            let seen = is_so(&answer).map_err(|count| format!("{count}"));
            if seen.is_err() {
                std::thread::sleep(Duration::from_millis(500));
            }
            Ok(seen)
        })
    }

    fn post(&self, path: &str, body: &Value) -> Result<()> {
        self.hub.post(path, body.to_string().as_bytes())?;
        Ok(())
    }

    /// How long it takes to get a list, and how long the answer is.
    pub fn list(&self, path: &str) -> Result<(Duration, usize)> {
        let began = Instant::now();
        let answer = self.hub.get(path)?;
        Ok((began.elapsed(), answer.len()))
    }

    /// How long it takes from a request until the last of all who listen has heard of it.
    pub fn tell(&self) -> Result<Duration> {
        let number = self.notes.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        self.post("general", &json!({ "note": format!("crowd-{number}") }))?;
        Ok(self.ears.all_heard(number)? - began)
    }

    /// How much memory the real node has.
    pub fn bytes(&self) -> Result<u64> {
        let process = self.hub.process_id();
        let process = process.ok_or_else(|| unexpected("the node does not run"))?;
        Ok(resident_bytes(process)?.now)
    }
}

fn name(number: u32) -> String {
    format!("node-{number:04}")
}

fn address(number: u32) -> StageAddress {
    let (flow, stage) = (number / STAGES_PER_FLOW, number % STAGES_PER_FLOW);
    let address = StageAddress::new(&format!("flow-{flow:03}"), &format!("stage-{stage:02}"));
    address.expect("letters and digits are a name")
}

fn first_beat(number: u32) -> Heartbeat {
    Heartbeat {
        node: name(number),
        start: 1,
        number: 0,
        state: NodeState::Running,
        listens: false,
        labels: BTreeMap::new(),
        address: None,
        load: number % 100,
        stages: BTreeMap::new(),
        defined: None,
    }
}

/// Sends the heartbeats of all nodes, each once a second.
async fn beat(bus: Arc<StompBus>, beats: Arc<Mutex<Vec<Heartbeat>>>) {
    let topic = Destination::Topic(Name::new(HEARTBEATS).expect("it is a name"));
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / BATCHES));
    for tick in 0_u64.. {
        ticks.tick().await;
        let mut batch = {
            let mut beats = beats.lock();
            let some = beats.iter_mut().zip(0_u64..);
            let due = some.filter(|(_, number)| number % BATCHES == tick % BATCHES);
            let due = due.map(|(beat, _)| {
                beat.number += 1;
                Message::new(serde_json::to_vec(beat).unwrap_or_default())
            });
            due.collect::<Vec<_>>()
        };
        // What is late is followed by the next.
        let _ = bus.publish(&topic, &mut batch, CALL).await;
    }
}

fn definition(bus: &StompBus, runtime: &Runtime, stage: &StageAddress) -> Result<Value> {
    let name = control::definition_name(stage).map_err(unexpected)?;
    let document = runtime.block_on(bus.document(&name, CALL));
    let body = document.map_err(unexpected)?.body;
    let body = body.ok_or_else(|| unexpected("the first stage is not defined"))?;
    serde_json::from_slice(&body).map_err(unexpected)
}

async fn write_all(bus: &Arc<StompBus>, stages: &[StageAddress], first: &Value) -> Result<()> {
    let mut writing = JoinSet::new();
    for stage in stages {
        if writing.len() == WRITES_AT_ONCE
            && let Some(written) = writing.join_next().await
        {
            written.map_err(unexpected)??;
        }
        let mut record = first.clone();
        record["spec"]["address"] = json!(stage);
        let (bus, name) = (
            bus.clone(),
            control::definition_name(stage).map_err(unexpected)?,
        );
        writing.spawn(async move {
            let body = record.to_string();
            let put = bus
                .put_document(&name, 0, Some(body.as_bytes()), CALL)
                .await;
            match put.map_err(unexpected)? {
                Put::Stored(_) => Ok(()),
                Put::Conflict(_) => Err(unexpected(format!("{name} was there already"))),
            }
        });
    }
    while let Some(written) = writing.join_next().await {
        written.map_err(unexpected)??;
    }
    Ok(())
}

/// From now on each node says that it has what is its own, and which definitions it goes by.
fn hold(beats: &Mutex<Vec<Heartbeat>>, stages: &[StageAddress]) {
    let mut definitions = Definitions::default();
    let names: Vec<String> = {
        let beats = beats.lock();
        let others = beats.iter().map(|beat| beat.node.clone());
        others.chain([HUB.to_owned()]).collect()
    };
    let places: Vec<Place<'_>> = names.iter().map(|node| Place { node, number: 0 }).collect();
    let mut held: BTreeMap<String, BTreeMap<String, StageBeat>> = BTreeMap::new();
    for stage in stages.iter().map(StageAddress::to_string) {
        definitions.change(&stage, None, Some(1));
        for owner in control::places(&stage, 1, &places) {
            let beat = StageBeat {
                revision: 1,
                version: 1,
                holds: Claims::from_iter([0]),
            };
            let stages = held.entry(owner.to_owned()).or_default();
            stages.insert(stage.clone(), beat);
        }
    }
    for beat in beats.lock().iter_mut() {
        beat.stages = held.remove(&beat.node).unwrap_or_default();
        beat.defined = Some(Defined {
            digest: definitions.digest(),
            lacks: Vec::new(),
        });
    }
}
