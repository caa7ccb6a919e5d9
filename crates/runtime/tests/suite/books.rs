//! What came to a stage is done, waits or was dropped; and what its edges sent has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::worker::{Code, Failure};
use kernel::{Headers, Message};
use runtime::{Delivery, InputView, OnFailure, StageKind, StageLook, StageSpec, SupervisionRule};

use crate::rig::*;

const NUMBERS: u64 = 600;
/// Every so many-th number has no key.
const KEYLESS_EVERY: u64 = 50;
/// Every so many-th number is one that nobody can add.
const POISON_EVERY: u64 = 40;

/// Sends each number to `all`, and odd ones to `odd` too.
fn splitter() -> Arc<dyn Code> {
    does("1", |incoming, turn| {
        let text = text(&incoming.message);
        let number: u64 = text.parse()?;
        let key = (number % 17).to_string();
        let headers = match number.is_multiple_of(KEYLESS_EVERY) {
            true => Headers::default(),
            false => Headers::from_pairs([("key", key.as_str())])?,
        };
        let message = Message::new(text).with_headers(headers);
        if number % 2 == 1 {
            turn.emit("odd", message.clone())?;
        }
        turn.emit("all", message)
    })
}

fn adder() -> Arc<dyn Code> {
    does("1", |incoming, _| {
        let number: u64 = text(&incoming.message).parse()?;
        match number % POISON_EVERY == 7 {
            true => Err(Failure::new("nobody can add this")),
            false => Ok(()),
        }
    })
}

fn with(spec: StageSpec, delivery: Delivery) -> StageSpec {
    let mut spec = spec.delivery(delivery);
    spec.supervision = SupervisionRule {
        on_failure: OnFailure::Resume,
        ..SupervisionRule::default()
    };
    spec
}

/// A split whose outputs lead to two stages, one of which both lead to.
async fn flow(rig: &Rig, delivery: Delivery) {
    let to = |stage: &str| -> kernel::Address { stage.parse().unwrap() };
    let keyed = StageKind::Keyed("header:key".parse().unwrap());
    let add = with(spec("a/add").kind(keyed).workers(3), delivery);
    rig.deploy(add, adder()).await;
    let odd = with(spec("a/odd").workers(2), delivery);
    rig.deploy(odd, does("1", |_, _| Ok(()))).await;
    let split = with(spec("a/split").workers(2), delivery)
        .output("all", to("a/add"))
        .output("odd", to("a/odd"))
        .output("odd", to("a/add"))
        .output("odd", to("queue:odd-ones"));
    rig.deploy(split, splitter()).await;
}

fn look_at<'a>(looks: &'a [StageLook], stage: &str) -> &'a StageLook {
    let found = looks.iter().find(|look| look.stage.to_string() == stage);
    found.unwrap()
}

fn input_of(looks: &[StageLook], stage: &str) -> InputView {
    look_at(looks, stage).input.unwrap()
}

fn sent(looks: &[StageLook], to: &str) -> u64 {
    let edges = looks.iter().flat_map(|look| &look.edges);
    let edges = edges.filter(|edge| edge.to.to_string() == to);
    edges.map(|edge| edge.sent).sum()
}

/// What must hold whenever somebody looks.
fn check(looks: &[StageLook]) {
    for look in looks {
        let input = look.input.unwrap();
        assert_eq!(
            input.came,
            input.done + input.queued + input.dropped,
            "{look:?}"
        );
        let stage = look.stage.to_string();
        assert!(
            sent(looks, &stage) <= input.came,
            "more was sent to {stage} than came: {looks:?}"
        );
    }
}

async fn at_rest(rig: &Rig) {
    until("everything is done", async || {
        let looks = rig.runtime.look(Some("a"));
        let split = input_of(&looks, "a/split");
        split.came == NUMBERS
            && looks
                .iter()
                .all(|look| look.input.is_some_and(|input| input.queued == 0))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_is_done_waits_or_was_dropped() {
    for delivery in [Delivery::Memory, Delivery::Durable] {
        let rig = Rig::new();
        flow(&rig, delivery).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, runtime) = (is_over.clone(), rig.runtime.clone());
        let watching = std::thread::spawn(move || {
            let mut looks = 0;
            while !over.load(Ordering::Relaxed) {
                check(&runtime.look(Some("a")));
                looks += 1;
            }
            looks
        });
        for number in 0..NUMBERS {
            rig.send("a/split", &number.to_string()).await;
        }
        at_rest(&rig).await;
        is_over.store(true, Ordering::Relaxed);
        assert!(watching.join().unwrap() > 0);
        let looks = rig.runtime.look(Some("a"));
        let odd = NUMBERS / 2;
        let poisoned = |number: &u64| number % POISON_EVERY == 7;
        let keyless = |number: &u64| number.is_multiple_of(KEYLESS_EVERY);
        let both = (0..NUMBERS).chain((0..NUMBERS).filter(|number| number % 2 == 1));
        let dropped = both.filter(|n| poisoned(n) || keyless(n)).count() as u64;
        let add = InputView {
            came: NUMBERS + odd,
            done: NUMBERS + odd - dropped,
            queued: 0,
            dropped,
            room: None,
        };
        let seen = InputView {
            room: None,
            ..input_of(&looks, "a/add")
        };
        assert_eq!(seen, add, "{delivery:?}");
        assert_eq!(input_of(&looks, "a/odd").done, odd);
        assert_eq!(input_of(&looks, "a/split").done, NUMBERS);
        let edges = &look_at(&looks, "a/split").edges;
        let edges: Vec<_> = edges
            .iter()
            .map(|e| (e.output.as_str(), e.to.to_string(), e.sent))
            .collect();
        let expected = [
            ("all", "a/add".to_owned(), NUMBERS),
            ("odd", "a/odd".to_owned(), odd),
            ("odd", "a/add".to_owned(), odd),
            ("odd", "queue:odd-ones".to_owned(), odd),
        ];
        assert_eq!(edges, expected, "{delivery:?}");
        assert!(rig.runtime.look(Some("b")).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn books_outlive_versions_sizes_and_kinds() {
    let rig = Rig::new();
    let slow = || {
        does("1", |_, _| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        })
    };
    let target = |workers| spec("a/to").delivery(Delivery::Memory).workers(workers);
    rig.deploy(target(3), slow()).await;
    let from = spec("a/from")
        .delivery(Delivery::Memory)
        .output("out", stage("a/to"));
    let passes = || does("1", |i, turn| turn.emit("out", i.message.clone()));
    rig.deploy(from.clone(), passes()).await;
    let mut total = 0;
    for step in 0..5 {
        for number in 0..100 {
            rig.send("a/from", &number.to_string()).await;
        }
        total += 100;
        match step {
            0 => rig.runtime.scale(&stage("a/to"), 1).await.unwrap(),
            1 => rig.runtime.scale(&stage("a/to"), 4).await.unwrap(),
            2 => rig.deploy(target(2), slow()).await,
            3 => rig.deploy(from.clone(), passes()).await,
            _ => {
                let keyed = StageKind::Keyed("body".parse().unwrap());
                rig.deploy(target(2).kind(keyed), slow()).await;
            }
        }
    }
    until("everything is done", async || {
        let looks = rig.runtime.look(None);
        let input = input_of(&looks, "a/to");
        input.queued == 0 && input.came == total
    })
    .await;
    let looks = rig.runtime.look(None);
    let input = input_of(&looks, "a/to");
    assert_eq!((input.done, input.dropped), (total, 0));
    assert_eq!(sent(&looks, "a/to"), total);
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_are_no_input() {
    let rig = Rig::new();
    let code = does("1", |incoming, turn| {
        if incoming.kind == kernel::worker::Kind::Message {
            turn.set_timer("soon", Duration::from_millis(1), bytes::Bytes::new())?;
        }
        Ok(())
    });
    rig.deploy(spec("a/timed").delivery(Delivery::Memory), code)
        .await;
    for _ in 0..5 {
        rig.send("a/timed", "x").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until("timers went off", async || {
        rig.runtime.look(None)[0].turns > 5
    })
    .await;
    let input = rig.runtime.look(None)[0].input.unwrap();
    assert_eq!((input.came, input.done, input.queued), (5, 5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_shows_what_an_output_emits() {
    let rig = Rig::new();
    rig.deploy(
        spec("a/to").delivery(Delivery::Memory),
        does("1", |_, _| Ok(())),
    )
    .await;
    let from = spec("a/from")
        .delivery(Delivery::Memory)
        .output("out", stage("a/to"));
    let passes = does("1", |i, turn| turn.emit("out", i.message.clone()));
    rig.deploy(from, passes).await;
    rig.send("a/from", "unseen").await;
    until("it has arrived", async || {
        sent(&rig.runtime.look(None), "a/to") == 1
    })
    .await;
    let sample = || rig.runtime.sample(&stage("a/from"), "out", 10).unwrap();
    assert_eq!(sample().seen, 0);
    for body in ["first", "second"] {
        rig.send("a/from", body).await;
    }
    until("both are seen", async || sample().seen == 2).await;
    let bodies: Vec<_> = sample().messages.into_iter().map(|m| m.body).collect();
    assert_eq!(bodies, ["second", "first"]);
    assert!(rig.runtime.sample(&stage("a/from"), "none", 10).is_none());
}
