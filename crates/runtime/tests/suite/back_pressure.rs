//! A durable stage that emits to stages in memory waits for room there, also where these lead back to its queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Code, Failure, Incoming, Kind, Turn, Worker, native};
use kernel::{Address, Headers, Message};
use runtime::{Delivery, StageKind, StageSpec};

use crate::rig::*;

/// So many messages wait for one worker at most.
const MAILBOX: u32 = 8;
/// So many are handled at once.
const BATCH: u32 = 4;

fn small(mut spec: StageSpec) -> StageSpec {
    spec.intake.mailbox_messages_max = MAILBOX;
    spec.intake.batch_messages_max = BATCH;
    spec
}

fn memory(name: &str, workers: u32, to: Option<&str>) -> StageSpec {
    let memory = small(spec(name))
        .delivery(Delivery::Memory)
        .workers(workers);
    match to {
        Some(to) => memory.output("out", stage(to)),
        None => memory,
    }
}

fn keyed(to: &str) -> StageSpec {
    small(spec("p/keyed"))
        .kind(StageKind::Keyed("header:key".parse().unwrap()))
        .workers(2)
        .output("out", stage(to))
}

fn message(key: usize, body: &str) -> Message {
    let key = format!("k{key}");
    let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
    Message::new(body.to_owned()).with_headers(headers)
}

/// Passes messages on as they are.
fn passes() -> Arc<dyn Code> {
    does("1", |incoming, turn| {
        turn.emit("out", incoming.message.clone())
    })
}

/// Handles nothing while it is held.
struct Gate {
    is_held: Arc<AtomicBool>,
    passed: Arc<AtomicUsize>,
}

#[async_trait]
impl Worker for Gate {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        while self.is_held.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_finds_no_room_in_memory_waits_in_the_durable_queue() {
    const MESSAGES: usize = 5_000;
    let rig = Rig::new();
    let (is_held, passed) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let (held, through) = (is_held.clone(), Arc::clone(&passed));
    let gate = native("gate", "1", move |_| Gate {
        is_held: held.clone(),
        passed: Arc::clone(&through),
    });
    let mut end = memory("p/end", 1, None);
    end.instance_limits.call_ms_max = 60_000;
    rig.deploy(end, gate).await;
    rig.deploy(keyed("p/end"), passes()).await;
    let to: Address = "p/keyed".parse().unwrap();
    for number in 0..MESSAGES {
        let sent = rig.runtime.send(&to, message(number % 50, "x")).await;
        sent.unwrap();
    }
    let turns = || rig.runtime.stage(&stage("p/keyed")).unwrap().turns;
    // It has stood still for a while.
    let (mut last, mut since) = (0, Instant::now());
    while last == 0 || since.elapsed() < Duration::from_millis(500) {
        let now = turns();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // In the mailbox, in the turn, and of each worker what its 32 commits under way may hold.
    let most = u64::from(MAILBOX + BATCH + 2 * 34 * BATCH);
    assert!(last <= most, "{last} turns although nobody took anything");
    let waiting = rig.runtime.stage(&stage("p/end")).unwrap().waiting;
    assert!(waiting <= u64::from(MAILBOX), "{waiting} wait");
    is_held.store(false, Ordering::Release);
    until("all pass", || async {
        passed.load(Ordering::Relaxed) == MESSAGES
    })
    .await;
}

/// Sends what comes round again until its rounds are over, and begins with many at once when it is woken or a timer goes off.
struct Round {
    passes: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

/// How many each begin makes, and how often each of them goes round.
const BURST: usize = 100;
const ROUNDS: usize = 15;
const BEGINS: usize = 64;
const EVENTS: usize = BEGINS * BURST * (ROUNDS + 1);

#[async_trait]
impl Worker for Round {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        match &incoming.kind {
            Kind::Message => {}
            _ => return burst(turn).await,
        }
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        match body.split_once(' ') {
            Some(("wake", key)) => {
                turn.set_state("key", key.to_owned())?;
                let waker = turn.waker();
                tokio::spawn(async move { waker.wake() });
            }
            Some((_, key)) => {
                turn.set_state("key", key.to_owned())?;
                turn.set_timer("begin", Duration::from_millis(1), Bytes::new())?;
            }
            None => {
                self.passes.fetch_add(1, Ordering::Relaxed);
                match body.parse::<usize>()? {
                    1 => {
                        self.ended.fetch_add(1, Ordering::Relaxed);
                    }
                    left => {
                        let next = Message::new((left - 1).to_string());
                        let next = next.with_headers(incoming.message.headers.clone());
                        turn.emit("out", next)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Begins once: a bucket may have several keys, and so several begins.
async fn burst(turn: &mut Turn) -> Result<(), Failure> {
    let Some(key) = turn.state(b"key").await? else {
        return Ok(());
    };
    turn.remove_state("key")?;
    let key: usize = String::from_utf8(key.to_vec())?.parse()?;
    for _ in 0..BURST {
        turn.emit("out", message(key, &(ROUNDS + 1).to_string()))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_through_a_durable_queue_holds_its_bounds_and_never_stands() {
    let rig = Rig::new();
    let (passes_count, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let round = {
        let (passes, ended) = (passes_count.clone(), ended.clone());
        native("round", "1", move |_| Round {
            passes: passes.clone(),
            ended: ended.clone(),
        })
    };
    rig.deploy(memory("p/second", 2, Some("p/keyed")), passes())
        .await;
    rig.deploy(memory("p/first", 3, Some("p/second")), passes())
        .await;
    rig.deploy(keyed("p/first"), round).await;
    // One key for each of some buckets, so that each bucket begins once.
    let mut keys: Vec<usize> = Vec::new();
    let mut buckets = std::collections::HashSet::new();
    for key in 0.. {
        if buckets.insert(runtime::bucket_of(format!("k{key}").as_bytes())) {
            keys.push(key);
        }
        if keys.len() == BEGINS {
            break;
        }
    }
    let to: Address = "p/keyed".parse().unwrap();
    for (number, key) in keys.iter().enumerate() {
        let how = if number % 2 == 0 { "wake" } else { "timer" };
        let begin = message(*key, &format!("{how} {key}"));
        rig.runtime.send(&to, begin).await.unwrap();
    }
    let mut most = [0; 2];
    let deadline = Instant::now() + Duration::from_secs(240);
    let (mut last, mut moved_at) = (0, Instant::now());
    while ended.load(Ordering::Relaxed) < BEGINS * BURST {
        for (most, name) in most.iter_mut().zip(["p/first", "p/second"]) {
            let view = rig.runtime.stage(&stage(name)).unwrap();
            *most = view.waiting.max(*most);
            assert_eq!(view.stands, None, "{name} stands");
        }
        let now = passes_count.load(Ordering::Relaxed);
        if now != last {
            (last, moved_at) = (now, Instant::now());
        }
        assert!(
            moved_at.elapsed() < PATIENCE,
            "it stands after {now} of {EVENTS}"
        );
        assert!(Instant::now() < deadline, "only {now} of {EVENTS}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(passes_count.load(Ordering::Relaxed), EVENTS);
    assert!(most[0] > 0, "nobody looked");
    let bounds = [3, 2].map(|workers| u64::from(workers * MAILBOX));
    assert!(
        most[0] <= bounds[0] && most[1] <= bounds[1],
        "{most:?} waited"
    );
}
