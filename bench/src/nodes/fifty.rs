//! Many nodes on one broker: what it costs that they hear each other.

use std::time::{Duration, Instant};

use serde_json::json;

use super::beats::Beats;
use super::cluster::{Cluster, view_from};
use super::judge::check;
use super::stream::{Receiver, Sender};
use super::{ClusterError, Result, wait_for};
use crate::peers::{processor_time, resident_bytes};

const STAGE: &str = "shop/hoard";
const KEYS: u32 = 512;
const RATE: u32 = 500;
const STREAM: Duration = Duration::from_secs(3);
/// How long they have nothing to do while they are looked at.
const IDLE: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// How many nodes there were.
    pub nodes: usize,
    /// Heartbeats sent per second.
    pub beats: f64,
    /// How many bytes of heartbeats came per second to each who listens.
    pub bytes: f64,
    /// How many hundredths of a core the broker used meanwhile.
    pub broker_load: f64,
    /// How many hundredths of a core a node used meanwhile, on average.
    pub node_load: f64,
    /// How much memory a node had, on average.
    pub node_bytes: f64,
    /// How long it took until all saw each other and shared the stage, from when the last had started.
    pub settled: Duration,
    /// How many messages went through the stage.
    pub messages: usize,
}

/// Starts so many nodes that share a stage, leaves them alone, and sends messages through it.
pub fn gather(nodes: u32) -> Result<Seen> {
    let mut cluster = Cluster::start(&["n0"])?;
    let settings = json!({ "workers": 2, "outputs": { "out": ["queue:results"] } });
    cluster.deploy("hoard", STAGE, &settings)?;
    for number in 1..nodes {
        cluster.join(&format!("n{number}"))?;
    }
    let started = Instant::now();
    let all = nodes as usize;
    for node in &cluster.nodes {
        wait_for("that all nodes see each other", || {
            let running = view_from(node)?.running();
            Ok((running == all)
                .then_some(())
                .ok_or(format!("{running} seen")))
        })?;
    }
    cluster.wait_until_shared(STAGE, all)?;
    let settled = started.elapsed();
    let mut seen = idle(&cluster)?;
    seen.settled = settled;
    seen.messages = send_through(&cluster)?;
    Ok(seen)
}

/// What they do while there is nothing to do.
fn idle(cluster: &Cluster) -> Result<Seen> {
    let beats = Beats::listen(cluster.address())?;
    let (heard, began) = (beats.heard(), Instant::now());
    let broker = broker_time(cluster)?;
    let nodes = node_times(cluster)?;
    std::thread::sleep(IDLE);
    let seconds = began.elapsed().as_secs_f64();
    let broker = broker_time(cluster)? - broker;
    let nodes_used = node_times(cluster)? - nodes;
    let heard_now = beats.heard();
    let count = cluster.nodes.len();
    let per_second = |count: u64| count as f64 / seconds;
    let load = |used: Duration| 100.0 * used.as_secs_f64() / seconds;
    let mut node_bytes = 0;
    for process in process_ids(cluster) {
        node_bytes += resident_bytes(process)?.now;
    }
    Ok(Seen {
        nodes: count,
        beats: per_second(heard_now.messages - heard.messages),
        bytes: per_second(heard_now.bytes - heard.bytes),
        broker_load: load(broker),
        node_load: load(nodes_used) / count as f64,
        node_bytes: node_bytes as f64 / count as f64,
        settled: Duration::ZERO,
        messages: 0,
    })
}

fn process_ids(cluster: &Cluster) -> impl Iterator<Item = u32> {
    cluster.nodes.iter().filter_map(|node| node.process_id())
}

fn broker_time(cluster: &Cluster) -> Result<Duration> {
    let process = cluster.broker.process_id();
    let process = process.ok_or_else(|| ClusterError::Unexpected("no broker runs".to_owned()))?;
    Ok(processor_time(process)?)
}

fn node_times(cluster: &Cluster) -> Result<Duration> {
    let mut all = Duration::ZERO;
    for process in process_ids(cluster) {
        all += processor_time(process)?;
    }
    Ok(all)
}

/// Sends messages through the stage, each of which must come out once.
fn send_through(cluster: &Cluster) -> Result<usize> {
    let receiver = Receiver::start(cluster.address())?;
    let mut sender = Sender::start(cluster.address(), STAGE, KEYS)?;
    sender.while_sending(KEYS, RATE, || {
        std::thread::sleep(STREAM);
        Ok(())
    })?;
    let arrived = receiver.wait_for(sender.sent.len());
    receiver.finish()?;
    check(&sender.sent, &arrived, |_| 0)?;
    Ok(sender.sent.len())
}
