//! Several nodes share a stage: parts are taken, left and lost while messages flow. Here the nodes are
//! runtimes over one broker.

use std::sync::Arc;
use std::time::Duration;

use broker::SystemClock;
use kernel::Address;
use runtime::{Delivery, Part, Runtime, Settings, ShareError};

use crate::keyed::{adder, check, keyed, message};
use crate::rig::*;

const KEYS: usize = 20;

/// Another node over the same broker.
fn node(rig: &Rig) -> Arc<Runtime> {
    Runtime::start(rig.bus.clone(), Settings::default(), Arc::new(SystemClock))
}

async fn deploy(node: &Runtime) {
    let spec = keyed(Delivery::Durable).workers(2);
    node.deploy_shared(spec, adder(), None).await.unwrap();
}

async fn take_all(node: &Runtime) {
    let stage = stage("a/adder");
    for part in node.parts(&stage) {
        node.take(&stage, part).await.unwrap();
    }
}

/// Sends one message of each key, through the entrance for every other round.
async fn send_round(rig: &Rig, nodes: &[&Arc<Runtime>], number: usize) {
    let address: Address = match number % 2 {
        0 => "a/adder".parse().unwrap(),
        _ => "queue:a.adder".parse().unwrap(),
    };
    for key in 0..KEYS {
        let node = nodes.get(number % nodes.len().max(1));
        let from = node.map_or(&rig.runtime, |node| *node);
        from.send(&address, message(key, number)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_before_it_is_taken() {
    let rig = Rig::new();
    let first = node(&rig);
    deploy(&first).await;
    send_round(&rig, &[], 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stage = stage("a/adder");
    let turns = first.flows()[0].stages[0].turns;
    assert_eq!(turns, 0);
    take_all(&first).await;
    check(&rig.take("totals", KEYS).await, 1);
    let again = first.take(&stage, Part::Bucket(0)).await.unwrap();
    assert!(again > 0, "what is held has an epoch");
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_move_back_and_forth_while_messages_flow() {
    const EACH: usize = 60;
    let rig = Rig::new();
    let (first, second) = (node(&rig), node(&rig));
    deploy(&first).await;
    deploy(&second).await;
    take_all(&first).await;
    let stage = stage("a/adder");
    let parts = first.parts(&stage);
    for number in 0..EACH {
        send_round(&rig, &[], number).await;
        let (from, to) = match (number / 15) % 2 {
            0 => (&first, &second),
            _ => (&second, &first),
        };
        // Some parts at a time, the entrance among them.
        for part in parts.iter().skip(number % 15 * 9).take(9) {
            from.release(&stage, *part).await.unwrap();
            to.take(&stage, *part).await.unwrap();
        }
    }
    check(&rig.take("totals", KEYS * EACH).await, EACH);
    let turns = |node: &Runtime| node.flows()[0].stages[0].turns;
    assert!(turns(&first) > 0 && turns(&second) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_late_does_no_harm_and_learns_of_it() {
    const EACH: usize = 30;
    let rig = Rig::new();
    let (first, second) = (node(&rig), node(&rig));
    deploy(&first).await;
    deploy(&second).await;
    take_all(&first).await;
    for number in 0..EACH / 2 {
        send_round(&rig, &[], number).await;
    }
    // The first one does not know: it was thought to be dead.
    take_all(&second).await;
    for number in EACH / 2..EACH {
        send_round(&rig, &[], number).await;
    }
    check(&rig.take("totals", KEYS * EACH).await, EACH);
    let lost = tokio::time::timeout(PATIENCE, first.next_lost()).await;
    let (of, part) = lost.expect("it learns what it lost");
    assert_eq!(of, stage("a/adder"));
    let released = first.release(&of, part).await;
    assert!(released.is_ok(), "what is lost need not be left");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_has_a_stage_in_memory_for_itself() {
    let rig = Rig::new();
    let nodes = [node(&rig), node(&rig)];
    for node in &nodes {
        let deployed = node.deploy_shared(keyed(Delivery::Memory), adder(), None);
        deployed.await.unwrap();
        assert!(node.parts(&stage("a/adder")).is_empty());
    }
    let address: Address = "a/adder".parse().unwrap();
    for (node, times) in [(&nodes[0], 1), (&nodes[1], 3)] {
        for number in 0..times {
            for key in 0..KEYS {
                node.send(&address, message(key, number)).await.unwrap();
            }
        }
        // Each counts from the beginning.
        check(&rig.take("totals", KEYS * times).await, times);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_stages_are_not_taken() {
    let rig = Rig::new();
    rig.deploy(keyed(Delivery::Durable), adder()).await;
    let stage = stage("a/adder");
    let refused = rig.runtime.take(&stage, Part::Bucket(0)).await;
    assert!(matches!(refused, Err(ShareError::NotShared)));
}
