//! Who changed something on the real binary, and when.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::Hive;
use serde_json::{Value, json};

const MESSAGE: &str = r#"{"messages":[{"body":"planted-body"}]}"#;

fn publish(hive: &Hive, queue: &str) -> u64 {
    let answer = hive.rest("POST", &format!("/api/v1/queues/{queue}/messages"), MESSAGE);
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut lines = answer.head.lines();
    let id = lines.find_map(|line| line.strip_prefix("hivewire-request: "));
    id.unwrap().parse().unwrap()
}

fn requests(hive: &Hive, query: &str) -> Vec<Value> {
    let answer = hive.rest("GET", &format!("/api/v1/requests{query}"), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["requests"].as_array().unwrap().clone()
}

fn paths(hive: &Hive, query: &str) -> Vec<String> {
    let path = |entry: &Value| entry["path"].as_str().unwrap().to_owned();
    requests(hive, query).iter().map(path).collect()
}

/// Everything in the files.
fn files(hive: &Hive) -> String {
    let folder = hive.data().join("requests");
    let files = fs::read_dir(folder).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    texts.collect()
}

#[test]
fn what_may_change_something_is_noted_and_nothing_else() {
    let mut hive = Hive::start();
    assert!(requests(&hive, "").is_empty());
    let began_ms = now_ms();
    let first = publish(&hive, "one");
    let second = publish(&hive, "two");
    hive.rest("DELETE", "/api/v1/queues/none", "").problem(404);
    hive.http("POST", "/api/v1/dead/purge", &[], "")
        .problem(401);
    hive.rest("GET", "/api/v1/queues", "");

    let noted = requests(&hive, "");
    let shown = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        let status = entry["status"].as_u64().unwrap();
        (text("method"), text("path"), text("who"), status)
    };
    let line = |method: &str, path: &str, who: &str, status: u64| {
        (method.to_owned(), path.to_owned(), who.to_owned(), status)
    };
    assert_eq!(
        noted.iter().map(shown).collect::<Vec<_>>(),
        [
            line("POST", "/api/v1/dead/purge", "nobody", 401),
            line("DELETE", "/api/v1/queues/none", "token", 404),
            line("POST", "/api/v1/queues/two/messages", "token", 200),
            line("POST", "/api/v1/queues/one/messages", "token", 200),
        ]
    );
    assert_eq!(
        (&noted[3]["id"], &noted[2]["id"]),
        (&json!(first), &json!(second))
    );
    for entry in &noted {
        assert!(entry["from"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert!(entry["at_ms"].as_u64().unwrap() >= began_ms, "{entry}");
        assert!(entry["took_us"].is_u64(), "{entry}");
    }

    assert_eq!(paths(&hive, "?status=404"), ["/api/v1/queues/none"]);
    assert_eq!(paths(&hive, "?path=/api/v1/queues").len(), 3);
    assert_eq!(
        paths(&hive, &format!("?before={second}&limit=1")),
        ["/api/v1/queues/one/messages"]
    );
    assert!(paths(&hive, &format!("?before={first}")).is_empty());
    for query in ["?limit=1001", "?before=x", "?later=1"] {
        hive.rest("GET", &format!("/api/v1/requests{query}"), "")
            .problem(400);
    }

    // They are there after a restart, too.
    hive.restart();
    let third = publish(&hive, "three");
    assert!(third > second);
    let after = requests(&hive, "");
    assert_eq!(after[1..], noted[..]);
    assert_eq!(after[0]["id"], third);
}

#[test]
fn neither_the_token_nor_bodies_are_kept() {
    let mut hive = Hive::start();
    let token = hive.token();
    let authorization = format!("Authorization: Bearer {token}");
    publish(&hive, "one");
    let with_query = format!("/api/v1/dead/purge?token={token}&planted-query");
    hive.http("POST", &with_query, &[&authorization], "");
    hive.rest("POST", &format!("/nothing/{token}"), &token)
        .problem(404);
    let encoded = format!("/nothing/%{:02x}{}", token.as_bytes()[0], &token[1..]);
    hive.rest("POST", &encoded, "").problem(404);
    let mut seen = hive.rest("GET", "/api/v1/requests", "").body;
    assert_eq!(requests(&hive, "?path=(not%20shown)").len(), 2);
    assert_eq!(hive.terminate(), Some(0), "{}", hive.log());
    seen.push_str(&files(&hive));
    assert!(seen.contains("/api/v1/dead/purge"), "{seen}");
    for secret in [token.as_str(), &token[1..], "planted-body", "planted-query"] {
        assert!(!seen.contains(secret), "{secret} shows in:\n{seen}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told_once_and_refuses_nothing() {
    let mut hive = Hive::start();
    assert_eq!(hive.terminate(), Some(0), "{}", hive.log());
    let folder = hive.data().join("requests");
    let _ = fs::remove_dir_all(&folder);
    fs::write(&folder, "this is no folder").unwrap();
    hive.start_again();
    let told = |hive: &Hive| hive.log().matches("requests cannot be written").count();
    publish(&hive, "one");
    let end = Instant::now() + Duration::from_secs(20);
    while told(&hive) == 0 {
        assert!(Instant::now() < end, "{}", hive.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    publish(&hive, "two");
    publish(&hive, "three");
    assert_eq!(requests(&hive, "").len(), 3);
    assert_eq!(hive.terminate(), Some(0), "{}", hive.log());
    assert_eq!(told(&hive), 1);
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_millis() as u64
}
