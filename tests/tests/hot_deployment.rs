//! A stage is replaced again and again under load, broken versions among them: nothing is lost,
//! doubled or reordered, and what is broken is refused or rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::stomp_client::{AckMode, Stomp, TIMEOUT};
use hivewire_tests::workers::{component, deploy, events, must_deploy, other_version};
use serde_json::{Value, json};

const STAGE: &str = "live/pass";
const RATE: u32 = 1_000;
const REPLACEMENTS: usize = 20;

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
                let (headers, body) = ([("persistent", "true")], sent.to_string());
                let sent_with =
                    stomp.send_with_receipt("/queue/live.pass", &headers, body.as_bytes());
                unconfirmed.push(sent_with.unwrap());
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

/// What comes out of the stage.
fn consume(
    hive: &Hive,
    count: impl Fn() -> Option<u32> + Send + 'static,
) -> thread::JoinHandle<Vec<u32>> {
    let address = hive.stomp_address();
    thread::spawn(move || {
        let mut stomp = Stomp::connect(address).unwrap();
        stomp
            .subscribe("1", "/queue/through", AckMode::Auto, &[])
            .unwrap();
        let mut received = Vec::new();
        let mut silent_since = Instant::now();
        while count().is_none_or(|count| (received.len() as u32) < count) {
            match stomp.next_message(Duration::from_millis(200)) {
                Ok(frame) => {
                    received.push(String::from_utf8(frame.body).unwrap().parse().unwrap());
                    silent_since = Instant::now();
                }
                Err(error) if error.is_timeout() => {
                    // What does not come after that long is lost.
                    if count().is_some() && silent_since.elapsed() > Duration::from_secs(5) {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        received
    })
}

struct Outcome {
    sent: u32,
    received: Vec<u32>,
    events: Vec<String>,
}

/// Replaces the stage under load.
fn run(replacements: usize, more: &Value) -> Outcome {
    let hive = Hive::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let echo = component("echo");
    let mut spec = json!({ "outputs": { "out": ["queue:through"] } });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    must_deploy(&hive, &echo, STAGE, &spec).unwrap();
    let on = Arc::new(AtomicBool::new(true));
    let total = Arc::new(parking_lot::Mutex::new(None));
    let producer = produce(&hive, &on);
    let counted = total.clone();
    let consumer = consume(&hive, move || *counted.lock());
    for number in 0..replacements {
        let version = match number % 5 {
            2 => component("broken-handle"),
            3 => component("broken-init"),
            _ => other_version(&echo, folder.path(), number as u8).unwrap(),
        };
        let before = events(&hive, STAGE).unwrap().len();
        let deployed = deploy(&hive, &version, STAGE, &json!({})).unwrap();
        if number % 5 == 3 {
            assert!(deployed.is_err(), "what cannot begin must be refused");
        }
        // A broken version shows at its first message, and the next one waits for that.
        let settled = if number % 5 == 2 && deployed.is_ok() {
            2
        } else {
            1
        };
        let has_settled = || events(&hive, STAGE).unwrap().len() >= before + settled;
        wait_until(Duration::from_secs(5), has_settled);
    }
    on.store(false, Ordering::SeqCst);
    let sent = producer.join().unwrap();
    *total.lock() = Some(sent);
    let received = consumer.join().unwrap();
    let events = events(&hive, STAGE).unwrap();
    Outcome {
        sent,
        received,
        events,
    }
}

#[test]
fn twenty_replacements_lose_double_and_reorder_nothing() {
    let outcome = run(REPLACEMENTS * soak::times(1) as usize, &json!({}));
    let expected: Vec<u32> = (0..outcome.sent).collect();
    assert_eq!(outcome.received, expected, "{:?}", outcome.events);
    let count = |event: &str| outcome.events.iter().filter(|e| *e == event).count();
    assert!(count("rolled-back") > 0, "{:?}", outcome.events);
    assert!(count("refused") > 0, "{:?}", outcome.events);
    assert!(
        count("replaced") >= REPLACEMENTS / 2,
        "{:?}",
        outcome.events
    );
}

#[test]
fn control_without_probation_a_broken_version_costs_messages() {
    let spec = json!({
        "hand_over": { "probation_turns": 0 },
        "supervision": { "restarts_max": 1_000_000, "tries_max": 1, "backoff_ms_max": 10 },
    });
    let outcome = run(4, &spec);
    assert!(
        outcome.received.len() < outcome.sent as usize,
        "all {} came through",
        outcome.sent
    );
}
