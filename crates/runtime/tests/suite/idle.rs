//! A stage whose workers ask for nothing keeps nothing from others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::SystemClock;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Destination, Message};
use runtime::{Delivery, Runtime, Settings, StageSpec};
use tokio::sync::Semaphore;

use crate::rig::*;

const WAITS: Duration = Duration::from_millis(20);

/// Says that it has begun, and goes on when it is let.
struct Patient {
    begun: Arc<Semaphore>,
    may: Arc<Semaphore>,
}

#[async_trait]
impl Worker for Patient {
    async fn receive(&mut self, _incoming: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        self.begun.add_permits(1);
        if let Ok(permit) = self.may.acquire().await {
            permit.forget();
        }
        Ok(())
    }
}

/// How many messages one worker may have waiting, besides the one in hand.
const WAITING_MAX: u32 = 2;
/// What keeps it busy.
const LOCAL: u32 = WAITING_MAX + 1;

/// A node whose only worker is busy with one message and has no room for more, all of them from within
/// the process; and what lets the worker go on.
async fn busy(rig: &Rig, idle_ms_max: u64) -> (Arc<Runtime>, Arc<Semaphore>) {
    let settings = Settings {
        subscription_idle_ms_max: idle_ms_max,
        ..Settings::default()
    };
    let node = Runtime::start(rig.bus.clone(), settings, Arc::new(SystemClock));
    let (begun, may) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut spec: StageSpec = spec("a/patient").delivery(Delivery::Memory);
    spec.intake.mailbox_messages_max = WAITING_MAX;
    spec.intake.batch_messages_max = 1;
    let code: Arc<dyn Code> = {
        let (begun, may) = (begun.clone(), may.clone());
        native("patient", "1", move |_| Patient {
            begun: begun.clone(),
            may: may.clone(),
        })
    };
    node.deploy(spec, code).await.unwrap();
    until("it reads its queue", || async { subscribers(rig) == 1 }).await;
    let address: Address = "a/patient".parse().unwrap();
    for _ in 0..LOCAL {
        node.send(&address, Message::new("x")).await.unwrap();
    }
    begun.acquire().await.unwrap().forget();
    (node, may)
}

fn queue() -> Destination {
    Destination::Queue(stage("a/patient").queue())
}

async fn publish(rig: &Rig, messages: usize) {
    let mut batch = vec![Message::new("from outside"); messages];
    rig.bus
        .publish(&queue(), &mut batch, PATIENCE)
        .await
        .unwrap();
}

fn turns(node: &Runtime) -> u64 {
    node.flows()[0].stages[0].turns
}

/// How many read the queue of the stage.
fn subscribers(rig: &Rig) -> usize {
    let queue = rig.broker.find_queue("a.patient");
    queue.map_or(0, |queue| queue.stats().subscribers)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_subscribes_for_workers_without_room_until_one_has_some() {
    let rig = Rig::new();
    let (node, may) = busy(&rig, 50).await;
    until("it lets go of its queue", || async {
        subscribers(&rig) == 0
    })
    .await;
    // So nothing is kept from another one that reads the same queue.
    publish(&rig, 3).await;
    rig.take("a.patient", 3).await;
    may.add_permits(100);
    publish(&rig, 5).await;
    let all = u64::from(LOCAL) + 5;
    until("it reads its queue again", || async { turns(&node) == all }).await;
}

/// The control: one that stays subscribed keeps what was sent ahead to it from others.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_never_ends_keeps_messages_from_others() {
    let rig = Rig::new();
    let (node, may) = busy(&rig, 3_600_000).await;
    publish(&rig, 3).await;
    let other = rig.bus.subscribe(&queue(), 10, PATIENCE).await.unwrap();
    for _ in 0..10 {
        let taken = other.next_batch(10, WAITS).await.unwrap();
        assert!(taken.is_empty(), "{} were given back", taken.len());
    }
    assert_eq!(subscribers(&rig), 2);
    drop(other);
    may.add_permits(100);
    let all = u64::from(LOCAL) + 3;
    until("it has done all", || async { turns(&node) == all }).await;
}
