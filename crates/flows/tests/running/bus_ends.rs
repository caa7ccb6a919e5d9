//! Flows between queues and topics.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bus::Subscription;
use serde_json::{Value, json};

use super::rig::{PATIENCE, Rig, json as json_of, queue, topic};

const EVENTS: u64 = 1_000;

fn flow(from: &str, delivery: &str) -> String {
    format!(
        r#"
        flow = "through"
        delivery = "{delivery}"
        [stages.in]
        plugin = "from-{from}"
        parameters = {{ {from} = "in" }}
        to = "more"
        [stages.more]
        plugin = "map"
        parameters = {{ to = "{{'n': event.n + 1}}" }}
        to = "out"
        [stages.out]
        plugin = "to-topic"
        grants = ["send:topic:*"]
        parameters = {{ topic = "out" }}
        "#
    )
}

fn bodies() -> impl Iterator<Item = String> {
    (0..EVENTS).map(|n| json!({ "n": n }).to_string())
}

fn expected() -> Vec<Value> {
    (1..=EVENTS).map(|n| json!({ "n": n })).collect()
}

async fn listen(rig: &Rig) -> Box<dyn Subscription> {
    let subscribed = rig.bus.subscribe(&topic("out"), 1_000, PATIENCE).await;
    subscribed.unwrap()
}

async fn more(subscription: &dyn Subscription, wait: Duration) -> Vec<Value> {
    let more = subscription.next_batch(1_000, wait).await.unwrap();
    let receipts: Vec<_> = more.iter().map(|delivery| delivery.receipt).collect();
    subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
    more.iter()
        .map(|delivery| json_of(&delivery.message))
        .collect()
}

/// What came, until `is_enough` and then nothing for a while.
async fn heard(
    subscription: &dyn Subscription,
    is_enough: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    let mut heard = Vec::new();
    loop {
        let next = more(subscription, Duration::from_millis(300)).await;
        if next.is_empty() && is_enough(&heard) {
            return heard;
        }
        heard.extend(next);
        assert!(Instant::now() < deadline, "{} came", heard.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_queue_comes_to_a_topic_once_and_in_order() {
    for delivery in ["at-most-once", "state-once"] {
        let rig = Rig::new();
        let subscription = listen(&rig).await;
        rig.publish(&queue("in"), bodies()).await;
        rig.run(&flow("queue", delivery)).await;
        let found = heard(&*subscription, |found| found.len() as u64 >= EVENTS).await;
        assert_eq!(found, expected(), "{delivery}");
    }
}

/// From a queue nothing is lost by a restart; what it was about to acknowledge may come again.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_of_a_queue() {
    let rig = Rig::new();
    let document = flow("queue", "state-once").replace("to-topic", "to-queue");
    let document = document
        .replace("topic =", "queue =")
        .replace("send:topic", "send:queue");
    rig.publish(&queue("in"), bodies()).await;
    rig.run(&document).await;
    let number = |event: &Value| event["n"].as_u64().unwrap();
    let mut found: BTreeSet<u64> = rig.take_some("out", 1).await.iter().map(number).collect();
    let rig = rig.restarted().await;
    let later = (EVENTS..2 * EVENTS).map(|n| json!({ "n": n }).to_string());
    rig.publish(&queue("in"), later).await;
    rig.run(&document).await;
    let deadline = Instant::now() + PATIENCE;
    while found.len() < 2 * EVENTS as usize {
        assert!(Instant::now() < deadline, "{} came", found.len());
        found.extend(rig.take("out", 0).await.iter().map(number));
    }
    assert_eq!(found, (1..=2 * EVENTS).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_followed_from_when_it_was_subscribed_to() {
    for delivery in ["at-most-once", "state-once"] {
        let rig = Rig::new();
        let subscription = listen(&rig).await;
        rig.run(&flow("topic", delivery)).await;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let probe = json!({ "n": -1 }).to_string();
            rig.publish(&topic("in"), std::iter::once(probe)).await;
            if !more(&*subscription, Duration::from_millis(50))
                .await
                .is_empty()
            {
                break;
            }
            assert!(Instant::now() < deadline, "{delivery}: nothing comes");
        }
        rig.publish(&topic("in"), bodies()).await;
        let is_enough =
            |found: &[Value]| found.iter().filter(|event| event["n"] != 0).count() as u64 >= EVENTS;
        let mut found = heard(&*subscription, is_enough).await;
        found.retain(|event| event["n"] != 0);
        assert_eq!(found, expected(), "{delivery}");
    }
}
