//! A retry does not do it twice: deployments that come again, and requests with an `Idempotency-Key`.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Answer, Hive};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);
const MESSAGES: &str = r#"{"messages":[{"body":"one"},{"body":"two"}]}"#;

fn post(hive: &Hive, path: &str, key: Option<&str>, body: &str) -> Answer {
    let token = format!("Authorization: Bearer {}", hive.token());
    let key = key.map(|key| format!("Idempotency-Key: {key}"));
    let mut lines = vec![token.as_str(), "Content-Type: application/json"];
    lines.extend(key.as_deref());
    hive.http("POST", path, &lines, body)
}

fn is_replayed(answer: &Answer) -> bool {
    answer.head.contains("idempotency-replayed: true")
}

fn waiting(hive: &Hive, queue: &str) -> Value {
    hive.rest("GET", &format!("/api/v1/queues/{queue}"), "")
        .json()["waiting"]
        .clone()
}

fn worker(name: &str) -> String {
    let path = build::test_worker(name).unwrap_or_else(|error| panic!("{error}"));
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_retry_with_the_same_key_publishes_once() {
    let hive = Hive::start();
    let path = "/api/v1/queues/orders/messages";
    let first = post(&hive, path, Some("k-1"), MESSAGES);
    assert_eq!((first.status, is_replayed(&first)), (200, false));
    let again = post(&hive, path, Some("k-1"), MESSAGES);
    assert_eq!((again.status, is_replayed(&again)), (200, true));
    assert_eq!(again.json(), first.json());
    assert_eq!(waiting(&hive, "orders"), 2);
    // Another request under the same key is a slip of the client.
    let other = post(&hive, path, Some("k-1"), r#"{"messages":[]}"#);
    assert_eq!(other.problem(422)["type"], "urn:hivewire:key-reused");
    post(
        &hive,
        "/api/v1/queues/other/messages",
        Some("k-1"),
        MESSAGES,
    )
    .problem(422);
    post(&hive, path, Some(&"k".repeat(256)), MESSAGES).problem(400);
    assert_eq!(waiting(&hive, "orders"), 2);
    // Every try is noted.
    let noted = hive
        .rest("GET", "/api/v1/requests?path=/api/v1/queues/orders", "")
        .json();
    assert_eq!(noted["requests"].as_array().unwrap().len(), 4);
}

#[test]
fn control_without_a_key_a_retry_publishes_again() {
    let hive = Hive::start();
    for _ in 0..2 {
        post(&hive, "/api/v1/queues/orders/messages", None, MESSAGES);
    }
    assert_eq!(waiting(&hive, "orders"), 4);
}

#[test]
fn what_was_refused_may_be_tried_again() {
    let rule = "[[broker.queues]]\nname = \"small\"\nmessages_max = 3\n";
    let hive = Hive::with_config(rule);
    let path = "/api/v1/queues/small/messages";
    post(&hive, path, Some("bad"), r#"{"messages":[{}]}"#).problem(400);
    assert_eq!(
        post(&hive, path, Some("bad"), MESSAGES).status,
        200,
        "nothing had happened"
    );
    // One of two was taken in, so this one is not done again.
    let partly = post(&hive, path, Some("partly"), MESSAGES);
    assert_eq!(partly.problem(507)["accepted"], 1);
    hive.rest("DELETE", "/api/v1/queues/small", "");
    let again = post(&hive, path, Some("partly"), MESSAGES);
    assert_eq!((again.status, is_replayed(&again)), (507, true));
    // None was, so this one is.
    post(
        &hive,
        path,
        None,
        r#"{"messages":[{"body":"a"},{"body":"b"},{"body":"c"}]}"#,
    );
    assert_eq!(
        post(&hive, path, Some("none"), MESSAGES).problem(507)["accepted"],
        0
    );
    hive.rest("DELETE", "/api/v1/queues/small", "");
    assert_eq!(post(&hive, path, Some("none"), MESSAGES).status, 200);
    assert_eq!(waiting(&hive, "small"), 2);
}

#[test]
fn a_request_whose_sender_is_gone_is_done_and_answered_later() {
    let hive = Hive::start();
    let path = "/api/v1/asks/queue%3Anobody?timeout_ms=2000";
    let question = r#"{"messages":[{"body":"anybody?"}]}"#;
    let (address, token) = (hive.address("http"), hive.token());
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nIdempotency-Key: gone\r\nContent-Length: {}\r\n\r\n{question}",
        question.len(),
    );
    stream.write_all(head.as_bytes()).unwrap();
    let end = Instant::now() + TIMEOUT;
    while waiting(&hive, "nobody") != 1 {
        assert!(Instant::now() < end, "the question was not asked");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    let mut under_way = 0;
    let answer = loop {
        let answer = post(&hive, path, Some("gone"), question);
        if answer.status != 409 {
            break answer;
        }
        under_way += 1;
        assert!(Instant::now() < end, "it goes on and on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(under_way > 0, "the first one was under way");
    assert_eq!(
        (answer.status, is_replayed(&answer)),
        (504, true),
        "{answer:?}"
    );
    assert_eq!(waiting(&hive, "nobody"), 1, "it was asked once");
}

/// Deploys three times: the second time nothing is other than before.
fn deploys_once(hive: &Hive) {
    let deployment = |workers: u32| {
        json!({ "as": "shop/counter", "source": worker("counter"), "workers": workers }).to_string()
    };
    let deploy = |workers| {
        let answer = post(hive, "/api/v1/deployments", None, &deployment(workers));
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        (
            answer["version"].as_u64().unwrap(),
            answer["changed"].as_bool().unwrap(),
        )
    };
    assert_eq!(deploy(2), (1, true));
    assert_eq!(deploy(2), (1, false));
    assert_eq!(
        deploy(3),
        (2, true),
        "control: another request does something"
    );
    assert_eq!(deploy(3), (2, false));
    let history = hive
        .rest("GET", "/api/v1/flows/shop/counter/history", "")
        .json();
    let events = history["history"].as_array().unwrap().iter();
    let events: Vec<&str> = events
        .map(|entry| entry["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["deployed", "replaced"]);
    let again = hive.run(&[
        "deploy",
        &worker("counter"),
        "--as",
        "shop/counter",
        "--workers",
        "3",
    ]);
    let said = common::stdout(&again);
    assert!(said.contains("was already version 2"), "{said}");
}

#[test]
fn a_deployment_that_comes_again_changes_nothing() {
    deploys_once(&Hive::start());
}

#[test]
fn a_shared_deployment_that_comes_again_changes_nothing() {
    deploys_once(&Hive::with_config("[node]\nname = \"a\"\n"));
}
