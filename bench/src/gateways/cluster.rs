//! The gateways, and what runs on them.

use std::time::{Duration, Instant};

use kernel::Name;
use serde_json::{Value, json};

use super::access::Access;
use super::plan::{Plan, Role, Workers};
use crate::peers::node::{Node, Shared};
use crate::relays;
use crate::workers::{PATIENCE, Result, WorkerError, refused};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Four nodes on one bus. Dropping them ends their processes.
pub struct Gateways {
    nodes: Vec<Node>,
    /// The broker itself.
    pub access: Access,
    plan: Option<Plan>,
    flows: u32,
    senders: u32,
}

impl Gateways {
    /// Starts the nodes and waits until they know each other.
    pub fn start(shared: &Shared, access: Access) -> Result<Self> {
        let nodes = NAMES.iter().map(|name| Node::start(name, shared));
        let nodes = nodes.collect::<std::result::Result<_, _>>();
        let gateways = Self {
            nodes: nodes.map_err(refused("start a gateway"))?,
            access,
            plan: None,
            flows: 0,
            senders: 0,
        };
        for node in &gateways.nodes {
            wait_until("that all gateways know each other", || {
                let states = states(node)?;
                let running = states.iter().filter(|(_, state)| *state == "running");
                Ok(running.count() == NAMES.len())
            })?;
        }
        Ok(gateways)
    }

    /// Sees to it that this program runs, in place of the one before.
    pub fn run(&mut self, plan: &Plan) -> Result<()> {
        if self.plan.as_ref() == Some(plan) {
            return Ok(());
        }
        if self.plan.take().is_some() {
            let path = format!("flows/{}", self.flow());
            let stopped = self.nodes[0].delete(&path);
            stopped.map_err(refused("stop a program"))?;
        }
        self.flows += 1;
        let order = json!({ "state": "running", "prefetch": plan.prefetch });
        for node in &self.nodes[..plan.gateways()] {
            tell(node, &order)?;
        }
        self.access.declare(&self.queue(Role::Consumer))?;
        for workers in plan.workers.iter().rev() {
            self.deploy(workers)?;
        }
        self.plan = Some(plan.clone());
        Ok(())
    }

    fn deploy(&self, workers: &Workers) -> Result<()> {
        let component = build::test_worker(workers.role.component());
        let component = component.map_err(refused("build a worker"))?;
        let source = component.to_string_lossy();
        let deployment = workers.deployment(&self.flow(), &source, &NAMES);
        let deployed = self.nodes[0].post("deployments", &deployment);
        deployed.map_err(refused("deploy"))?;
        wait_until("that all workers have their place", || {
            let stage = self.stage(&self.nodes[0], workers.role)?;
            let parts = |name: &&str| stage["nodes"][*name].as_u64().unwrap_or(0);
            let on = &NAMES[workers.on.clone()];
            let each = u64::from(workers.count) / on.len() as u64;
            let all: u64 = on.iter().map(parts).sum();
            Ok(all == u64::from(workers.count) && on.iter().all(|name| parts(name) >= each))
        })
    }

    /// The gateways of the program pull no more messages.
    pub fn pause(&self) -> Result<()> {
        for node in self.used() {
            tell(node, &json!({ "state": "paused" }))?;
        }
        for node in self.used() {
            wait_until("that a gateway pauses", || {
                let states = states(node)?;
                let is_paused = |(name, state): &(String, String)| {
                    name.as_str() == node.name() && state.as_str() == "paused"
                };
                Ok(states.iter().any(is_paused))
            })?;
        }
        Ok(())
    }

    /// They pull again.
    pub fn resume(&self) -> Result<()> {
        let running = json!({ "state": "running" });
        self.used().try_for_each(|node| tell(node, &running))
    }

    /// Sends a message to each worker of a role.
    pub fn send(&self, role: Role, body: impl Fn(u32, u32) -> String) -> Result<()> {
        let count = self.count(role);
        for number in 0..count {
            let address = self.worker(role, number);
            let sent = self.nodes[0].send(&address, body(number, count).as_bytes());
            sent.map_err(refused("send to a worker"))?;
        }
        Ok(())
    }

    /// Asks each worker of a role.
    pub fn ask(&self, role: Role) -> Result<Vec<Vec<u8>>> {
        let answers = (0..self.count(role)).map(|number| {
            let answer = self.nodes[0].ask(&self.worker(role, number));
            answer.map_err(refused("ask a worker"))
        });
        answers.collect()
    }

    /// How many turns the workers of a role have committed.
    pub fn turns(&self, role: Role) -> Result<u64> {
        let on = self.placed(role).map_or(0..0, |workers| workers.on.clone());
        let turns = self.nodes[on].iter().map(|node| {
            let stage = self.stage(node, role)?;
            Ok(stage["turns"].as_u64().unwrap_or(0))
        });
        turns.sum()
    }

    /// Waits until the workers of a role have committed so many turns more than before; how many a
    /// second that was.
    pub fn watch(&self, role: Role, before: u64, turns: u32) -> Result<f64> {
        relays::watch_every(
            LOOK_EVERY,
            turns,
            || Ok((self.turns(role)? - before) as u32),
        )
    }

    /// The queue of a role.
    pub fn queue(&self, role: Role) -> Name {
        role.stage(&self.flow()).queue()
    }

    /// The name of a sender that has sent nothing yet.
    pub fn fresh_sender(&mut self) -> String {
        self.senders += 1;
        format!("sender-{}", self.senders)
    }

    fn flow(&self) -> String {
        format!("gateways-{}", self.flows)
    }

    fn worker(&self, role: Role, number: u32) -> String {
        format!("{}/{number}", role.stage(&self.flow()))
    }

    fn placed(&self, role: Role) -> Option<&Workers> {
        self.plan.as_ref().and_then(|plan| plan.of(role))
    }

    fn count(&self, role: Role) -> u32 {
        self.placed(role).map_or(0, |workers| workers.count)
    }

    fn used(&self) -> impl Iterator<Item = &Node> {
        let count = self.plan.as_ref().map_or(0, Plan::gateways);
        self.nodes[..count].iter()
    }

    fn stage(&self, node: &Node, role: Role) -> Result<Value> {
        let stage = node.get(&format!("flows/{}", role.stage(&self.flow())));
        stage.map_err(refused("look at a stage"))
    }
}

/// Tells a node itself what to be: then it hears so at once.
fn tell(node: &Node, order: &Value) -> Result<()> {
    let told = node.post(&format!("nodes/{}", node.name()), order);
    told.map_err(refused("tell a gateway what to be"))
        .map(|_| ())
}

/// The nodes that one of them has heard of, each with its state.
fn states(node: &Node) -> Result<Vec<(String, String)>> {
    let nodes = node.get("nodes").map_err(refused("look at the nodes"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = nodes["nodes"].as_array().into_iter().flatten();
    Ok(nodes
        .map(|node| (text(&node["name"]), text(&node["state"])))
        .collect())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(WorkerError::TooLate {
                what: what.to_owned(),
            });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
