//! Providers: turns that begin by themselves, back-pressure, and values that never become bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::Message;
use kernel::descriptor::PluginKind;
use kernel::worker::{
    Code, CodeInfo, Failure, Incoming, Provided, Start, Turn, Value, Worker, native,
};
use parking_lot::Mutex;
use runtime::{Delivery, StageKind};

use crate::rig::{Rig, spec, stage, text, until};

/// Native code with a kind, which may take values.
struct TestCode<F> {
    info: CodeInfo,
    takes_values: bool,
    make: F,
}

impl<F, W> Code for TestCode<F>
where
    F: Fn() -> W + Send + Sync,
    W: Worker + 'static,
{
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn takes_values(&self) -> bool {
        self.takes_values
    }

    fn instantiate(&self, _: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new((self.make)()))
    }
}

pub fn code<W: Worker + 'static>(
    kind: PluginKind,
    takes_values: bool,
    make: impl Fn() -> W + Send + Sync + 'static,
) -> Arc<dyn Code> {
    let info = CodeInfo {
        kind,
        ..native("test", "1.0.0", |_: &Start| Silent).info().clone()
    };
    Arc::new(TestCode {
        info,
        takes_values,
        make,
    })
}

struct Silent;

#[async_trait]
impl Worker for Silent {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }
}

/// A number that stays a number.
#[derive(Clone, Debug)]
pub struct Number(pub u64);

impl Value for Number {
    fn encode(&self) -> Bytes {
        self.0.to_string().into()
    }

    fn len_bytes(&self) -> usize {
        8
    }
}

/// Gives the numbers below `end`, ten at a time, from where it was.
struct Counting {
    end: u64,
    pause: Option<Duration>,
    /// Fails, once, in the turn that gives this number.
    fails_at: Option<(u64, Arc<AtomicBool>)>,
    as_values: bool,
}

impl Counting {
    fn new(end: u64) -> Self {
        Self {
            end,
            pause: None,
            fails_at: None,
            as_values: false,
        }
    }
}

const NEXT: &[u8] = b"next";

#[async_trait]
impl Worker for Counting {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let kept = turn.state(NEXT).await?;
        let next = kept.map_or(0, |kept| u64::from_be_bytes(kept[..].try_into().unwrap()));
        let end = self.end.min(next + 10);
        for number in next..end {
            if let Some((at, has_failed)) = &self.fails_at
                && number == *at
                && !has_failed.swap(true, Ordering::SeqCst)
            {
                return Err(Failure::new("it was told to fail"));
            }
            match self.as_values {
                true => turn.emit_value("out", Arc::new(Number(number)))?,
                false => turn.emit("out", Message::new(number.to_string()))?,
            }
        }
        turn.set_state(NEXT, Bytes::copy_from_slice(&end.to_be_bytes()))?;
        Ok(match (end == self.end, self.pause) {
            (true, _) => Provided::Done,
            (false, Some(pause)) => Provided::After(pause),
            (false, None) => Provided::More,
        })
    }
}

/// Writes down what it gets.
struct Noting(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Worker for Noting {
    async fn receive(&mut self, message: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        self.0.lock().push(text(&message.message));
        Ok(())
    }
}

pub fn noting(notes: &Arc<Mutex<Vec<String>>>) -> Arc<dyn Code> {
    let notes = notes.clone();
    native("noting", "1.0.0", move |_| Noting(notes.clone()))
}

pub fn numbers(end: u64) -> Vec<String> {
    (0..end).map(|number| number.to_string()).collect()
}

async fn provides(delivery: Delivery, make: impl Fn() -> Counting + Send + Sync + 'static) {
    let rig = Rig::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    rig.deploy(spec("f/notes").delivery(delivery), noting(&notes))
        .await;
    let provider = spec("f/numbers")
        .delivery(delivery)
        .output("out", stage("f/notes"));
    rig.deploy(provider, code(PluginKind::Provider, true, make))
        .await;
    until("all numbers are there", async || {
        notes.lock().len() >= 1_000
    })
    .await;
    assert_eq!(*notes.lock(), numbers(1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_gives_everything_once_and_in_order() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        provides(delivery, || Counting::new(1_000)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_become_bodies_where_bodies_are_needed() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        provides(delivery, || Counting {
            as_values: true,
            ..Counting::new(1_000)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_waits_is_called_again() {
    provides(Delivery::Memory, || Counting {
        pause: Some(Duration::from_millis(1)),
        ..Counting::new(1_000)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_failed_is_given_again_from_where_it_was() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = has_failed.clone();
        provides(delivery, move || Counting {
            fails_at: Some((555, failed.clone())),
            ..Counting::new(1_000)
        })
        .await;
        assert!(has_failed.load(Ordering::SeqCst));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_goes_on_after_a_restart() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut rig = Rig::new();
    for seen in [300, 600, 1_000] {
        rig.deploy(spec("f/notes"), noting(&notes)).await;
        let provider = spec("f/numbers").output("out", stage("f/notes"));
        let make = || Counting {
            pause: Some(Duration::from_millis(1)),
            ..Counting::new(1_000)
        };
        rig.deploy(provider, code(PluginKind::Provider, true, make))
            .await;
        until("it goes on", async || notes.lock().len() >= seen).await;
        rig = rig.restarted().await;
    }
    assert_eq!(*notes.lock(), numbers(1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_providers_too() {
    let rig = Rig::new();
    let memory = |name| spec(name).delivery(Delivery::Memory);
    rig.deploy(
        memory("f/silent"),
        native("silent", "1.0.0", |_: &Start| Silent),
    )
    .await;
    let provider = memory("f/numbers").output("out", stage("f/silent"));
    let make = || Counting::new(u64::MAX);
    rig.deploy(provider, code(PluginKind::Provider, true, make))
        .await;
    let turns = || rig.runtime.stage(&stage("f/numbers")).unwrap().turns;
    until("it runs", async || turns() > 100).await;
    rig.runtime.pause().await;
    // The turn in progress may still end.
    let (last, stood) = (AtomicU64::new(0), AtomicU64::new(0));
    until("it stands still for twenty looks", async || {
        let now = turns();
        match last.swap(now, Ordering::SeqCst) == now {
            true => stood.fetch_add(1, Ordering::SeqCst),
            false => stood.swap(0, Ordering::SeqCst),
        };
        stood.load(Ordering::SeqCst) >= 20
    })
    .await;
    rig.runtime.resume().await;
    let paused_at = turns();
    until("it goes on", async || turns() > paused_at + 10).await;
}

/// Takes a message only when it is let.
struct Held {
    may_go: Arc<AtomicBool>,
    seen: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Held {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        while !self.may_go.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.seen.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stage_holds_its_provider_and_loses_nothing() {
    let rig = Rig::new();
    let (may_go, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut slow = spec("f/slow").delivery(Delivery::Memory);
    slow.intake.mailbox_messages_max = 25;
    slow.instance_limits.call_ms_max = 60_000;
    let (go, count) = (may_go.clone(), seen.clone());
    let make = move |_: &Start| Held {
        may_go: go.clone(),
        seen: count.clone(),
    };
    rig.deploy(slow, native("held", "1.0.0", make)).await;
    let provider = spec("f/numbers")
        .delivery(Delivery::Memory)
        .output("out", stage("f/slow"));
    let make = || Counting::new(500);
    rig.deploy(provider, code(PluginKind::Provider, true, make))
        .await;
    let view = |name| rig.runtime.stage(&stage(name)).unwrap();
    until("the mailbox is full", async || view("f/slow").waiting == 25).await;
    assert!(view("f/numbers").turns <= 4, "the rest waits for room");
    may_go.store(true, Ordering::SeqCst);
    until("all are handled", async || {
        seen.load(Ordering::SeqCst) == 500
    })
    .await;
    assert_eq!(view("f/slow").dead, 0);
}

/// Sends each number on twice, one smaller, until there is nothing left of it.
struct Splitting {
    by_address: Option<&'static str>,
    handled: Arc<AtomicU64>,
}

#[async_trait]
impl Worker for Splitting {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        let number: u64 = text(&message.message).parse().unwrap();
        for _ in 0..if number == 0 { 0 } else { 2 } {
            let smaller = Message::new((number - 1).to_string());
            match self.by_address {
                Some(to) => turn.send(stage(to), smaller)?,
                None => turn.emit("out", smaller)?,
            }
        }
        Ok(())
    }
}

/// Two stages with small mailboxes that fill each other. How many messages they handle of 2^13 - 1.
async fn split(by_address: bool, kind: StageKind) -> (Rig, Arc<AtomicU64>) {
    let rig = Rig::new();
    let handled = Arc::new(AtomicU64::new(0));
    for (name, to) in [("f/a", "f/b"), ("f/b", "f/a")] {
        let mut one = spec(name)
            .delivery(Delivery::Memory)
            .kind(kind.clone())
            .output("out", stage(to));
        one.intake.mailbox_messages_max = 8;
        let handled = handled.clone();
        let make = move |_: &Start| Splitting {
            by_address: by_address.then_some(to),
            handled: handled.clone(),
        };
        rig.deploy(one, native("splitting", "1.0.0", make)).await;
    }
    rig.send("f/a", "12").await;
    (rig, handled)
}

const ALL: u64 = (1 << 13) - 1;

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_does_not_wait_for_itself() {
    for kind in [
        StageKind::default(),
        StageKind::Keyed("body".parse().unwrap()),
    ] {
        let (rig, handled) = split(false, kind).await;
        until("everything is handled", async || {
            handled.load(Ordering::SeqCst) == ALL
        })
        .await;
        assert_eq!(rig.runtime.stage(&stage("f/a")).unwrap().dead, 0);
    }
}

/// The control: by address nobody knows of the cycle, and both wait for room at the other.
#[tokio::test(flavor = "multi_thread")]
async fn without_edges_a_cycle_would_stand_still() {
    let (rig, handled) = split(true, StageKind::default()).await;
    let waiting = |name| rig.runtime.stage(&stage(name)).unwrap().waiting;
    until("both are full", async || {
        waiting("f/a") >= 8 && waiting("f/b") >= 8
    })
    .await;
    assert!(handled.load(Ordering::SeqCst) < ALL);
}
