//! Keyed stages: one worker per bucket, order per key, state per bucket, also while it grows.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Headers, Message};
use runtime::{Delivery, StageKind, StageSpec};

use crate::rig::*;

/// Adds up what each key gets, in the state, and emits `key:number:total`.
struct Adder;

#[async_trait]
impl Worker for Adder {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let key = incoming.message.headers.get("key").unwrap().to_owned();
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        let before = turn.state(key.as_bytes()).await?;
        let before: u64 = match before {
            Some(before) => String::from_utf8(before.to_vec())?.parse()?,
            None => 0,
        };
        let total = before + 1;
        turn.set_state(key.clone(), total.to_string())?;
        turn.emit("out", Message::new(format!("{key}:{body}:{total}")))
    }
}

pub fn adder() -> Arc<dyn Code> {
    native("adder", "1", |_| Adder)
}

pub fn keyed(delivery: Delivery) -> StageSpec {
    let out: kernel::Address = "queue:totals".parse().unwrap();
    spec("a/adder")
        .kind(StageKind::Keyed("header:key".parse().unwrap()))
        .delivery(delivery)
        .output("out", out)
}

pub fn message(key: usize, number: usize) -> Message {
    let key = format!("k{key}");
    let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
    Message::new(number.to_string()).with_headers(headers)
}

/// Every key must have seen its messages in order, each once.
pub fn check(taken: &[bus::Delivery], each: usize) {
    let mut next: HashMap<String, usize> = HashMap::new();
    for delivery in taken {
        let body = text(&delivery.message);
        let mut parts = body.split(':');
        let key = parts.next().unwrap().to_owned();
        let number: usize = parts.next().unwrap().parse().unwrap();
        let total: usize = parts.next().unwrap().parse().unwrap();
        let expected = next.entry(key).or_default();
        assert_eq!(number, *expected, "{body}");
        *expected += 1;
        assert_eq!(total, *expected, "{body}");
    }
    assert!(next.values().all(|count| *count == each), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_their_order_and_their_state_while_the_stage_grows_and_shrinks() {
    const KEYS: usize = 20;
    const EACH: usize = 60;
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let rig = Rig::new();
        rig.deploy(keyed(delivery).workers(1), adder()).await;
        let address: kernel::Address = "a/adder".parse().unwrap();
        for number in 0..EACH {
            for key in 0..KEYS {
                rig.runtime
                    .send(&address, message(key, number))
                    .await
                    .unwrap();
            }
            let workers = match number {
                20 => 4,
                40 => 2,
                _ => continue,
            };
            rig.deploy(keyed(delivery).workers(workers), adder()).await;
        }
        let taken = rig.take("totals", KEYS * EACH).await;
        check(&taken, EACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_clients_publish_to_the_queue_of_the_stage() {
    let rig = Rig::new();
    rig.deploy(keyed(Delivery::Durable).workers(3), adder())
        .await;
    let queue = kernel::Destination::Queue(kernel::Name::new("a.adder").unwrap());
    let mut batch: Vec<Message> = (0..100).map(|n| message(n % 5, n / 5)).collect();
    rig.bus.publish(&queue, &mut batch, PATIENCE).await.unwrap();
    let taken = rig.take("totals", 100).await;
    check(&taken, 20);
    // Without its key a message cannot find a bucket.
    rig.bus
        .publish(&queue, &mut vec![Message::new("lost")], PATIENCE)
        .await
        .unwrap();
    let dead = rig.take(bus::DEAD_LETTERS, 1).await;
    let reason = dead[0].message.headers.get(Message::DEAD_REASON).unwrap();
    assert!(reason.contains("key"), "{reason}");
}
