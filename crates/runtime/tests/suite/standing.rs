//! Cycles of stages that run out of room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use kernel::Message;
use kernel::worker::{Code, Failure, Incoming, Start, Turn, Worker, native};
use parking_lot::Mutex;
use runtime::{Delivery, Settings, StageKind, StageSpec, StageState, StageView, StopTarget};

use super::rig::{Rig, does, spec, stage, text, until};

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

/// Waits until it may go on, and counts.
struct Held {
    may_go: Arc<AtomicBool>,
    seen: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Held {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        while !self.may_go.load(Ordering::SeqCst) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        self.seen.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn held_code(may_go: &Arc<AtomicBool>, seen: &Arc<AtomicU64>) -> Arc<dyn Code> {
    let (may_go, seen) = (may_go.clone(), seen.clone());
    native("held", "1.0.0", move |_: &Start| Held {
        may_go: may_go.clone(),
        seen: seen.clone(),
    })
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
    rig.deploy(held, held_code(&may_go, &Arc::default())).await;
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

const MESSAGES: u64 = 60;

/// A stage is full, and somebody waits to hand it more. Then it ends, or another kind of stage takes its place. How many messages
/// were handled in the end, and how many are dead letters.
async fn after_full(is_followed: bool) -> (u64, u64) {
    let rig = Rig::new();
    let (may_go, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let full = || {
        let mut full = spec("f/full").delivery(Delivery::Memory);
        full.intake.mailbox_messages_max = 8;
        full.instance_limits.call_ms_max = 60_000;
        full
    };
    rig.deploy(full(), held_code(&may_go, &seen)).await;
    let sender = spec("f/sender")
        .delivery(Delivery::Memory)
        .output("out", stage("f/full"));
    let many = does("1", |_, turn| {
        (0..MESSAGES).try_for_each(|_| turn.emit("out", Message::new("x")))
    });
    rig.deploy(sender, many).await;
    rig.send("f/sender", "go").await;
    let view = || rig.runtime.stage(&stage("f/full"));
    // The sender is told of room only when half of it is free.
    until("it is full", async || {
        view().is_some_and(|view| view.waiting > 4)
    })
    .await;
    let (runtime, code) = (rig.runtime.clone(), held_code(&may_go, &seen));
    let keyed = full().kind(StageKind::Keyed("body".parse().unwrap()));
    let changing = tokio::spawn(async move {
        if is_followed {
            runtime.deploy(keyed, code).await.unwrap();
        } else {
            let target = StopTarget::Stage(stage("f/full"));
            runtime.stop(&target).await.unwrap();
        }
    });
    until("it ends", async || {
        view().is_none_or(|view| view.state == StageState::Stopping)
    })
    .await;
    may_go.store(true, Ordering::SeqCst);
    changing.await.unwrap();
    let dead = || {
        let queue = rig.broker.find_queue("hivewire.dead");
        queue.map_or(0, |queue| queue.stats().totals.published)
    };
    until("all are somewhere", async || {
        seen.load(Ordering::SeqCst) + dead() == MESSAGES
    })
    .await;
    (seen.load(Ordering::SeqCst), dead())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_stage_waits_for_the_one_that_takes_its_place() {
    assert_eq!(after_full(true).await, (MESSAGES, 0));
    // The control: where nobody takes its place they are dead letters.
    let (seen, dead) = after_full(false).await;
    assert!(dead > 0 && seen < MESSAGES, "{seen} {dead}");
}

/// Waits until it may go on, and writes down what it got.
struct Noting {
    may_go: Arc<AtomicBool>,
    notes: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Worker for Noting {
    async fn receive(&mut self, message: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        while !self.may_go.load(Ordering::SeqCst) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        self.notes.lock().push(text(&message.message));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_overtakes_what_a_stage_left_to_the_one_that_takes_its_place() {
    let rig = Rig::new();
    let (first_may_go, second_may_go) = (Arc::<AtomicBool>::default(), Arc::default());
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let code = |may_go: &Arc<AtomicBool>| {
        let (may_go, notes) = (may_go.clone(), notes.clone());
        native("noting", "1.0.0", move |_: &Start| Noting {
            may_go: may_go.clone(),
            notes: notes.clone(),
        })
    };
    let room = |messages| {
        let mut spec = spec("f/full").delivery(Delivery::Memory);
        spec.intake.mailbox_messages_max = messages;
        spec.intake.batch_messages_max = 1;
        spec.instance_limits.call_ms_max = 60_000;
        spec
    };
    let body = |number| format!(r#"{{"key": 1, "number": {number}}}"#);
    rig.deploy(room(20), code(&first_may_go)).await;
    let sender = spec("f/sender")
        .delivery(Delivery::Memory)
        .output("out", stage("f/full"));
    let many = does("1", move |_, turn| {
        (0..MESSAGES).try_for_each(|number| turn.emit("out", Message::new(body(number))))
    });
    rig.deploy(sender, many).await;
    rig.send("f/sender", "go").await;
    let waiting = || rig.runtime.stage(&stage("f/full")).map_or(0, |v| v.waiting);
    until("it is full", async || waiting() >= 19).await;
    let keyed = room(2).kind(StageKind::Keyed("json:/key".parse().unwrap()));
    let (runtime, second) = (rig.runtime.clone(), code(&second_may_go));
    let changing = tokio::spawn(async move { runtime.deploy(keyed, second).await });
    until("it ends", async || {
        let view = rig.runtime.stage(&stage("f/full"));
        view.is_none_or(|view| view.state == StageState::Stopping)
    })
    .await;
    first_may_go.store(true, Ordering::SeqCst);
    changing.await.unwrap().unwrap();
    // There is no room for what waits, but nothing of it may come behind what the sender still has.
    assert!(waiting() > 2, "{}", waiting());
    second_may_go.store(true, Ordering::SeqCst);
    until("all are handled", async || {
        notes.lock().len() as u64 == MESSAGES
    })
    .await;
    assert_eq!(*notes.lock(), (0..MESSAGES).map(body).collect::<Vec<_>>());
}
