//! A flow is recomposed again and again under load: stages come, go, change and are wired anew, and changes that cannot work are
//! refused. Nothing that was acknowledged is lost, nothing is doubled, and what does not change is not touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::stomp_client::{AckMode, Stomp, TIMEOUT};
use hivewire_tests::workers::stage;
use parking_lot::Mutex;
use serde_json::{Value, json};

const RATE: u32 = 1_000;
const CHANGES: usize = 20;
/// How long a change may take: a stage that goes ends when nothing waits for it.
const PATIENCE: Duration = Duration::from_secs(150);

/// A stage that passes on what it gets.
fn pass(to: &str) -> Value {
    json!({ "plugin": "map", "parameters": { "to": "event" }, "to": to })
}

/// The flow in its various shapes: `entry` and `exit` never change, what is between them does.
fn document(number: usize) -> Value {
    let (mut stages, first) = match number % 5 {
        // One stage in between.
        0 => (json!({ "a": pass("exit") }), "a"),
        // Another behind it.
        1 => (json!({ "a": pass("b"), "b": pass("exit") }), "a"),
        // Only the new one.
        2 => (json!({ "b": pass("exit") }), "b"),
        // The same with other parameters, more workers, and a side way.
        3 => {
            let split = json!({
                "plugin": "filter",
                "parameters": { "where": format!("event.n % 2 == {}", number % 2) },
                "outputs": { "out": "b", "rejected": "c" },
            });
            (
                json!({ "a": split, "b": pass("exit"), "c": pass("exit") }),
                "a",
            )
        }
        // A keyed one.
        _ => {
            let mut keyed = pass("exit");
            keyed["key"] = json!("json:/n");
            keyed["workers"] = json!(3);
            (json!({ "d": keyed }), "d")
        }
    };
    stages["entry"] = json!({ "plugin": "merge", "to": first });
    stages["exit"] = pass("queue:through");
    json!({ "flow": "live", "stages": stages })
}

/// Documents that cannot work.
fn broken(number: usize) -> Value {
    let mut document = document(number);
    match number % 3 {
        0 => document["stages"]["exit"]["plugin"] = json!("no-such-plug-in"),
        1 => document["stages"]["exit"]["parameters"]["to"] = json!("event.("),
        _ => document["stages"]["entry"]["to"] = json!("nowhere"),
    }
    document
}

/// Applies a document; whether it was taken.
fn apply(hive: &Hive, document: &Value) -> bool {
    let path = "/api/v1/documents/live";
    let body = document.to_string();
    let answer = hive.rest_within("PUT", path, body.as_bytes(), PATIENCE);
    let answer = answer.unwrap();
    match answer.status {
        200..=299 => true,
        400..=499 => false,
        status => panic!("{status}: {}", answer.text()),
    }
}

/// Numbered messages at a steady rate, each acknowledged, until told to stop; how many.
fn produce(hive: &Hive, on: &Arc<AtomicBool>) -> thread::JoinHandle<u32> {
    let (address, on) = (hive.stomp_address(), on.clone());
    thread::spawn(move || {
        let mut stomp = Stomp::connect(address).unwrap();
        let began = Instant::now();
        let mut sent = 0u32;
        let mut unconfirmed = Vec::new();
        while on.load(Ordering::SeqCst) {
            let due = (began.elapsed().as_secs_f64() * f64::from(RATE)) as u32;
            while sent < due {
                let (headers, body) = ([("persistent", "true")], format!("{{\"n\":{sent}}}"));
                let receipt =
                    stomp.send_with_receipt("/queue/live.entry", &headers, body.as_bytes());
                unconfirmed.push(receipt.unwrap());
                sent += 1;
            }
            for receipt in unconfirmed.drain(..) {
                stomp.wait_receipt(&receipt, TIMEOUT).unwrap();
            }
            thread::sleep(Duration::from_millis(1));
        }
        sent
    })
}

/// What comes out, until all of it came or nothing more does.
fn consume(hive: &Hive, total: Arc<Mutex<Option<u32>>>) -> thread::JoinHandle<Vec<u32>> {
    let address = hive.stomp_address();
    thread::spawn(move || {
        let mut stomp = Stomp::connect(address).unwrap();
        stomp
            .subscribe("1", "/queue/through", AckMode::Auto, &[])
            .unwrap();
        let mut received = Vec::new();
        let mut silent_since = Instant::now();
        loop {
            match stomp.next_message(Duration::from_millis(200)) {
                Ok(frame) => {
                    let event: Value = serde_json::from_slice(&frame.body).unwrap();
                    received.push(event["n"].as_u64().unwrap() as u32);
                    silent_since = Instant::now();
                }
                Err(error) if error.is_timeout() => {
                    // What does not come after that long is lost, and what is doubled has come.
                    let is_over = total
                        .lock()
                        .is_some_and(|total| received.len() as u32 >= total);
                    let patience = Duration::from_secs(if is_over { 1 } else { 10 });
                    if total.lock().is_some() && silent_since.elapsed() > patience {
                        return received;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    })
}

/// Whether each number came once.
fn judge(sent: u32, received: &[u32]) -> Result<(), String> {
    let mut seen = vec![0u32; sent as usize];
    for number in received {
        match seen.get_mut(*number as usize) {
            Some(count) => *count += 1,
            None => return Err(format!("{number} was never sent")),
        }
    }
    match seen.iter().position(|count| *count != 1) {
        Some(number) => Err(format!("{number} came {} times", seen[number])),
        None => Ok(()),
    }
}

fn version(hive: &Hive, name: &str) -> u64 {
    stage(hive, name).unwrap()["version"].as_u64().unwrap()
}

/// Recomposes the flow under load; what was sent, and what came.
fn run(documents: impl Iterator<Item = Value>) -> (u32, Vec<u32>) {
    let hive = Hive::start().unwrap();
    assert!(apply(&hive, &document(0)));
    let exit = version(&hive, "live/exit");
    let (on, total) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(None)));
    let producer = produce(&hive, &on);
    let consumer = consume(&hive, total.clone());
    for (number, document) in documents.enumerate() {
        assert!(apply(&hive, &document), "change {number}");
        let before = stage(&hive, "live/exit").unwrap()["turns"].as_u64();
        assert!(!apply(&hive, &broken(number)), "{}", broken(number));
        // The next one comes when events have gone this way.
        let flows = || stage(&hive, "live/exit").unwrap()["turns"].as_u64() > before;
        assert!(wait_until(Duration::from_secs(30), flows));
    }
    assert_eq!(version(&hive, "live/exit"), exit, "it never changed");
    on.store(false, Ordering::SeqCst);
    let sent = producer.join().unwrap();
    *total.lock() = Some(sent);
    (sent, consumer.join().unwrap())
}

#[test]
fn twenty_changes_lose_and_double_nothing() {
    let changes = CHANGES * soak::times(1) as usize;
    let (sent, received) = run((1..=changes).map(document));
    judge(sent, &received).unwrap();
}

#[test]
fn control_a_stage_that_drops_is_found() {
    // Several times, so that enough events meet one of them, however quick a change is.
    let drops = (0..6).map(|number| {
        let mut drops = document(0);
        drops["stages"]["a"] = json!({
            "plugin": "filter",
            "parameters": { "where": format!("event.n % {} == 0", 2 + number % 2) },
            "to": "exit",
        });
        drops
    });
    let (sent, received) = run(drops);
    assert!(judge(sent, &received).is_err());
}
