//! Workers that are woken from outside a turn, or because they begin anew in the middle of something.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker::SystemClock;
use bytes::Bytes;
use kernel::worker::{Code, Failure, Incoming, Kind, Start, Turn, Wake, Worker, native};
use kernel::{Address, Headers, Message};
use runtime::{Delivery, OnFailure, Part, Runtime, Settings, StageKind, StageSpec, bucket_of};

use crate::rig::*;
use crate::slow_commits::{Fault, SlowBus};

const HOUR: Duration = Duration::from_secs(3_600);

/// What workers saw, and what they gave to the test.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<SeenList>>);

#[derive(Default)]
struct SeenList {
    /// Who was woken, and what its scope had in its state.
    woken: Vec<(u32, String)>,
    wakers: Vec<Arc<dyn Wake>>,
    fails: u32,
}

impl Seen {
    fn woken(&self) -> Vec<(u32, String)> {
        self.0.lock().unwrap().woken.clone()
    }

    fn waker(&self, number: usize) -> Arc<dyn Wake> {
        self.0.lock().unwrap().wakers[number].clone()
    }

    async fn until_woken(&self, times: usize) {
        until("it is woken", || async { self.woken().len() == times }).await;
    }

    /// Nothing comes that should not: what would come is told before the answer to a question.
    async fn stays(&self, rig: &Rig, to: &str, times: usize) {
        rig.ask(to, "ping").await;
        assert_eq!(self.woken().len(), times, "{:?}", self.woken());
    }
}

/// Does what its messages say and tells when it is woken.
struct Sleeper {
    worker: u32,
    seen: Seen,
}

#[async_trait]
impl Worker for Sleeper {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        if incoming.kind == Kind::Woken {
            return self.woken(turn).await;
        }
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        match body.split_once(' ').unwrap_or((&body, "")) {
            ("keep", what) => turn.set_state("kept", what.to_owned())?,
            ("waker", _) => self.seen.0.lock().unwrap().wakers.push(turn.waker()),
            ("timer", _) => turn.set_timer("later", HOUR, Bytes::new())?,
            ("work", what) => {
                let (waker, what) = (turn.waker(), what.to_owned());
                turn.set_state("kept", what)?;
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    waker.wake();
                });
            }
            ("block", ms) => tokio::time::sleep(Duration::from_millis(ms.parse()?)).await,
            ("fail", _) => return Err(Failure::new("told to")),
            _ => {}
        }
        match incoming.expects_reply() {
            true => turn.reply(incoming, Message::new("done")),
            false => Ok(()),
        }
    }
}

impl Sleeper {
    async fn woken(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        let kept = turn.state(b"kept").await?.unwrap_or_default();
        let kept = String::from_utf8(kept.to_vec())?;
        let mut seen = self.seen.0.lock().unwrap();
        seen.woken.push((self.worker, kept.clone()));
        if seen.fails > 0 {
            seen.fails -= 1;
            return Err(Failure::new("not yet"));
        }
        drop(seen);
        turn.emit("out", Message::new(kept))
    }
}

fn sleeper(seen: &Seen) -> Arc<dyn Code> {
    let seen = seen.clone();
    native("sleeper", "1", move |start: &Start| Sleeper {
        worker: start.address.worker(),
        seen: seen.clone(),
    })
}

fn pool() -> StageSpec {
    spec("a/sleeper").workers(1)
}

fn keyed() -> StageSpec {
    pool().kind(StageKind::Keyed("header:key".parse().unwrap()))
}

async fn ask_key(runtime: &Runtime, key: &str, body: &str) {
    let headers = Headers::from_pairs([("key", key)]).unwrap();
    let message = Message::new(body.to_owned()).with_headers(headers);
    let to: Address = "a/sleeper".parse().unwrap();
    runtime.ask(&to, message, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_wakes_the_worker_that_began_it() {
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let (rig, seen) = (Rig::new(), Seen::default());
        let out: Address = "queue:woken".parse().unwrap();
        let spec = pool().delivery(delivery).output("out", out);
        rig.deploy(spec, sleeper(&seen)).await;
        rig.send("a/sleeper", "work hard").await;
        assert_eq!(text(&rig.take("woken", 1).await[0].message), "hard");
        assert_eq!(seen.woken(), [(0, "hard".to_owned())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wakes_that_come_before_the_turn_are_one_for_each_scope() {
    let (rig, seen) = (Rig::new(), Seen::default());
    rig.deploy(keyed(), sleeper(&seen)).await;
    for key in ["one", "other"] {
        ask_key(&rig.runtime, key, &format!("keep {key}")).await;
        ask_key(&rig.runtime, key, "waker").await;
    }
    let blocked = ask_key(&rig.runtime, "third", "block 300");
    let wakes = async {
        let state = || async { rig.runtime.workers(&stage("a/sleeper"), 0, 1).unwrap()[0].state };
        until("the worker is busy", || async {
            state().await == runtime::WorkerState::Busy
        })
        .await;
        for number in 0..200 {
            seen.waker(number % 2).wake();
        }
    };
    tokio::join!(blocked, wakes);
    seen.until_woken(2).await;
    ask_key(&rig.runtime, "third", "ping").await;
    let mut woken = seen.woken();
    woken.sort();
    assert_eq!(woken, [(0, "one".to_owned()), (0, "other".to_owned())]);
    // Apart from each other they are not one.
    for times in 3..6 {
        seen.waker(0).wake();
        seen.until_woken(times).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn being_woken_costs_no_commit_as_long_as_nothing_leaves_the_process() {
    let (rig, seen) = (Rig::new(), Seen::default());
    let bus = SlowBus::new(&rig.bus, Duration::ZERO, &[]);
    let node = Runtime::start(bus.clone(), Settings::default(), Arc::new(SystemClock));
    let arrived: Arc<Mutex<u32>> = Arc::default();
    let counted = arrived.clone();
    let counts = does("1", move |_, _| {
        *counted.lock().unwrap() += 1;
        Ok(())
    });
    let memory = spec("a/memory").delivery(Delivery::Memory);
    node.deploy(memory, counts).await.unwrap();
    for outputs in [false, true] {
        let spec = match outputs {
            false => keyed(),
            true => keyed().output("out", stage("a/memory")),
        };
        node.deploy(spec, sleeper(&seen)).await.unwrap();
        ask_key(&node, "one", "waker").await;
        let commits = bus.commits.load(Ordering::Relaxed);
        assert!(commits > 0, "the control: a message costs a commit");
        let before = seen.woken().len();
        for times in 1..=10 {
            seen.waker(0).wake();
            seen.until_woken(before + times).await;
        }
        assert_eq!(bus.commits.load(Ordering::Relaxed), commits);
    }
    until("they arrive", || async { *arrived.lock().unwrap() == 10 }).await;
    assert_eq!(bus.commits.load(Ordering::Relaxed), 2, "one per question");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_takes_along_what_was_to_wake_its_worker() {
    let (rig, seen) = (Rig::new(), Seen::default());
    rig.deploy(keyed().workers(2), sleeper(&seen)).await;
    let address = stage("a/sleeper");
    let (moved, other) = ("one", "other");
    let bucket = bucket_of(moved.as_bytes());
    for key in [moved, other] {
        rig.runtime
            .move_bucket(&address, bucket_of(key.as_bytes()), 0)
            .await
            .unwrap();
    }
    ask_key(&rig.runtime, moved, "keep moved").await;
    ask_key(&rig.runtime, moved, "waker").await;
    let blocked = ask_key(&rig.runtime, other, "block 300");
    let wakes = async {
        until("the worker is busy", || async {
            let workers = rig.runtime.workers(&address, 0, 1).unwrap();
            workers[0].state == runtime::WorkerState::Busy
        })
        .await;
        seen.waker(0).wake();
        rig.runtime.move_bucket(&address, bucket, 1).await.unwrap();
    };
    tokio::join!(blocked, wakes);
    seen.until_woken(1).await;
    assert_eq!(seen.woken(), [(1, "moved".to_owned())]);
    // The waker finds it there.
    seen.waker(0).wake();
    seen.until_woken(2).await;
    // A bucket with timers wakes whoever gets it.
    ask_key(&rig.runtime, moved, "timer").await;
    rig.runtime.move_bucket(&address, bucket, 0).await.unwrap();
    seen.until_woken(3).await;
    assert_eq!(seen.woken()[2], (0, "moved".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_woke_a_stage_that_was_rebuilt_or_stopped_wakes_nobody() {
    let (rig, seen) = (Rig::new(), Seen::default());
    rig.deploy(pool(), sleeper(&seen)).await;
    rig.ask("a/sleeper", "waker").await;
    seen.waker(0).wake();
    seen.until_woken(1).await;
    rig.deploy(pool().delivery(Delivery::Memory), sleeper(&seen))
        .await;
    seen.waker(0).wake();
    seen.stays(&rig, "a/sleeper", 1).await;
    rig.ask("a/sleeper", "waker").await;
    seen.waker(1).wake();
    seen.until_woken(2).await;
    let target = runtime::StopTarget::Stage(stage("a/sleeper"));
    rig.runtime.stop(&target).await.unwrap();
    seen.waker(1).wake();
    rig.deploy(pool(), sleeper(&seen)).await;
    seen.stays(&rig, "a/sleeper", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_fails_when_woken_begins_anew_and_is_woken_again_if_it_has_timers() {
    for (timer, fails, woken) in [(false, 1, 1), (true, 3, 4)] {
        let (rig, seen) = (Rig::new(), Seen::default());
        rig.deploy(pool(), sleeper(&seen)).await;
        rig.ask("a/sleeper", "waker").await;
        if timer {
            rig.ask("a/sleeper", "timer").await;
        }
        seen.0.lock().unwrap().fails = fails;
        seen.waker(0).wake();
        seen.until_woken(woken).await;
        seen.stays(&rig, "a/sleeper", woken).await;
        let view = rig.runtime.stage(&stage("a/sleeper")).unwrap();
        let fails = u64::from(fails);
        assert_eq!((view.failures, view.restarts, view.dead), (fails, fails, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_goes_on_after_a_failure_is_not_woken_again() {
    let (rig, seen) = (Rig::new(), Seen::default());
    let mut spec = pool();
    spec.supervision.on_failure = OnFailure::Resume;
    rig.deploy(spec, sleeper(&seen)).await;
    rig.ask("a/sleeper", "waker").await;
    rig.ask("a/sleeper", "timer").await;
    seen.0.lock().unwrap().fails = 1;
    seen.waker(0).wake();
    seen.until_woken(1).await;
    seen.stays(&rig, "a/sleeper", 1).await;
    assert_eq!(rig.runtime.stage(&stage("a/sleeper")).unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_fails_is_woken_for_all_buckets_that_have_timers() {
    let (rig, seen) = (Rig::new(), Seen::default());
    rig.deploy(keyed(), sleeper(&seen)).await;
    for key in ["one", "other", "third"] {
        ask_key(&rig.runtime, key, &format!("keep {key}")).await;
    }
    ask_key(&rig.runtime, "one", "timer").await;
    ask_key(&rig.runtime, "other", "timer").await;
    assert_eq!(seen.woken(), []);
    let headers = Headers::from_pairs([("key", "third")]).unwrap();
    let poison = Message::new("fail").with_headers(headers);
    let to: Address = "a/sleeper".parse().unwrap();
    rig.runtime.send(&to, poison).await.unwrap();
    rig.take(bus::DEAD_LETTERS, 1).await;
    // They wait behind what failed, which has several tries; so they may be one or several.
    let is_woken = |name: &str| seen.woken().iter().any(|(_, kept)| kept == name);
    until("both are woken", || async {
        is_woken("one") && is_woken("other")
    })
    .await;
    assert!(!is_woken("third"), "it has no timers");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_timers_is_woken_when_the_process_is_back() {
    let seen = Seen::default();
    let rig = Rig::new();
    rig.deploy(keyed().workers(3), sleeper(&seen)).await;
    for key in 0..20 {
        ask_key(&rig.runtime, &key.to_string(), &format!("keep {key}")).await;
    }
    let buckets: std::collections::BTreeSet<u32> = (0..10)
        .map(|key: u32| bucket_of(key.to_string().as_bytes()))
        .collect();
    for key in 0..10 {
        ask_key(&rig.runtime, &key.to_string(), "timer").await;
    }
    assert_eq!(seen.woken(), []);
    let rig = rig.restarted().await;
    // Workers beyond the first get their instances only when something comes for them.
    rig.deploy(keyed().workers(3), sleeper(&seen)).await;
    seen.until_woken(buckets.len()).await;
    ask_key(&rig.runtime, "0", "ping").await;
    assert_eq!(seen.woken().len(), buckets.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_without_instances_are_woken_when_the_process_is_back() {
    let seen = Seen::default();
    let rig = Rig::new();
    rig.deploy(pool().workers(4), sleeper(&seen)).await;
    rig.ask("a/sleeper/3", "timer").await;
    rig.runtime.shutdown(PATIENCE).await;
    let settings = Settings {
        eager_workers_max: 1,
        ..Settings::default()
    };
    let next = Runtime::start(rig.bus.clone(), settings, Arc::new(SystemClock));
    next.deploy(pool().workers(4), sleeper(&seen))
        .await
        .unwrap();
    seen.until_woken(1).await;
    assert_eq!(seen.woken()[0].0, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_a_part_with_timers_is_woken_and_whoever_lost_it_is_not() {
    let rig = Rig::new();
    let (seen, elsewhere) = (Seen::default(), Seen::default());
    let node = || Runtime::start(rig.bus.clone(), Settings::default(), Arc::new(SystemClock));
    let (first, second) = (node(), node());
    for (node, seen) in [(&first, &seen), (&second, &elsewhere)] {
        let shared = node.deploy_shared(keyed(), sleeper(seen), None);
        shared.await.unwrap();
    }
    let address = stage("a/sleeper");
    let part = Part::Bucket(bucket_of(b"one"));
    first.take(&address, part).await.unwrap();
    ask_key(&first, "one", "keep it").await;
    ask_key(&first, "one", "timer").await;
    ask_key(&first, "one", "waker").await;
    seen.waker(0).wake();
    seen.until_woken(1).await;
    first.release(&address, part).await.unwrap();
    seen.waker(0).wake();
    second.take(&address, part).await.unwrap();
    elsewhere.until_woken(1).await;
    assert_eq!(elsewhere.woken(), [(0, "it".to_owned())]);
    seen.waker(0).wake();
    ask_key(&second, "one", "ping").await;
    assert_eq!((seen.woken().len(), elsewhere.woken().len()), (1, 1));
}

/// Emits what it was told once its timer has gone off.
struct Once;

#[async_trait]
impl Worker for Once {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        match &incoming.kind {
            Kind::Message => {
                turn.set_timer("soon", Duration::from_millis(1), Bytes::new())?;
                turn.set_state("waits", incoming.message.body.clone())
            }
            Kind::Timer(_) => {
                let Some(key) = turn.state(b"waits").await? else {
                    return Ok(());
                };
                turn.remove_state("waits")?;
                turn.emit("out", Message::new(key))
            }
            _ => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_turn_may_not_have_been_committed_goes_off_again() {
    const BUCKETS: usize = 60;
    let rig = Rig::new();
    let faults = [Fault::InDoubt, Fault::InDoubtDone];
    let bus = SlowBus::new(&rig.bus, Duration::ZERO, &faults);
    let node = Runtime::start(bus, Settings::default(), Arc::new(SystemClock));
    let out: Address = "queue:fired".parse().unwrap();
    let code = native("once", "1", |_| Once);
    let spec = keyed().output("out", out);
    // Where a commit can fail, nodes share their stages: so subscribers take turns.
    node.deploy_shared(spec, code, None).await.unwrap();
    let address = stage("a/sleeper");
    for part in node.parts(&address) {
        node.take(&address, part).await.unwrap();
    }
    let mut buckets = std::collections::BTreeSet::new();
    let mut keys = (0..).map(|key: u32| key.to_string());
    let to: Address = address.into();
    while buckets.len() < BUCKETS {
        let key = keys.next().unwrap();
        if buckets.insert(bucket_of(key.as_bytes())) {
            let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
            let message = Message::new(key).with_headers(headers);
            node.send(&to, message).await.unwrap();
        }
    }
    let fired = rig.take("fired", BUCKETS).await;
    let fired: std::collections::BTreeSet<_> = fired.iter().map(|d| text(&d.message)).collect();
    assert_eq!(fired.len(), BUCKETS, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_keys_are_read_at_once_and_with_what_the_turn_wrote() {
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let rig = Rig::new();
        let code = native("reader", "1", |_| Reader);
        rig.deploy(spec("a/reader").delivery(delivery), code).await;
        assert_eq!(rig.ask("a/reader", "write").await, "1,-,new,-");
        assert_eq!(rig.ask("a/reader", "read").await, "1,2,-,-");
    }
}

/// Writes and reads several keys.
struct Reader;

#[async_trait]
impl Worker for Reader {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        if &incoming.message.body[..] == b"write" {
            turn.set_state("one", "1")?;
            turn.set_state("three", "new")?;
        }
        let values = turn.states(&["one", "two", "three", "four"]).await?;
        let text = |value: &Option<Bytes>| match value {
            Some(value) => String::from_utf8_lossy(value).into_owned(),
            None => "-".into(),
        };
        let texts: Vec<String> = values.iter().map(text).collect();
        if &incoming.message.body[..] == b"write" {
            turn.set_state("two", "2")?;
            turn.remove_state("three")?;
        }
        turn.reply(incoming, Message::new(texts.join(",")))
    }
}
