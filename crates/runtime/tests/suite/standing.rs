//! Cycles of stages that run out of room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use kernel::Message;
use kernel::worker::{Code, Failure, Incoming, Start, Turn, Worker, native};
use runtime::{Delivery, Settings, StageSpec, StageView};

use super::rig::{Rig, spec, stage, text, until};

/// Sends each number on twice, one smaller, until there is nothing left of it.
struct Splitting {
    handled: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Splitting {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        let number: u64 = text(&message.message).parse().unwrap();
        for _ in 0..if number == 0 { 0 } else { 2 } {
            turn.emit("out", Message::new((number - 1).to_string()))?;
        }
        Ok(())
    }
}

/// Two stages that fill each other.
struct Cycle {
    rig: Rig,
    handled: Arc<AtomicU64>,
}

/// 2^12 messages are on their way at once at the end.
const NUMBER: &str = "12";
const ALL: u64 = (1 << 13) - 1;

impl Cycle {
    async fn new(spill_messages_max: u32) -> Self {
        let settings = Settings {
            send_timeout_ms: 200,
            ..Settings::default()
        };
        let cycle = Self {
            rig: Rig::with_settings(settings),
            handled: Arc::default(),
        };
        for (name, to) in [("f/a", "f/b"), ("f/b", "f/a")] {
            let spec = one(name, to, spill_messages_max);
            cycle.rig.deploy(spec, cycle.code()).await;
        }
        cycle.rig.send("f/a", NUMBER).await;
        cycle
    }

    fn code(&self) -> Arc<dyn Code> {
        let handled = self.handled.clone();
        native("splitting", "1.0.0", move |_: &Start| Splitting {
            handled: handled.clone(),
        })
    }

    fn view(&self, name: &str) -> StageView {
        self.rig.runtime.stage(&stage(name)).unwrap()
    }

    fn stands(&self) -> bool {
        ["f/a", "f/b"]
            .iter()
            .any(|name| self.view(name).stands.is_some())
    }
}

fn one(name: &str, to: &str, spill_messages_max: u32) -> StageSpec {
    let mut one = spec(name)
        .delivery(Delivery::Memory)
        .output("out", stage(to));
    one.intake.mailbox_messages_max = 8;
    one.intake.spill_messages_max = spill_messages_max;
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_without_room_says_so_and_goes_on_when_it_gets_some() {
    let cycle = Cycle::new(100).await;
    until("it stands", async || cycle.stands()).await;
    let handled = cycle.handled.load(Ordering::SeqCst);
    assert!(handled < ALL);
    let loads = cycle.rig.runtime.loads();
    let why = loads.iter().find_map(|load| load.stands.clone()).unwrap();
    assert!(why.contains("spill_messages_max"), "{why}");
    for (name, to) in [("f/a", "f/b"), ("f/b", "f/a")] {
        cycle.rig.deploy(one(name, to, 100_000), cycle.code()).await;
    }
    until("everything is handled", async || {
        cycle.handled.load(Ordering::SeqCst) == ALL
    })
    .await;
    until("nobody stands", async || !cycle.stands()).await;
    assert_eq!(cycle.view("f/a").dead + cycle.view("f/b").dead, 0);
}

/// The control: with room enough nobody ever says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_with_room_does_not_stand() {
    let cycle = Cycle::new(100_000).await;
    until("everything is handled", async || {
        assert!(!cycle.stands());
        cycle.handled.load(Ordering::SeqCst) == ALL
    })
    .await;
}

/// Waits until it may go on.
struct Held {
    may_go: Arc<AtomicBool>,
}

#[async_trait]
impl Worker for Held {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        while !self.may_go.load(Ordering::SeqCst) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

/// How many messages from outside wait for a worker that does not go on.
async fn waiting_from_outside(leads_to: Option<&str>) -> u64 {
    let rig = Rig::with_settings(Settings {
        send_timeout_ms: 100,
        ..Settings::default()
    });
    let may_go = Arc::new(AtomicBool::new(false));
    let mut held = spec("f/held").delivery(Delivery::Memory);
    if let Some(to) = leads_to {
        held = held.output("out", stage(to));
    }
    held.intake.mailbox_messages_max = 50;
    held.intake.spill_messages_max = 20;
    held.instance_limits.call_ms_max = 60_000;
    let go = may_go.clone();
    let make = move |_: &Start| Held { may_go: go.clone() };
    rig.deploy(held, native("held", "1.0.0", make)).await;
    for _ in 0..60 {
        let to: kernel::Address = "f/held".parse().unwrap();
        // What finds no room is refused to its sender.
        let _ = rig.runtime.send(&to, Message::new("x")).await;
    }
    let waiting = rig.runtime.stage(&stage("f/held")).unwrap().waiting;
    may_go.store(true, Ordering::SeqCst);
    waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenth_of_the_room_of_a_cycle_is_kept_for_its_own_messages() {
    assert_eq!(waiting_from_outside(Some("f/held")).await, 18);
    // The control: without a cycle the whole mailbox is for whoever comes.
    assert_eq!(waiting_from_outside(None).await, 50);
}
