//! Configuration that changes while a node runs.

#[allow(dead_code)]
mod common;

use std::time::{Duration, Instant};

use common::{Hive, stderr, stdout};
use rustix::process::Signal;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn key(hive: &Hive, key: &str) -> Value {
    hive.rest("GET", &format!("/api/v1/config/{key}"), "")
        .json()
}

fn set(hive: &Hive, key: &str, value: &Value) -> common::Answer {
    let body = json!({ "value": value }).to_string();
    hive.rest("PUT", &format!("/api/v1/config/{key}"), &body)
}

fn publish(hive: &Hive, queue: &str) -> u16 {
    let batch = json!({ "messages": [{ "body": "x" }] }).to_string();
    hive.rest("POST", &format!("/api/v1/queues/{queue}/messages"), &batch)
        .status
}

#[test]
fn every_key_says_what_it_is_and_where_that_comes_from() {
    let hive = Hive::with_config(
        "[[users]]\nname = \"alice\"\npassword = \"planted\"\n[gamq]\nallow_anonymous = true\n[deploy]\nwatch_interval_ms = 7000\n",
    );
    let all = hive.rest("GET", "/api/v1/config", "").json();
    let keys = all["keys"].as_array().unwrap();
    assert!(keys.len() > 80, "{}", keys.len());
    assert!(!all.to_string().contains("planted"));
    for (name, value, from, changeable) in [
        ("deploy.watch_interval_ms", json!(7000), "file", true),
        ("http.address", json!("127.0.0.1:0"), "flag", false),
        ("logs.filter", json!("trace"), "flag", true),
        ("broker.names_max", json!(100_000), "default", true),
        ("journal.segment_bytes", json!(1_048_576), "file", false),
    ] {
        let shown = key(&hive, name);
        assert_eq!(shown["value"], value, "{shown}");
        assert_eq!(
            (&shown["from"], &shown["changeable"]),
            (&json!(from), &json!(changeable))
        );
    }
    let users = key(&hive, "users");
    assert_eq!(users["value"][0]["name"], "alice");
    let table = stdout(&hive.run(&["config"]));
    assert!(
        table.contains("logs.filter") && table.contains("needs a restart"),
        "{table}"
    );
}

#[test]
fn a_change_takes_effect_at_once_and_survives_being_killed() {
    let mut hive = Hive::start();
    assert_eq!(
        (publish(&hive, "tight"), publish(&hive, "tight")),
        (200, 200),
        "the control"
    );
    let rules = json!([{ "name": "tight*", "messages_max": 2 }]);
    let answer = set(&hive, "broker.queues", &rules);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["changed"], true);
    assert_eq!(
        publish(&hive, "tight"),
        507,
        "a queue that is there has the new limit"
    );
    assert_eq!(publish(&hive, "wide"), 200);
    let answer = set(&hive, "broker.queues", &rules);
    assert_eq!(answer.json()["changed"], false, "once more is no change");
    hive.json(&[
        "config",
        "set",
        "alerts.rules",
        "[{\"name\": \"disk\", \"enabled\": false}]",
    ]);
    let names = |hive: &Hive| hive.rest("GET", "/api/v1/alerts/rules", "").body;
    assert!(!names(&hive).contains("\"disk\""), "{}", names(&hive));

    hive.signal(Signal::KILL);
    hive.exit_code();
    hive.start_again();
    assert_eq!(key(&hive, "broker.queues")["from"], "run-time");
    assert_eq!(publish(&hive, "tight"), 507);
    assert!(!names(&hive).contains("\"disk\""));
    let told = stdout(&hive.run(&["config", "unset", "broker.queues"]));
    assert!(told.contains("broker.queues is now []"), "{told}");
    assert_eq!(
        publish(&hive, "tight"),
        200,
        "what is configured holds again"
    );
    assert_eq!(key(&hive, "broker.queues")["from"], "default");

    let history = hive.rest("GET", "/api/v1/config/history", "").json();
    let changes = history["changes"].as_array().unwrap();
    let keys: Vec<&str> = changes
        .iter()
        .map(|change| change["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["broker.queues", "alerts.rules", "broker.queues"]);
    let oldest = &changes[2];
    assert_eq!(
        (&oldest["old"], &oldest["new"][0]["messages_max"]),
        (&json!([]), &json!(2))
    );
    assert_eq!(oldest["who"], "token");
    assert!(
        oldest["from"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{oldest}"
    );
    assert!(oldest["at_ms"].as_u64().unwrap() > 1_600_000_000_000);
    let table = stdout(&hive.run(&["config", "history"]));
    assert!(
        table.contains("alerts.rules") && table.contains("token"),
        "{table}"
    );
}

#[test]
fn what_the_node_logs_follows_the_filter() {
    let hive = Hive::start();
    let logged = |hive: &Hive, mark: &str| {
        let body = json!({ "value": mark.len() + 1 }).to_string();
        hive.rest("PUT", "/api/v1/config/logs.files_max", &body);
        hive.log().matches("the configuration was changed").count()
    };
    let before = logged(&hive, "a");
    assert!(before > 0, "the control: changes are logged");
    assert_eq!(set(&hive, "logs.filter", &json!("error")).status, 200);
    let quiet = logged(&hive, "abc");
    // The change of the filter itself may still have been told.
    assert!(quiet <= before + 1, "{quiet} after {before}");
    assert_eq!(
        set(&hive, "logs.filter", &json!("info,broker=debug")).status,
        200
    );
    until("it is told again", || {
        (logged(&hive, "abcdef") > quiet).then_some(())
    });
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_touched() {
    let hive = Hive::start();
    for (name, value, status, expected) in [
        ("broker.names_max", json!("many"), 400, "expected usize"),
        ("broker.names_max", json!(0), 400, "at least 1"),
        ("logs.filter", json!("a=b=c"), 400, "is no log filter"),
        (
            "alerts.rules",
            json!([{ "name": "a b" }]),
            400,
            "needs another name",
        ),
        (
            "broker.queues",
            json!([{ "name": "a", "tries": 1 }]),
            400,
            "unknown field",
        ),
        ("journal.sync", json!("off"), 409, "needs a restart"),
        ("logs.filtre", json!("info"), 404, "`logs.filter`"),
    ] {
        let problem = set(&hive, name, &value).problem(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{name}: {detail}");
    }
    hive.rest("DELETE", "/api/v1/config/journal.sync", "")
        .problem(409);
    let failed = hive.run(&["config", "set", "broker.names_max", "many"]);
    assert!(!failed.status.success() && stderr(&failed).contains("expected usize"));
    let history = hive.rest("GET", "/api/v1/config/history", "").json();
    assert_eq!(history["changes"], json!([]));
    assert_eq!(key(&hive, "broker.names_max")["value"], 100_000);
    assert!(!hive.data().join("config.json").exists());
}

#[test]
fn a_node_that_stands_alone_profiles_itself() {
    let hive = Hive::start();
    let out = hive.folder.path().join("flame.svg");
    let taken = std::thread::scope(|scope| {
        let out = out.to_str().unwrap();
        let profiling = scope.spawn(|| {
            hive.json(&[
                "node",
                "profile",
                "localhost",
                "--seconds",
                "2",
                "--out",
                out,
            ])
        });
        while !profiling.is_finished() {
            for _ in 0..50 {
                hive.rest("GET", "/metrics", "");
            }
        }
        profiling.join().unwrap()
    });
    assert!(taken["samples"].as_u64().unwrap() > 0, "{taken}");
    assert!(
        taken["folded"].as_str().unwrap().contains("hivewire"),
        "{taken}"
    );
    let picture = std::fs::read_to_string(out).unwrap();
    assert!(
        picture.starts_with("<svg") && picture.contains("samples"),
        "{picture}"
    );
    hive.rest("POST", "/api/v1/nodes/localhost/profile?seconds=61", "")
        .problem(400);
    hive.rest("POST", "/api/v1/nodes/nobody/profile?seconds=1", "")
        .problem(404);
}
