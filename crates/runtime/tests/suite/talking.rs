//! Sending, asking, replying, emitting; state and restart.

use std::sync::{Arc, Barrier};

use async_trait::async_trait;
use kernel::Message;
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use runtime::Delivery;

use crate::rig::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_is_answered_whatever_the_delivery() {
    let rig = Rig::new();
    rig.deploy(spec("a/durable"), echo()).await;
    rig.deploy(spec("a/memory").delivery(Delivery::Memory), echo())
        .await;
    assert_eq!(rig.ask("a/durable", "one").await, "one");
    assert_eq!(rig.ask("a/memory", "two").await, "two");
    assert_eq!(rig.ask("a/memory/0", "three").await, "three");
    assert_eq!(rig.ask("a/durable/0", "four").await, "four");
}

/// How many read the queues for answers.
fn listening(rig: &Rig) -> usize {
    let queues = rig.broker.queues().into_iter();
    let of_answers = queues.filter(|(name, _)| name.as_str().starts_with("hivewire.waiting."));
    of_answers.map(|(_, stats)| stats.subscribers).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_listened_for_only_while_somebody_asks() {
    let rig = Rig::new();
    rig.deploy(spec("a/echo"), echo()).await;
    for body in ["one", "two"] {
        assert_eq!(listening(&rig), 0);
        // Over the bus, as another process would ask.
        assert_eq!(rig.ask("queue:a.echo", body).await, body);
        assert_eq!(listening(&rig), 1);
        until("nobody listens", || async { listening(&rig) == 0 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_lead_where_the_deployment_says() {
    let rig = Rig::new();
    let upper = does("1", |incoming, turn| {
        let text = String::from_utf8_lossy(&incoming.message.body).to_uppercase();
        turn.emit("out", Message::new(text))
    });
    let out = spec("a/upper").output("out", stage("a/lower"));
    rig.deploy(out, upper).await;
    let lower = does("1", |incoming, turn| {
        turn.emit("out", Message::new(incoming.message.body.clone()))
    });
    let to_queue: kernel::Address = "queue:results".parse().unwrap();
    rig.deploy(spec("a/lower").output("out", to_queue), lower)
        .await;
    for body in ["x", "y", "z"] {
        rig.send("a/upper", body).await;
    }
    let taken = rig.take("results", 3).await;
    let bodies: Vec<String> = taken.iter().map(|d| text(&d.message)).collect();
    assert_eq!(bodies, ["X", "Y", "Z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_survives_an_orderly_restart_of_everything() {
    let rig = Rig::new();
    rig.deploy(spec("a/count"), counter("1", "")).await;
    for n in 1..=3 {
        assert_eq!(rig.ask("a/count", "x").await, format!("{n}/{n}"));
    }
    let rig = rig.restarted().await;
    rig.deploy(spec("a/count"), counter("1", "")).await;
    assert_eq!(rig.ask("a/count", "x").await, "4/4");
    rig.runtime
        .restart(&stage("a/count"), None, true)
        .await
        .unwrap();
    assert_eq!(rig.ask("a/count", "x").await, "1/1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_takes_over_memory_and_state() {
    let rig = Rig::new();
    rig.deploy(spec("a/count"), counter("1", "one:")).await;
    for _ in 0..5 {
        rig.ask("a/count", "x").await;
    }
    rig.deploy(spec("a/count"), counter("2", "two:")).await;
    assert_eq!(rig.ask("a/count", "x").await, "two:6/6");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_culprit_of_a_batch_goes_to_the_dead_letters() {
    let rig = Rig::new();
    rig.deploy(spec("a/count"), counter("1", "")).await;
    for n in 0..50 {
        let body = match n {
            20 => "poison",
            40 => "panic",
            _ => "x",
        };
        rig.send("a/count", body).await;
    }
    let bucket = kernel::Name::new("a.count.0").unwrap();
    until("48 messages counted", || async {
        let count = rig.bus.state(&bucket, b"kcount", PATIENCE).await;
        count.unwrap().is_some_and(|count| &count[..] == b"48")
    })
    .await;
    let dead = rig.take(bus::DEAD_LETTERS, 2).await;
    let mut reasons: Vec<&str> = dead
        .iter()
        .map(|d| d.message.headers.get(Message::DEAD_REASON).unwrap())
        .collect();
    reasons.sort();
    assert!(reasons[0].contains("poisoned"), "{reasons:?}");
    assert!(reasons[1].contains("panicked: told to"), "{reasons:?}");
}

/// Blocks its thread at its start until enough others do so, too.
struct Blocking(Arc<Barrier>);

#[async_trait]
impl Worker for Blocking {
    async fn init(&mut self, _args: &[u8], _turn: &mut Turn) -> Result<(), Failure> {
        self.0.wait();
        Ok(())
    }

    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_slowly_holds_up_no_other() {
    let rig = Rig::new();
    let cores = std::thread::available_parallelism().unwrap().get();
    let workers = 2 * (cores + 2);
    // More must be at it at once than there are threads for turns.
    let barrier = Arc::new(Barrier::new(workers / 2));
    let blocking = native("blocking", "1", move |_| Blocking(barrier.clone()));
    let spec = spec("a/slow")
        .workers(workers as u32)
        .delivery(Delivery::Memory);
    let deployed = tokio::time::timeout(PATIENCE, rig.runtime.deploy(spec, blocking)).await;
    deployed.expect("they hold each other up").unwrap();
    let views = rig.runtime.workers(&stage("a/slow"), 0, workers).unwrap();
    assert_eq!(views.len(), workers);
}
