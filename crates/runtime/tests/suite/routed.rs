//! Routed stages: broadcast, scatter-gather, tail-chopping, one's own.

use std::sync::Arc;
use std::time::Duration;

use kernel::worker::{Code, Failure, native};
use kernel::{Address, Message};
use runtime::{Delivery, Router, RouterKind, StageKind, StageSpec, Workers};

use crate::rig::*;

/// Answers with its own number; the one with the number `slow` never does.
fn numbered(slow: Option<u32>) -> Arc<dyn Code> {
    native("numbered", "1", move |start| {
        let number = start.address.worker();
        Does(move |incoming: &_, turn: &mut kernel::worker::Turn| {
            let incoming: &kernel::worker::Incoming = incoming;
            turn.emit("out", Message::new(number.to_string()))?;
            if incoming.expects_reply() && Some(number) != slow {
                turn.reply(incoming, Message::new(number.to_string()))?;
            }
            Ok(())
        })
    })
}

fn routed(kind: RouterKind, delivery: Delivery) -> StageSpec {
    let out: Address = "queue:got".parse().unwrap();
    spec("a/routed")
        .kind(StageKind::Routed(kind))
        .workers(3)
        .delivery(delivery)
        .output("out", out)
}

async fn numbers(rig: &Rig, count: usize) -> Vec<String> {
    let taken = rig.take("got", count).await;
    let mut numbers: Vec<String> = taken.iter().map(|d| text(&d.message)).collect();
    numbers.sort();
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn broadcast_reaches_every_worker_once() {
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let rig = Rig::new();
        rig.deploy(routed(RouterKind::Broadcast, delivery), numbered(None))
            .await;
        rig.send("a/routed", "x").await;
        assert_eq!(numbers(&rig, 3).await, ["0", "1", "2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scatter_gather_gives_the_first_answer() {
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let rig = Rig::new();
        rig.deploy(
            routed(RouterKind::ScatterGather, delivery),
            numbered(Some(0)),
        )
        .await;
        let answer = rig.ask("a/routed", "x").await;
        assert!(["1", "2"].contains(&answer.as_str()), "{answer}");
        assert_eq!(numbers(&rig, 3).await, ["0", "1", "2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_chopping_goes_on_to_the_next_worker() {
    let rig = Rig::new();
    let spec = routed(RouterKind::TailChopping, Delivery::Memory);
    rig.deploy(spec, numbered(Some(1))).await;
    for _ in 0..5 {
        let answer = rig.ask("a/routed", "x").await;
        assert!(["0", "2"].contains(&answer.as_str()), "{answer}");
    }
}

struct FirstLetter;

impl Router for FirstLetter {
    fn select(
        &self,
        message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        let letter = message.body.first().copied().unwrap_or_default();
        chosen.push(u32::from(letter) % workers.count());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_of_ones_own_decides() {
    let rig = Rig::new();
    let spec = routed(RouterKind::Own, Delivery::Durable);
    let refused = rig.runtime.deploy(spec.clone(), numbered(None)).await;
    assert!(refused.is_err(), "a router has to be given");
    let router: Arc<dyn Router> = Arc::new(FirstLetter);
    rig.runtime
        .deploy_routed(spec, numbered(None), router)
        .await
        .unwrap();
    for (body, number) in [("a", 97 % 3), ("b", 98 % 3), ("c", 99 % 3)] {
        assert_eq!(rig.ask("a/routed", body).await, number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_shares_out_and_a_slow_worker_delays_nobody() {
    let rig = Rig::new();
    let slow = native("slow", "1", |start| {
        let number = start.address.worker();
        Does(
            move |incoming: &kernel::worker::Incoming, turn: &mut kernel::worker::Turn| {
                if number == 0 {
                    std::thread::sleep(Duration::from_millis(700));
                }
                turn.emit("out", Message::new(incoming.message.body.clone()))
            },
        )
    });
    let out: Address = "queue:got".parse().unwrap();
    rig.deploy(spec("a/pool").workers(4).output("out", out), slow)
        .await;
    let queue = kernel::Destination::Queue(kernel::Name::new("a.pool").unwrap());
    let mut batch: Vec<Message> = (0..2_000).map(|n| Message::new(n.to_string())).collect();
    let began = std::time::Instant::now();
    rig.bus.publish(&queue, &mut batch, PATIENCE).await.unwrap();
    // The slow worker holds one or two; all others are through long before it is.
    rig.take("got", 1_990).await;
    assert!(began.elapsed() < Duration::from_secs(15));
}
