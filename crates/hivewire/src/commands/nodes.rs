//! `hivewire nodes`, `move`, `drain`, `scale` and `node`

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use kernel::StageAddress;
use serde_json::{Map, Value, json};

use super::Global;
use super::output::{json_line, line, printable, table};
use super::profile::Profile;
use super::ps::stage_path;
use crate::client::{Client, encode};
use crate::cluster::label_of;
use crate::exit::Exit;

const TEXT_CHARACTERS_MAX: usize = 60;
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct Nodes {}

impl Nodes {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let answer = global.client()?.get_all("/api/v1/nodes", "nodes")?;
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        let rows: Vec<Vec<String>> = nodes_of(&answer).map(row).collect();
        let titles = ["node", "state", "load %", "parts", "stages", "labels"];
        line(table(&titles, &[2, 3], &rows).trim_end())?;
        Ok(Exit::Done)
    }
}

fn nodes_of(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["nodes"].as_array().into_iter().flatten()
}

fn row(node: &Value) -> Vec<String> {
    let name = node["name"].as_str().unwrap_or_default();
    let this = match node["this"].as_bool() {
        Some(true) => " (this one)",
        _ => "",
    };
    let stages = node["stages"].as_object().into_iter().flatten();
    let with_parts: Vec<String> = stages
        .filter_map(|(stage, part)| Some((stage, part["parts"].as_u64().filter(|n| *n > 0)?)))
        .map(|(stage, parts)| format!("{stage}: {parts}"))
        .collect();
    let labels = node["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    vec![
        printable(&format!("{name}{this}"), TEXT_CHARACTERS_MAX),
        node["state"].as_str().unwrap_or_default().to_owned(),
        node["load"].to_string(),
        parts_of(node).to_string(),
        printable(&with_parts.join(", "), TEXT_CHARACTERS_MAX),
        printable(&labels.join(", "), TEXT_CHARACTERS_MAX),
    ]
}

/// How many parts of stages a node has.
fn parts_of(node: &Value) -> u64 {
    let stages = node["stages"].as_object().into_iter().flatten();
    stages.filter_map(|(_, part)| part["parts"].as_u64()).sum()
}

#[derive(Debug, Args)]
pub(super) struct Move {
    /// A flow, a stage (flow/stage) or a worker (flow/stage/3)
    #[arg(value_name = "FLOW[/STAGE[/WORKER]]")]
    what: String,
    /// The node that gets it
    #[arg(long, value_name = "NODE")]
    to: String,
    /// How long to wait until it is there; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

impl Move {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let order = json!({ "what": self.what, "to": self.to });
        let answer = client.post("/api/v1/moves", &order)?;
        let stages = answer["moved"].as_array().into_iter().flatten();
        let stages: Vec<StageAddress> = stages
            .filter_map(|stage| stage.as_str()?.parse().ok())
            .collect();
        // What one worker has is not told apart from what its neighbours have.
        let is_whole = self.what.matches('/').count() < 2;
        if is_whole && self.wait > 0 {
            wait_until(
                self.wait,
                &format!("{} is not there yet", self.what),
                || {
                    for stage in &stages {
                        if !is_all_on(&client, stage, &self.to)? {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                },
            )?;
        }
        let what = match is_whole && self.wait > 0 {
            true => "is on",
            false => "goes to",
        };
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{} {what} {}", self.what, self.to))?,
        }
        Ok(Exit::Done)
    }
}

fn is_all_on(client: &Client, stage: &StageAddress, node: &str) -> anyhow::Result<bool> {
    let shown = client.get(&stage_path(stage))?;
    let nodes = shown["nodes"].as_object().context("no nodes are known")?;
    let there = nodes.get(node).and_then(Value::as_u64);
    Ok(there == shown["parts"].as_u64())
}

fn wait_until(
    seconds: u64,
    otherwise: &str,
    mut is_true: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !is_true()? {
        if Instant::now() >= end {
            bail!("{otherwise} after {seconds} s; it goes on by itself, see `hivewire nodes`");
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(super) struct Drain {
    /// The node
    node: String,
    /// How long to wait until it has nothing; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

impl Drain {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let answer = change(&client, &self.node, &json!({ "state": "draining" }))?;
        if self.wait > 0 {
            let otherwise = format!("{} still has parts of stages", self.node);
            wait_until(self.wait, &otherwise, || {
                let answer = client.get_all("/api/v1/nodes", "nodes")?;
                let node = nodes_of(&answer).find(|node| node["name"] == self.node);
                let is_empty = |node: &Value| {
                    node["state"] == "dead" || node["state"] == "draining" && parts_of(node) == 0
                };
                Ok(node.is_none_or(is_empty))
            })?;
        }
        let how = match self.wait > 0 {
            true => "has given everything away",
            false => "gives everything away",
        };
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{} {how}", self.node))?,
        }
        Ok(Exit::Done)
    }
}

fn change(client: &Client, node: &str, order: &Value) -> anyhow::Result<Value> {
    Ok(client.post(&format!("/api/v1/nodes/{}", encode(node)), order)?)
}

#[derive(Debug, Args)]
pub(super) struct Scale {
    /// The stage
    #[arg(value_name = "FLOW/STAGE")]
    stage: StageAddress,
    /// How many workers it gets
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
}

impl Scale {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let path = format!("{}/scale?workers={}", stage_path(&self.stage), self.workers);
        let answer = global.client()?.post(&path, &json!({}))?;
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{} has {} workers", self.stage, self.workers))?,
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(super) struct Node {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// It keeps its parts and pulls no messages until it is told to go on
    Pause {
        /// The node
        node: String,
    },
    /// It goes on after a pause, or takes a share again after it was drained
    Resume {
        /// The node
        node: String,
    },
    /// It gives everything away and ends
    Stop {
        /// The node
        node: String,
    },
    /// Change its labels or its prefetch
    Set {
        /// The node
        node: String,
        /// A label in place of all that it has; can be repeated
        #[arg(long = "label", value_name = "KEY=VALUE")]
        labels: Vec<String>,
        /// How many messages of one queue may be on their way through its workers
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        prefetch: Option<u32>,
    },
    /// See where it spends its time
    Profile(Profile),
}

impl Node {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let (node, order, done) = match &self.what {
            What::Pause { node } => (node, json!({ "state": "paused" }), "pauses"),
            What::Resume { node } => {
                let order = json!({ "state": "running", "stop": false });
                (node, order, "goes on")
            }
            What::Stop { node } => {
                let order = json!({ "state": "draining", "stop": true });
                (node, order, "gives everything away and ends")
            }
            What::Set {
                node,
                labels,
                prefetch,
            } => (node, settings(labels, *prefetch)?, "is changed"),
            What::Profile(profile) => return profile.run(global),
        };
        let answer = change(&global.client()?, node, &order)?;
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{node} {done}"))?,
        }
        Ok(Exit::Done)
    }
}

fn settings(labels: &[String], prefetch: Option<u32>) -> anyhow::Result<Value> {
    let mut order = Map::new();
    if !labels.is_empty() {
        let mut all = Map::new();
        for label in labels {
            let (key, value) = label_of(label)?;
            all.insert(key, value.into());
        }
        order.insert("labels".to_owned(), all.into());
    }
    if let Some(prefetch) = prefetch {
        order.insert("prefetch".to_owned(), prefetch.into());
    }
    anyhow::ensure!(
        !order.is_empty(),
        "name what to change: --label or --prefetch"
    );
    Ok(order.into())
}
