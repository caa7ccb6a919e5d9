//! Buckets that move under load: nothing is lost, doubled or out of order, and the check would notice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Broker, SystemClock};
use bus::engines::EmbeddedBus;
use journal::{Options, testing::MemoryStorage};
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Headers, Message, StageAddress};
use parking_lot::Mutex;

use crate::key::{BUCKETS, bucket_of};
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::spec::{Delivery, StageKind, StageSpec};

const SENDERS: u64 = 4;
const KEYS_EACH: u64 = 12;
const WORKERS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// What came out of the stage: key, number, and how many of the key its state had counted then.
type Came = Arc<Mutex<Vec<(u64, u64, u64)>>>;

/// Counts each key in its state and hands on what it got. Some messages fail the first time.
struct Counting {
    failed: Arc<Mutex<HashMap<(u64, u64), ()>>>,
    fails_each: u64,
}

#[async_trait]
impl Worker for Counting {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let (key, number) = read(&incoming.message)?;
        let fails = self.fails_each > 0 && number % self.fails_each == self.fails_each - 1;
        if fails && self.failed.lock().insert((key, number), ()).is_none() {
            return Err(Failure::new("the first time it fails"));
        }
        let state = key.to_be_bytes();
        let before = match turn.state(&state).await? {
            Some(before) => u64::from_be_bytes(before[..].try_into()?),
            None => 0,
        };
        let total = before + 1;
        turn.set_state(state.to_vec(), total.to_be_bytes().to_vec())?;
        let came = format!("{key}:{number}:{total}");
        turn.emit("out", Message::new(came))
    }
}

struct Sink(Came);

#[async_trait]
impl Worker for Sink {
    async fn receive(&mut self, incoming: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        let mut parts = body.split(':').map(|part| part.parse::<u64>());
        let mut next = || {
            parts
                .next()
                .and_then(Result::ok)
                .ok_or_else(|| Failure::new("a part is missing"))
        };
        self.0.lock().push((next()?, next()?, next()?));
        Ok(())
    }
}

fn read(message: &Message) -> Result<(u64, u64), Failure> {
    let key = message.headers.get("key").unwrap_or_default().parse()?;
    Ok((key, std::str::from_utf8(&message.body)?.parse()?))
}

fn message(key: u64, number: u64) -> Message {
    let headers = Headers::from_pairs([("key", key.to_string().as_str())]).unwrap();
    Message::new(number.to_string()).with_headers(headers)
}

/// Every key must have come in order, each number once, with the state that it found.
fn check(came: &[(u64, u64, u64)], sent: &HashMap<u64, u64>) -> Result<(), String> {
    let mut next: HashMap<u64, u64> = HashMap::new();
    for (key, number, total) in came {
        let expected = next.entry(*key).or_default();
        if number != expected {
            return Err(format!("key {key}: {number} came instead of {expected}"));
        }
        *expected += 1;
        if total != expected {
            return Err(format!("key {key}: its state was {total} after {number}"));
        }
    }
    match sent.iter().find(|(key, sent)| next.get(key) != Some(sent)) {
        None => Ok(()),
        Some((key, sent)) => Err(format!("key {key}: {:?} of {sent} came", next.get(key))),
    }
}

struct Rig {
    runtime: Arc<Runtime>,
    stage: StageAddress,
    came: Came,
    is_over: Arc<AtomicBool>,
}

impl Rig {
    async fn new(delivery: Delivery, fails_each: u64) -> Self {
        let (broker, _) = Broker::start(
            Arc::new(MemoryStorage::new(1)),
            Options::default(),
            broker::Settings::default(),
            Arc::new(SystemClock),
        )
        .unwrap();
        let bus = Arc::new(EmbeddedBus::new(broker));
        let runtime = Runtime::start(bus, Settings::default(), Arc::new(SystemClock));
        let came = Came::default();
        let sink: StageAddress = "m/sink".parse().unwrap();
        let to = came.clone();
        let code: Arc<dyn Code> = native("sink", "1", move |_| Sink(to.clone()));
        let spec = StageSpec::new(sink.clone()).delivery(Delivery::Memory);
        runtime.deploy(spec, code).await.unwrap();
        let stage: StageAddress = "m/counting".parse().unwrap();
        let mut spec = StageSpec::new(stage.clone())
            .kind(StageKind::Keyed("header:key".parse().unwrap()))
            .delivery(delivery)
            .workers(WORKERS)
            .output("out", sink);
        spec.intake.mailbox_messages_max = 256;
        spec.supervision.restarts_max = 1_000_000;
        spec.supervision.backoff_ms_min = 1;
        spec.supervision.backoff_ms_max = 2;
        let failed = Arc::<Mutex<HashMap<_, _>>>::default();
        let code = native("counting", "1", move |_| Counting {
            failed: failed.clone(),
            fails_each,
        });
        runtime.deploy(spec, code).await.unwrap();
        Self {
            runtime,
            stage,
            came,
            is_over: Arc::default(),
        }
    }

    /// Sends until told to stop; how many of each key were sent.
    fn senders(&self) -> Vec<tokio::task::JoinHandle<HashMap<u64, u64>>> {
        let sender = |first: u64| {
            let (runtime, is_over) = (self.runtime.clone(), self.is_over.clone());
            let to = self.stage.clone().into();
            tokio::spawn(async move {
                let mut sent = HashMap::new();
                let keys = first..first + KEYS_EACH;
                for key in keys.cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = sent.entry(key).or_default();
                    runtime.send(&to, message(key, *number)).await.unwrap();
                    *number += 1;
                }
                sent
            })
        };
        (0..SENDERS).map(|n| sender(n * KEYS_EACH)).collect()
    }

    /// Ends the senders and waits until as much came as was sent, or nothing more comes.
    async fn finish(
        &self,
        senders: Vec<tokio::task::JoinHandle<HashMap<u64, u64>>>,
    ) -> Result<(), String> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut sent = HashMap::new();
        for sender in senders {
            sent.extend(sender.await.unwrap());
        }
        let all: u64 = sent.values().sum();
        let deadline = Instant::now() + PATIENCE;
        while (self.came.lock().len() as u64) < all && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        check(&self.came.lock(), &sent)
    }
}

/// A bucket that some key has.
fn used_bucket() -> u32 {
    let key = fastrand::u64(0..SENDERS * KEYS_EACH);
    bucket_of(key.to_string().as_bytes())
}

async fn move_under_load(rig: &Rig, moves: u64) -> Result<(), String> {
    let senders = rig.senders();
    let mut moved = 0;
    while moved < moves {
        let (bucket, to) = (used_bucket(), fastrand::u32(0..WORKERS));
        rig.runtime
            .move_bucket(&rig.stage, bucket, to)
            .await
            .unwrap();
        moved = rig.runtime.stage(&rig.stage).unwrap().moves.moves;
    }
    rig.finish(senders).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_moves_in_memory_lose_double_and_reorder_nothing() {
    let rig = Rig::new(Delivery::Memory, 0).await;
    move_under_load(&rig, 10_000).await.unwrap();
    let moves = rig.runtime.stage(&rig.stage).unwrap().moves;
    assert!(moves.moves >= 10_000);
    println!("pauses of moved buckets: {moves:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_moves_of_durable_buckets_lose_double_and_reorder_nothing() {
    let rig = Rig::new(Delivery::Durable, 0).await;
    move_under_load(&rig, 500).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_while_workers_fail_and_try_again_lose_double_and_reorder_nothing() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        let rig = Rig::new(delivery, 40).await;
        move_under_load(&rig, 300).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_and_shrinking_all_the_time_loses_doubles_and_reorders_nothing() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        let rig = Rig::new(delivery, 0).await;
        let senders = rig.senders();
        for workers in [1, 7, 2, 12, 3, 128, 4, 1, 5] {
            rig.runtime.scale(&rig.stage, workers).await.unwrap();
            let view = rig.runtime.stage(&rig.stage).unwrap();
            assert_eq!(view.workers_count, workers);
        }
        rig.finish(senders).await.unwrap();
    }
}

/// The control: a move that does not ask the old owner for what it has. The check must notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_leaves_messages_behind_is_noticed() {
    for _ in 0..20 {
        let rig = Rig::new(Delivery::Memory, 0).await;
        let stage = rig.runtime.stage_itself(&rig.stage).unwrap();
        let senders = rig.senders();
        // However busy the machine is, many messages come meanwhile.
        while rig.came.lock().len() < 20_000 {
            stage.move_bucket_wrongly(used_bucket(), fastrand::u32(0..WORKERS));
            tokio::task::yield_now().await;
        }
        if rig.finish(senders).await.is_err() {
            return;
        }
    }
    panic!("messages were overtaken, and nobody noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_that_nobody_waits_for_any_more_lose_double_and_reorder_nothing() {
    let rig = Rig::new(Delivery::Memory, 0).await;
    let senders = rig.senders();
    for _ in 0..2_000 {
        let (bucket, to) = (used_bucket(), fastrand::u32(0..WORKERS));
        let moving = rig.runtime.move_bucket(&rig.stage, bucket, to);
        // The worker is asked, and whoever wanted it goes away.
        let _ = futures_lite::future::poll_once(moving).await;
        tokio::task::yield_now().await;
    }
    rig.finish(senders).await.unwrap();
    let stage = rig.runtime.stage_itself(&rig.stage).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !stage.moves.read().on_their_way().is_empty() {
        assert!(Instant::now() < deadline, "a bucket does not arrive");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_is_stopped_or_replaced_in_the_middle_of_moves_loses_nothing() {
    let rig = Rig::new(Delivery::Memory, 0).await;
    let senders = rig.senders();
    let (runtime, stage, is_over) = (rig.runtime.clone(), rig.stage.clone(), rig.is_over.clone());
    let mover = tokio::spawn(async move {
        while !is_over.load(Ordering::Relaxed) {
            let to = fastrand::u32(0..WORKERS);
            let _ = runtime.move_bucket(&stage, used_bucket(), to).await;
        }
    });
    for version in 2..12 {
        let spec = rig.runtime.stage(&rig.stage).unwrap().spec;
        let failed = Arc::<Mutex<HashMap<_, _>>>::default();
        let code = native("counting", &version.to_string(), move |_| Counting {
            failed: failed.clone(),
            fails_each: 0,
        });
        rig.runtime.deploy(spec, code).await.unwrap();
    }
    rig.finish(senders).await.unwrap();
    mover.await.unwrap();
    // Stopped in the middle: everybody who moves gets an answer.
    let (runtime, stage) = (rig.runtime.clone(), rig.stage.clone());
    let mover = tokio::spawn(async move {
        loop {
            let to = fastrand::u32(0..WORKERS);
            if runtime
                .move_bucket(&stage, fastrand::u32(0..BUCKETS), to)
                .await
                .is_err()
            {
                return;
            }
        }
    });
    let target = crate::StopTarget::Stage(rig.stage.clone());
    rig.runtime.stop(&target).await.unwrap();
    tokio::time::timeout(PATIENCE, mover)
        .await
        .unwrap()
        .unwrap();
}
