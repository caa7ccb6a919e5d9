//! Half of a stage moves to a node that has just joined, while messages flow.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use control::Claims;
use serde_json::json;

use super::beats::Beats;
use super::cluster::Cluster;
use super::judge::{check, message_waits, percentile, waits};
use super::stream::{Arrival, Receiver, Sender, key_name};
use super::{Result, wait_for};

const STAGE: &str = "shop/hoard";
const WORKERS: u32 = 8;
const MOVED_WORKERS: u32 = 4;
/// Buckets are shared evenly among workers.
const MOVED_PARTS: u32 = runtime::BUCKETS * MOVED_WORKERS / WORKERS;
const KEPT_BYTES: u32 = 2_048;
/// How many of the keys get messages while the stage moves.
const KEYS_IN_USE: u32 = 1_024;
const WARM_UP: Duration = Duration::from_secs(2);
/// How long the stage is looked at before anything changes.
const BEFORE: Duration = Duration::from_secs(4);
const AFTERWARDS: Duration = Duration::from_secs(1);

/// How many messages are sent in a second.
pub const RATE: u32 = 5_000;

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// How many bytes of state every key still had in the end, all together.
    pub state_bytes: u64,
    /// How many keys with messages moved.
    pub moved_keys: usize,
    /// How long the move took, from the order until the new node had everything.
    pub took: Duration,
    /// The longest wait of each key that moved, in the worst of a hundred.
    pub wait: Duration,
    /// The longest wait of all keys that moved.
    pub longest: Duration,
    /// The longest wait of the other keys while nothing moved, over as long a time as the move took.
    pub others_before: Duration,
    /// The longest wait of all keys while the new node started.
    pub joining: Duration,
    /// The longest wait of the other keys during the move.
    pub others: Duration,
    /// What 99 of 100 messages of the other keys wait at most while nothing moves.
    pub others_usual_before: Duration,
    /// The same during the move.
    pub others_usual: Duration,
}

/// When what happened.
struct Times {
    before: Range<Instant>,
    joining: Range<Instant>,
    moving: Range<Instant>,
    /// The parts that moved.
    moved: Claims,
}

/// Fills a stage with so many mebibytes of state and moves half of its workers.
pub fn relocate(mebibytes: u32) -> Result<Seen> {
    let keys = (mebibytes * 1024 * 1024 / KEPT_BYTES).max(KEYS_IN_USE);
    let mut cluster = Cluster::start(&["a"])?;
    let settings = json!({
        "workers": WORKERS,
        "on": ["a"],
        "outputs": { "out": ["queue:results"] },
    });
    cluster.deploy("hoard", STAGE, &settings)?;
    let beats = Beats::listen(cluster.address())?;
    let receiver = Receiver::start(cluster.address())?;
    let mut sender = Sender::start(cluster.address(), STAGE, keys)?;
    sender.send_all(0..keys, Some(KEPT_BYTES))?;
    receiver.wait_for(keys as usize);
    let times = sender.while_sending(KEYS_IN_USE, RATE, || move_half(&mut cluster, &beats))?;
    receiver.wait_for(sender.sent.len());
    sender.send_all(0..keys, None)?;
    let arrived = receiver.wait_for(sender.sent.len());
    receiver.finish()?;
    let kept = |number| match number < keys as usize {
        true => 0,
        false => u64::from(KEPT_BYTES),
    };
    check(&sender.sent, &arrived, kept)?;
    let last = sender.sent.len() - keys as usize;
    Ok(seen(&sender, &arrived, &times, last))
}

fn move_half(cluster: &mut Cluster, beats: &Beats) -> Result<Times> {
    std::thread::sleep(WARM_UP);
    let before = Instant::now();
    std::thread::sleep(BEFORE);
    let joining = Instant::now();
    cluster.join("b")?;
    wait_for("that a hears of b", || {
        let view = cluster.view()?;
        Ok((view.running() == 2)
            .then_some(())
            .ok_or(format!("{view:?}")))
    })?;
    let moving = Instant::now();
    for worker in 0..MOVED_WORKERS {
        cluster.relocate(&format!("{STAGE}/{worker}"), "b")?;
    }
    let moved = wait_for("that b has half of the stage", || {
        let parts = beats.holds(STAGE).remove("b").unwrap_or_default();
        let count = parts.count();
        Ok((count == MOVED_PARTS)
            .then_some(parts)
            .ok_or(format!("{count} parts")))
    })?;
    let ended = Instant::now();
    std::thread::sleep(AFTERWARDS);
    Ok(Times {
        before: before..joining,
        joining: joining..moving,
        moving: moving..ended,
        moved,
    })
}

fn seen(sender: &Sender, arrived: &[Arrival], times: &Times, last_pass: usize) -> Seen {
    let moves = |key: &u32| {
        times
            .moved
            .contains(runtime::bucket_of(key_name(*key).as_bytes()))
    };
    let took = times.moving.end - times.moving.start;
    let from = times.before.end.checked_sub(took);
    let before = from.map_or(times.before.start, |from| from.max(times.before.start));
    let waits = |time: &Range<Instant>| waits(&sender.sent, arrived, time);
    let longest = |waits: HashMap<u32, Duration>, counts: &dyn Fn(&u32) -> bool| {
        let waits = waits.into_iter().filter(|(key, _)| counts(key));
        waits.map(|(_, wait)| wait).max().unwrap_or_default()
    };
    let usual = |time: &Range<Instant>| {
        let waits = message_waits(&sender.sent, arrived, time, |key| !moves(key));
        percentile(waits.into_iter(), 99)
    };
    let during = waits(&times.moving);
    let moved: Vec<Duration> = {
        let moved = during.iter().filter(|(key, _)| moves(key));
        moved.map(|(_, wait)| *wait).collect()
    };
    let of_last = arrived.iter().filter(|arrival| arrival.number >= last_pass);
    Seen {
        state_bytes: of_last.map(|arrival| arrival.kept).sum(),
        moved_keys: moved.len(),
        took,
        wait: percentile(moved.iter().copied(), 99),
        longest: percentile(moved.iter().copied(), 100),
        others_before: longest(waits(&(before..times.before.end)), &|key| !moves(key)),
        joining: longest(waits(&times.joining), &|_| true),
        others: longest(during, &|key| !moves(key)),
        others_usual_before: usual(&(before..times.before.end)),
        others_usual: usual(&times.moving),
    }
}
