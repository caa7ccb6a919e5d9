//! A node dies, and the others take over what it had.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use control::Claims;
use serde_json::json;

use super::beats::Beats;
use super::cluster::{Cluster, PARTS};
use super::judge::check;
use super::stream::{Arrival, Receiver, Sender, Sent, key_name};
use super::{ClusterError, Result, wait_for};

const STAGE: &str = "shop/hoard";
const KEYS: u32 = 512;
const RATE: u32 = 1_000;
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// How many keys the dead node had.
    pub keys: usize,
    /// How long it took until all of them were served again.
    pub took: Duration,
    /// How long it took until the first of them was.
    pub first: Duration,
}

/// Kills one of three nodes after so many seconds of messages: the one at which they come in.
pub fn take_over(seconds: u32) -> Result<Seen> {
    let mut cluster = Cluster::start(&["a", "b", "c"])?;
    let settings = json!({ "workers": 8, "outputs": { "out": ["queue:results"] } });
    cluster.deploy("hoard", STAGE, &settings)?;
    let beats = Beats::listen(cluster.address())?;
    cluster.wait_until_shared(STAGE, 3)?;
    let receiver = Receiver::start(cluster.address())?;
    let mut sender = Sender::start(cluster.address(), STAGE, KEYS)?;
    let (killed_at, parts) = sender.while_sending(KEYS, RATE, || {
        std::thread::sleep(Duration::from_secs(seconds.into()));
        kill(&mut cluster, &beats)
    })?;
    let arrived = receiver.wait_for(sender.sent.len());
    receiver.finish()?;
    check(&sender.sent, &arrived, |_| 0)?;
    Ok(seen(&sender.sent, &arrived, killed_at, &parts))
}

/// Kills the node that has the entrance, and waits until the others have all. When that was, and what
/// it had.
fn kill(cluster: &mut Cluster, beats: &Beats) -> Result<(Instant, Claims)> {
    let (victim, parts) = wait_for("that somebody has the entrance", || {
        let holds = beats.holds(STAGE);
        let found = holds
            .into_iter()
            .find(|(_, parts)| parts.contains(PARTS - 1));
        Ok(found.ok_or("nobody's".to_owned()))
    })?;
    let killed_at = Instant::now();
    let victim = cluster.nodes.iter().position(|node| node.name() == victim);
    let victim = victim.ok_or_else(|| ClusterError::Unexpected("an unknown node".to_owned()))?;
    cluster.nodes.remove(victim).kill();
    cluster.wait_until_shared(STAGE, 2)?;
    std::thread::sleep(AFTERWARDS);
    Ok((killed_at, parts))
}

/// When each key of these parts was served again: when the result came of a message that was due after
/// the node had died.
fn seen(sent: &[Sent], arrived: &[Arrival], killed_at: Instant, parts: &Claims) -> Seen {
    let mut served: HashMap<u32, Duration> = HashMap::new();
    for arrival in arrived {
        let message = sent[arrival.number];
        let bucket = runtime::bucket_of(key_name(message.key).as_bytes());
        if message.due >= killed_at && parts.contains(bucket) {
            let after = arrival.at.saturating_duration_since(killed_at);
            served.entry(message.key).or_insert(after);
        }
    }
    Seen {
        keys: served.len(),
        took: served.values().max().copied().unwrap_or_default(),
        first: served.values().min().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_served_again_with_the_first_message_after_the_death() {
        let began = Instant::now();
        let second = |seconds: u64| began + Duration::from_secs(seconds);
        let message = |key, due| Sent {
            key,
            count: 1,
            due: second(due),
        };
        let sent = [message(0, 1), message(0, 3), message(1, 3), message(0, 4)];
        let arrival = |number, at| Arrival {
            number,
            count: 1,
            kept: 0,
            at: second(at),
        };
        let arrived = [arrival(0, 5), arrival(1, 9), arrival(2, 7), arrival(3, 11)];
        let all: Claims = (0..PARTS).collect();
        let found = seen(&sent, &arrived, second(2), &all);
        assert_eq!(found.keys, 2);
        assert_eq!([found.first, found.took].map(|t| t.as_secs()), [5, 7]);
        let none = seen(&sent, &arrived, second(2), &Claims::default());
        assert_eq!(none.keys, 0);
    }
}
