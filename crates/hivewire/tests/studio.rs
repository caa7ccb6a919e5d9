//! The studio as the binary serves it, to everybody but to no page of another origin, and what it asks the node for.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::Hive;
use serde_json::{Value, json};

#[test]
fn the_first_page_needs_no_token_and_may_do_little() {
    let hive = Hive::start();
    let page = hive.http("GET", "/", &[], "");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let policy = page.header("content-security-policy").unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self';",
        "style-src 'self';",
        "connect-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe-eval") && !policy.contains("script-src 'unsafe-inline'"));
    let old_link = format!("/?token={}", hive.token());
    assert_eq!(hive.http("GET", &old_link, &[], "").body, page.body);
    assert!(!page.body.contains(&hive.token()));
}

#[test]
fn what_the_page_names_is_there() {
    let hive = Hive::start();
    let page = hive.http("GET", "/", &[], "").body;
    let named = page.split('"').map(|name| name.trim_start_matches("./"));
    let named = named.map(|name| name.trim_start_matches('/'));
    let is_text = |name: &&str| name.ends_with(".js") || name.ends_with(".css");
    let assets = named.filter(|name| name.starts_with("assets/"));
    let assets: Vec<&str> = assets.filter(is_text).collect();
    assert!(
        !assets.is_empty() || page.contains("make build"),
        "a page without the studio says how to get it: {page}"
    );
    for asset in assets {
        let path = format!("/{asset}");
        let answer = hive.http("GET", &path, &[], "");
        assert_eq!(answer.status, 200, "{path}");
        let kept = answer.header("cache-control").unwrap();
        assert!(kept.contains("immutable"), "{kept}");
        let varies = answer.header("vary").unwrap();
        assert!(varies.eq_ignore_ascii_case("accept-encoding"), "{varies}");
        let known = format!("If-None-Match: {}", answer.header("etag").unwrap());
        assert_eq!(hive.http("GET", &path, &[&known], "").status, 304);
    }
    let none = hive.http("GET", "/assets/none.js", &[], "");
    assert_eq!(none.problem(404)["type"], "urn:hivewire:not-found");
}

#[test]
fn everything_else_is_as_closed_as_before() {
    let hive = Hive::start();
    for header in ["Host: evil.example", "Origin: http://evil.example"] {
        hive.http("GET", "/", &[header], "").problem(403);
        hive.http("GET", "/assets/x.js", &[header], "").problem(403);
    }
    for path in [
        "/assets",
        "/assets/../api/v1/queues",
        "/api/v1/queues",
        "/metrics",
    ] {
        let status = hive.http("GET", path, &[], "").status;
        assert!(
            [401, 404].contains(&status),
            "{path} answered {status} to whoever has no token"
        );
    }
    hive.http("POST", "/", &[], "").problem(401);
}

const FLOW: &str = r#"
flow = "numbers"

[stages.in]
plugin = "map"
parameters = { to = "{'number': event.number}" }
to = "out"

[stages.out]
plugin = "map"
parameters = { to = "event" }
to = "queue:numbers"
"#;

fn send(hive: &Hive, numbers: std::ops::Range<u64>) {
    let body = |number: u64| json!({ "body": json!({ "number": number }).to_string() });
    let messages = json!({ "messages": numbers.map(body).collect::<Vec<_>>() });
    let sent = hive.rest(
        "POST",
        "/api/v1/messages/numbers%2Fin",
        &messages.to_string(),
    );
    assert_eq!(sent.status, 200, "{sent:?}");
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn input(hive: &Hive, stage: &str) -> Value {
    let live = hive.rest("GET", "/api/v1/live?flow=numbers", "").json();
    live["stages"][stage].clone()
}

fn apply(hive: &Hive, delivery: &str) {
    let document = FLOW.replacen("\n\n", &format!("\ndelivery = \"{delivery}\"\n\n"), 1);
    let token = format!("Authorization: Bearer {}", hive.token());
    let headers = [token.as_str(), "Content-Type: application/toml"];
    let applied = hive.http("PUT", "/api/v1/documents/numbers", &headers, &document);
    assert_eq!(applied.status, 200, "{applied:?}");
}

#[test]
fn a_paused_stage_takes_nothing_until_it_goes_on() {
    for delivery in ["at-most-once", "state-once"] {
        let mut hive = Hive::start();
        apply(&hive, delivery);
        let paused = hive.json(&["pause", "numbers/out"]);
        assert_eq!(paused["paused"], true);
        send(&hive, 0..50);
        let waits = until("all wait", || {
            let out = input(&hive, "numbers/out");
            (out["input"]["queued"] == 50).then_some(out)
        });
        assert_eq!(
            (&waits["paused"], &waits["turns"]),
            (&json!(true), &json!(0))
        );
        let shown = hive.rest("GET", "/api/v1/flows/numbers/out", "").json();
        assert_eq!(shown["paused"], true, "{delivery}");
        let listed = common::stdout(&hive.run(&["ps", "numbers"]));
        assert!(listed.contains("paused"), "{listed}");
        // A document that is applied again lets it be.
        apply(&hive, delivery);
        if delivery == "state-once" {
            hive.restart();
            let out = input(&hive, "numbers/out");
            assert_eq!(out["paused"], true);
            assert_eq!(out["input"]["queued"], 50);
        }
        assert_eq!(input(&hive, "numbers/out")["turns"], 0);
        hive.json(&["resume", "numbers/out"]);
        until("all are done", || {
            let out = input(&hive, "numbers/out");
            (out["turns"] == 50 && out["paused"] == false).then_some(())
        });
    }
}

#[test]
fn a_sample_shows_what_goes_over_an_edge() {
    let hive = Hive::start();
    apply(&hive, "state-once");
    let path = "/api/v1/flows/numbers/in/sample?output=out&count=5";
    let sample = || hive.rest("GET", path, "").json();
    let first = sample();
    assert_eq!(
        (&first["seen"], &first["armed_ms"]),
        (&json!(0), &json!(30_000))
    );
    send(&hive, 0..100);
    let seen = until("all are seen", || {
        let sample = sample();
        (sample["seen"] == 100).then_some(sample)
    });
    let events = seen["events"].as_array().unwrap();
    assert!((1..=5).contains(&events.len()), "{seen}");
    for event in events {
        assert_eq!(event["to"], json!(["numbers/out"]));
        assert!(
            event["body"].as_str().unwrap().contains("number"),
            "{event}"
        );
        assert_eq!(event["body_bytes"], event["body"].as_str().unwrap().len());
    }
    let numbers: Vec<u64> = events
        .iter()
        .map(|e| e["number"].as_u64().unwrap())
        .collect();
    assert!(
        numbers.is_sorted_by(|a, b| a > b),
        "the newest first: {numbers:?}"
    );
    let none = hive.rest("GET", "/api/v1/flows/numbers/in/sample?output=x", "");
    none.problem(404);
}

#[test]
fn an_example_runs_with_its_files() {
    let hive = Hive::start();
    let list = hive.rest("GET", "/api/v1/examples", "").json();
    let ids: Vec<&str> = list["examples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|example| example["id"].as_str().unwrap())
        .collect();
    for id in [
        "live-sensors",
        "word-count",
        "sensor-alerts",
        "click-sessions",
        "order-enrichment",
        "site",
        "prices",
        "broken-links",
    ] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    let order = json!({ "flow": "my-words", "parameters": { "count": { "every": "1s" } } });
    let run = hive.rest("POST", "/api/v1/examples/word-count", &order.to_string());
    assert_eq!(run.json()["flow"], "my-words", "{run:?}");
    let document = hive.rest("GET", "/api/v1/documents/my-words", "").json();
    assert_eq!(document["stages"]["count"]["parameters"]["every"], "1s");
    assert_eq!(
        document["stages"]["count"]["parameters"]["by"],
        "event.word"
    );
    assert!(hive.data().join("files/text.txt").is_file());
    until("words are counted", || {
        let queue = hive.rest("GET", "/api/v1/queues/word-counts", "");
        (queue.status == 200 && queue.json()["waiting"] != 0).then_some(())
    });
    hive.rest("POST", "/api/v1/examples/none", "{}")
        .problem(404);
    let wrong = json!({ "parameters": { "none": {} } });
    hive.rest("POST", "/api/v1/examples/word-count", &wrong.to_string())
        .problem(400);
}

#[test]
fn clients_are_shown_and_can_be_hung_up_on() {
    let hive = Hive::start();
    let mut client = TcpStream::connect(hive.address("stomp")).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let frames = "CONNECT\naccept-version:1.2\nhost:/\n\n\0\
        SUBSCRIBE\nid:1\ndestination:/queue/orders\nack:client-individual\nprefetch-count:7\n\n\0\
        SEND\ndestination:/queue/orders\n\none coffee\0";
    client.write_all(frames.as_bytes()).unwrap();
    let shown = until("the client has a message", || {
        let page = hive.rest("GET", "/api/v1/clients", "").json();
        let client = page["clients"][0].clone();
        (client["received"] == 1).then_some(client)
    });
    assert_eq!(
        (&shown["protocol"], &shown["sent"], &shown["user"]),
        (&json!("stomp"), &json!(1), &Value::Null)
    );
    let address = client.local_addr().unwrap().to_string();
    assert_eq!(shown["address"], address);
    assert_eq!(
        shown["subscriptions"],
        json!([{ "destination": "queue:orders", "waiting_acks": 1, "prefetch": 7 }])
    );
    let path = format!("/api/v1/clients/{}", shown["id"]);
    assert_eq!(hive.rest("DELETE", &path, "").status, 200);
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    until("it is gone", || {
        let page = hive.rest("GET", "/api/v1/clients", "").json();
        page["clients"].as_array().unwrap().is_empty().then_some(())
    });
    hive.rest("DELETE", &path, "").problem(404);
    // What it had not acknowledged waits for the next one.
    let queue = hive.rest("GET", "/api/v1/queues/orders", "").json();
    assert_eq!(queue["waiting"], 1);
}
