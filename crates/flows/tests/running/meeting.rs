//! Plug-ins that remember what came: join, deduplicate, throttle, batch.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rig::{Middle, Rig, assert_same, results};

const DISTURBANCES: [(&str, bool, bool); 5] = [
    // Delivery, whether it restarts in the middle, whether it scales.
    ("at-most-once", false, false),
    ("at-most-once", false, true),
    ("state-once", false, false),
    ("state-once", true, false),
    ("state-once", false, true),
];

fn middle(restarts: bool, stage: Option<&'static str>) -> Middle {
    match (restarts, stage) {
        (true, _) => Middle::Restart,
        (false, Some(stage)) => Middle::Scale(stage),
        (false, None) => Middle::Nothing,
    }
}

const ORDERS: u64 = 400;

/// Event `n` of the file: an order, or the payment of the order before; every fifth order is not paid.
fn order(n: u64) -> Option<Value> {
    let (order, is_order) = (n / 2, n.is_multiple_of(2));
    let kind = if is_order { "order" } else { "payment" };
    (is_order || !order.is_multiple_of(5))
        .then(|| json!({ "kind": kind, "order": order, "at": 1_000_000 + n * 100 }))
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_meet_their_payments_once() {
    let events: Vec<Value> = (0..ORDERS * 2).filter_map(order).collect();
    let file: String = events.iter().map(|event| format!("{event}\n")).collect();
    let pair = |number: u64| {
        let left = order(number * 2);
        json!({ "key": number, "left": left, "right": order(number * 2 + 1) })
    };
    let expected: Vec<Value> = (0..ORDERS).map(pair).collect();
    for (delivery, restarts, scales) in DISTURBANCES {
        let document = format!(
            r#"
            flow = "pay"
            delivery = "{delivery}"
            [stages.events]
            plugin = "file-lines"
            parameters = {{ file = "events.jsonl", format = "json" }}
            to = "pairs"
            [stages.pairs]
            plugin = "join"
            key = "json:/order"
            workers = 2
            to = "queue:pairs"
            outputs = {{ late = "queue:late", refused = "queue:late" }}
            [stages.pairs.parameters]
            left = "event.kind == 'order'"
            by = "event.order"
            time = "event.at"
            within = "1s"
            keep_left = true
            idle = "3s"
            "#
        );
        let rig = Rig::new();
        rig.file("events.jsonl", &file);
        let middle = middle(restarts, scales.then_some("pay/pairs"));
        let sizes = (1, expected.len());
        let (rig, found) = results(rig, &document, "pairs", sizes, middle).await;
        assert_same(&format!("{delivery}, {middle:?}"), found, expected.clone());
        assert!(rig.take("late", 0).await.is_empty());
    }
}

const EVENTS: u64 = 1_500;

fn from_generator(delivery: &str, event: &str, stage: &str) -> String {
    format!(
        r#"
        flow = "few"
        delivery = "{delivery}"
        [stages.numbers]
        plugin = "generator"
        parameters = {{ count = {EVENTS}, per_second = 1500, event = "{event}" }}
        to = "stage"
        [stages.stage]
        to = "queue:out"
        {stage}
        "#
    )
}

const IDS: u64 = 500;

fn once(delivery: &str) -> String {
    let stage = r#"
        plugin = "deduplicate"
        key = "json:/id"
        workers = 2
        outputs = { duplicates = "queue:duplicates" }
        parameters = { by = "event.id", within = "1h" }
    "#;
    from_generator(delivery, &format!("{{'id': n / 2 % {IDS}}}"), stage)
}

/// The control: what is remembered in memory only is forgotten by a restart, and events pass again.
#[tokio::test(flavor = "multi_thread")]
async fn in_memory_a_restart_forgets_what_passed() {
    let sizes = (50, IDS as usize + 1);
    let document = once("at-most-once");
    let (_, found) = results(Rig::new(), &document, "out", sizes, Middle::Restart).await;
    assert!(found.len() > IDS as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_passes_once_and_the_others_are_duplicates() {
    let expected: Vec<Value> = (0..IDS).map(|id| json!({ "id": id })).collect();
    for (delivery, restarts, scales) in DISTURBANCES {
        let document = once(delivery);
        let middle = middle(restarts, scales.then_some("few/stage"));
        let sizes = (50, expected.len());
        let (rig, found) = results(Rig::new(), &document, "out", sizes, middle).await;
        let what = format!("{delivery}, {middle:?}");
        assert_same(&what, found, expected.clone());
        let duplicates = rig.take("duplicates", (EVENTS - IDS) as usize).await;
        assert_eq!(duplicates.len() as u64, EVENTS - IDS, "{what}");
        assert!(rig.take("out", 0).await.is_empty(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_sends_as_much_as_allowed() {
    const USERS: u64 = 30;
    const ALLOWED: u64 = 20;
    let stage = r#"
        plugin = "throttle"
        key = "json:/user"
        workers = 2
        outputs = { excess = "queue:excess" }
        parameters = { by = "event.user", count = 20, per = "1d" }
    "#;
    for (delivery, restarts, scales) in DISTURBANCES {
        let event = format!("{{'user': n % {USERS}}}");
        let document = from_generator(delivery, &event, stage);
        let middle = middle(restarts, scales.then_some("few/stage"));
        let passing = USERS * ALLOWED;
        let sizes = (50, passing as usize);
        let (rig, found) = results(Rig::new(), &document, "out", sizes, middle).await;
        let what = format!("{delivery}, {middle:?}");
        let mut sent = BTreeMap::<u64, u64>::new();
        for event in found {
            *sent.entry(event["user"].as_u64().unwrap()).or_default() += 1;
        }
        assert_eq!(
            sent,
            (0..USERS).map(|user| (user, ALLOWED)).collect(),
            "{what}"
        );
        let excess = rig.take("excess", (EVENTS - passing) as usize).await;
        assert_eq!(excess.len() as u64, EVENTS - passing, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_by_time_hold_each_event_once() {
    let stage = r#"
        plugin = "batch"
        parameters = { count = 10000, every = "100ms" }
    "#;
    for (delivery, restarts) in [
        ("at-most-once", false),
        ("state-once", false),
        ("state-once", true),
    ] {
        let document = from_generator(delivery, "{'n': n}", stage);
        let rig = Rig::new();
        rig.run(&document).await;
        let mut batches = rig.take_some("out", 1).await;
        let rig = match restarts {
            true => {
                let rig = rig.restarted().await;
                rig.run(&document).await;
                rig
            }
            false => rig,
        };
        let held = |batches: &[Value]| -> Vec<Value> {
            let events = batches
                .iter()
                .flat_map(|batch| batch["events"].as_array().unwrap());
            events.cloned().collect()
        };
        assert!((held(&batches).len() as u64) < EVENTS);
        while (held(&batches).len() as u64) < EVENTS {
            batches.extend(rig.take_some("out", 1).await);
        }
        batches.extend(rig.take("out", 0).await);
        let what = format!("{delivery}, {restarts}");
        // No batch is full, so the time has completed all of them.
        assert!(batches.len() > 1, "{what}");
        for batch in &batches {
            assert_eq!(batch["count"], batch["events"].as_array().unwrap().len());
        }
        // One worker keeps the order.
        let expected: Vec<Value> = (0..EVENTS).map(|n| json!({ "n": n })).collect();
        assert_eq!(held(&batches), expected, "{what}");
    }
}
