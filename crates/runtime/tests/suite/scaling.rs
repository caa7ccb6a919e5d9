//! Stages that find their number of workers by themselves, with real workers that are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Headers, Message};
use runtime::{
    Delivery, ScaleBy, ScaleChange, ScaleReason, ScaleRule, StageKind, StageSpec, StageView,
};

use crate::rig::*;

const FLOW_STAGE: &str = "s/slow";
/// Shrinking waits on purpose.
const LONG: Duration = Duration::from_secs(90);

/// Takes two milliseconds for each message, without a core.
struct Slow(Arc<AtomicU64>);

#[async_trait]
impl Worker for Slow {
    async fn receive(&mut self, _incoming: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn slow(done: &Arc<AtomicU64>) -> Arc<dyn Code> {
    let done = done.clone();
    native("slow", "1", move |_| Slow(done.clone()))
}

fn rule() -> ScaleRule {
    ScaleRule {
        max: 6,
        latency_ms_max: 40,
        probe_period_ms: 20,
        underload_periods: 20,
        ..ScaleRule::default()
    }
}

fn scaled(rule: ScaleRule, delivery: Delivery) -> StageSpec {
    let mut spec = spec(FLOW_STAGE).delivery(delivery);
    spec.scale = Some(rule);
    spec
}

fn message(number: u64) -> Message {
    let key = (number % 500).to_string();
    let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
    Message::new("x").with_headers(headers)
}

/// Messages at a rate, whatever becomes of them; it stops with the returned handle.
fn load(rig: &Rig, per_second: u64) -> tokio::task::JoinHandle<()> {
    let (runtime, to) = (rig.runtime.clone(), FLOW_STAGE.parse().unwrap());
    tokio::spawn(async move {
        let began = Instant::now();
        let mut sent = 0;
        loop {
            let due = (began.elapsed().as_secs_f64() * per_second as f64) as u64;
            while sent < due {
                runtime.send(&to, message(sent)).await.unwrap();
                sent += 1;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
}

fn view(rig: &Rig) -> StageView {
    rig.runtime.stage(&stage(FLOW_STAGE)).unwrap()
}

async fn until_long(what: &str, rig: &Rig, is_true: impl Fn(&StageView) -> bool) {
    let deadline = Instant::now() + LONG;
    loop {
        let view = view(rig);
        if is_true(&view) {
            return;
        }
        assert!(Instant::now() < deadline, "never: {what}: {view:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn keyed() -> StageKind {
    StageKind::Keyed("header:key".parse().unwrap())
}

async fn grows_and_shrinks(kind: StageKind, delivery: Delivery) {
    let rig = Rig::new();
    let done = Arc::<AtomicU64>::default();
    rig.deploy(scaled(rule(), delivery).kind(kind), slow(&done))
        .await;
    assert_eq!(view(&rig).workers_count, 1);
    let load = load(&rig, 700);
    until_long("it grows", &rig, |view| view.workers_count >= 2).await;
    until_long("what waited is gone", &rig, |view| {
        let scaling = view.scaling.as_ref().unwrap();
        scaling.depth < 100 && scaling.done_per_second > 400.0
    })
    .await;
    load.abort();
    until_long("it shrinks", &rig, |view| view.workers_count == 1).await;
    let decisions = rig.runtime.decisions(&stage(FLOW_STAGE)).unwrap();
    let grown = decisions.iter().find(|d| d.change == ScaleChange::Grow);
    let grown = grown.expect("it grew");
    assert!(grown.measured.service_per_second > 0.0, "{grown:?}");
    let achieved = grown.achieved.as_ref().expect("that was long ago");
    assert!(achieved.done_per_second >= 0.0);
    assert!(grown.explain().contains("It grew from 1"), "{grown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_grows_under_load_and_shrinks_when_it_is_gone() {
    grows_and_shrinks(StageKind::default(), Delivery::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_stage_grows_under_load_and_shrinks_when_it_is_gone() {
    grows_and_shrinks(keyed(), Delivery::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_keyed_stage_grows_under_load_and_shrinks_when_it_is_gone() {
    grows_and_shrinks(keyed(), Delivery::Durable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_at_its_maximum_slows_its_senders_and_nothing_grows() {
    let rig = Rig::new();
    let done = Arc::<AtomicU64>::default();
    let rule = ScaleRule { max: 2, ..rule() };
    rig.deploy(scaled(rule, Delivery::Memory), slow(&done))
        .await;
    let sent = Arc::<AtomicU64>::default();
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let (runtime, sent) = (rig.runtime.clone(), sent.clone());
            let to = FLOW_STAGE.parse().unwrap();
            tokio::spawn(async move {
                loop {
                    runtime.send(&to, message(1)).await.unwrap();
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let is_at_maximum = || async {
        let decisions = rig.runtime.decisions(&stage(FLOW_STAGE)).unwrap();
        decisions.iter().any(|d| d.reason == ScaleReason::AtMaximum)
    };
    until("it says that it is at its maximum", is_at_maximum).await;
    // Half of the latency at some hundred messages a second is a few messages, not the thousand of a mailbox.
    until_long("mailboxes are short", &rig, |view| view.waiting <= 100).await;
    for _ in 0..50 {
        let view = view(&rig);
        assert_eq!(view.workers_count, 2);
        assert!(view.waiting <= 100, "{} wait", view.waiting);
        let ahead = sent.load(Ordering::Relaxed) - done.load(Ordering::Relaxed);
        assert!(ahead < 1_000, "{ahead} are between senders and workers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    senders.iter().for_each(|sender| sender.abort());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_length_of_the_queue_can_be_the_rule() {
    let rig = Rig::new();
    let done = Arc::<AtomicU64>::default();
    let rule = ScaleRule {
        by: ScaleBy::QueueLength,
        queue_messages_max: 5,
        ..rule()
    };
    rig.deploy(scaled(rule, Delivery::Durable), slow(&done))
        .await;
    let load = load(&rig, 900);
    until_long("it grows", &rig, |view| view.workers_count >= 2).await;
    let decisions = rig.runtime.decisions(&stage(FLOW_STAGE)).unwrap();
    assert_eq!(decisions[0].reason, ScaleReason::LongQueue);
    load.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_keeps_the_size_that_was_found_and_another_number_is_obeyed() {
    let rig = Rig::new();
    let done = Arc::<AtomicU64>::default();
    let of = |workers| scaled(rule(), Delivery::Memory).workers(workers);
    rig.deploy(of(1), slow(&done)).await;
    rig.runtime.scale(&stage(FLOW_STAGE), 4).await.unwrap();
    rig.deploy(of(1), slow(&done)).await;
    assert_eq!(view(&rig).workers_count, 4);
    rig.deploy(of(5), slow(&done)).await;
    assert_eq!(view(&rig).workers_count, 5);
    let refused = rig.runtime.scale(&stage(FLOW_STAGE), 60).await.unwrap_err();
    assert!(refused.to_string().contains("1 to 6"), "{refused}");
    // Without the rule it has what it is told, and nobody measures any more.
    let mut plain = of(3);
    plain.scale = None;
    rig.deploy(plain, slow(&done)).await;
    let view = view(&rig);
    assert_eq!((view.workers_count, view.scaling), (3, None));
}
