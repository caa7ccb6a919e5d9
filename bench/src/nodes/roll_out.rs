//! A component that all nodes have already is deployed as a new stage, for which messages wait.

use std::time::{Duration, Instant};

use serde_json::json;

use super::cluster::Cluster;
use super::stream::{Receiver, Sender};
use super::{ClusterError, Result};

const WORKER: &str = "hoard";
const KEYS: u32 = 60;

/// What was seen of one deployment, each counted from the request.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The first message was handled, and its result was there.
    pub first: Duration,
    /// All that waited were.
    pub all: Duration,
    /// The request was answered.
    pub answered: Duration,
}

/// Deploys so many stages, one after another.
pub fn roll_out(stages: u32) -> Result<Vec<Seen>> {
    let cluster = Cluster::start(&["a", "b", "c"])?;
    let settings = json!({ "workers": 6, "outputs": { "out": ["queue:results"] } });
    let first = cluster.request(WORKER, "shop/first", &settings)?;
    cluster.post(&first)?;
    cluster.wait_until_shared("shop/first", 3)?;
    let receiver = Receiver::start(cluster.address())?;
    let mut seen = Vec::new();
    for number in 0..stages as usize {
        let stage = format!("shop/stage{number}");
        let request = cluster.request(WORKER, &stage, &settings)?;
        let mut sender = Sender::start(cluster.address(), &stage, KEYS)?;
        sender.send_all(0..KEYS, None)?;
        let began = Instant::now();
        cluster.post(&request)?;
        let answered = began.elapsed();
        let before = number * KEYS as usize;
        let arrived = receiver.wait_for(before + KEYS as usize);
        let since = arrived.get(before..).into_iter().flatten();
        let mut waits: Vec<Duration> = since.map(|arrival| arrival.at - began).collect();
        waits.sort_unstable();
        let (Some(first), Some(all), true) =
            (waits.first(), waits.last(), waits.len() == KEYS as usize)
        else {
            let came = waits.len();
            return Err(ClusterError::Unexpected(format!(
                "{came} results of {KEYS} messages"
            )));
        };
        seen.push(Seen {
            first: *first,
            all: *all,
            answered,
        });
        // The next one meets nodes that have nothing else to do.
        cluster.wait_until_shared(&stage, 3)?;
    }
    receiver.finish()?;
    Ok(seen)
}
