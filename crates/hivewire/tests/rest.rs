//! The REST interface of the real binary: what it gives, and whom it refuses.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::Hive;
use serde_json::json;

#[test]
fn the_token_is_needed_everywhere_but_for_health() {
    let hive = Hive::start();
    for path in ["/metrics", "/api/v1/node", "/api/v1/queues", "/nothing"] {
        let problem = hive.http("GET", path, &[], "").problem(401);
        assert_eq!(problem["type"], "urn:hivewire:token-needed");
    }
    let wrong = ["Authorization: Bearer 0000000000000000"];
    hive.http("GET", "/api/v1/queues", &wrong, "").problem(401);
    let prefix = format!("Authorization: Bearer {}", &hive.token()[..10]);
    hive.http("GET", "/api/v1/queues", &[&prefix], "")
        .problem(401);
    let by_address = format!("/api/v1/queues?token={}", hive.token());
    hive.http("GET", &by_address, &[], "").problem(401);
    assert_eq!(hive.http("GET", "/health", &[], "").status, 200);
    assert_eq!(hive.rest("GET", "/api/v1/queues", "").status, 200);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let hive = Hive::with_config("[http]\nhosts = [\"hive.example\"]");
    let token = format!("Authorization: Bearer {}", hive.token());
    let address = hive.address("http");
    let ask = |header: &str| hive.http("GET", "/api/v1/queues", &[&token, header], "");
    for header in [
        "Host: evil.example",
        "Host: 127.0.0.1:1",
        "Host: localhost",
        "Origin: http://evil.example",
        "Origin: null",
        &format!("Origin: https://{address}"),
    ] {
        ask(header).problem(403);
    }
    hive.http("GET", "/health", &["Host: evil.example"], "")
        .problem(403);
    for header in [
        format!("Host: localhost:{}", address.port()),
        format!("Origin: http://{address}"),
        "Host: hive.example".to_owned(),
    ] {
        assert_eq!(ask(&header).status, 200, "{header}");
    }
}

#[test]
fn every_error_is_a_problem_document() {
    let hive = Hive::start();
    hive.rest("GET", "/nothing", "").problem(404);
    hive.rest("GET", "/api/v1/queues/none", "").problem(404);
    hive.rest("GET", "/api/v1/queues/none/messages", "")
        .problem(404);
    hive.rest("DELETE", "/api/v1/queues/none", "").problem(404);
    hive.rest("GET", "/api/v1/topics/none", "").problem(404);
    let answer = hive.rest("PUT", "/api/v1/queues", "");
    answer.problem(405);
    assert!(answer.head.contains("allow: get"), "{answer:?}");
    let publish = |body: &str| hive.rest("POST", "/api/v1/queues/q/messages", body);
    for body in [
        "",
        "{",
        "{}",
        "{\"messages\":1}",
        "{\"messages\":[{}]}",
        "{\"messages\":[{\"body\":\"a\",\"body_base64\":\"YQ==\"}]}",
        "{\"messages\":[{\"body_base64\":\"*\"}]}",
        "{\"messages\":[],\"more\":1}",
    ] {
        publish(body).problem(400);
    }
    let deep = "[".repeat(100_000);
    publish(&deep).problem(400);
    hive.rest("POST", "/api/v1/queues/a%20b/messages", "")
        .problem(400);
    hive.rest("GET", "/api/v1/queues/%FF/messages", "")
        .problem(400);
    hive.rest("GET", "/api/v1/dead?limit=many", "").problem(400);
    hive.rest("GET", "/api/v1/dead?limit=100000", "")
        .problem(400);
    hive.rest("GET", "/api/v1/queues/q/stream?maximum=1", "")
        .problem(400);
    hive.rest("POST", "/api/v1/dead/purge", "[]").problem(400);
    hive.rest("DELETE", "/api/v1/queues/hivewire.dead", "")
        .problem(409);
    assert!(
        hive.rest("GET", "/api/v1/queues/q", "").status == 404,
        "nothing was published"
    );
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_read() {
    let hive = Hive::start();
    let token = format!("Authorization: Bearer {}", hive.token());
    let long = ["Content-Length: 99999999999", &token];
    // The helper adds its own length, which would contradict: so ask by hand.
    let answer = hive.raw("POST", "/api/v1/queues/q/messages", &long);
    answer.problem(413);
    let answer = hive.raw(
        "POST",
        "/api/v1/dead/purge",
        &["Content-Length: 70000", &token],
    );
    answer.problem(413);
}

#[test]
fn messages_are_published_looked_at_and_taken() {
    let hive = Hive::start();
    let path = "/api/v1/queues/orders%2Fnew";
    let token = format!("Authorization: Bearer {}", hive.token());
    let headers = [
        &token,
        "Hivewire-Header-Colour: blue",
        "Content-Type: text/plain",
    ];
    let answer = hive.http("POST", &format!("{path}/messages"), &headers, "one");
    assert_eq!(
        answer.json(),
        json!({ "accepted": 1, "ack_level": "synced" })
    );
    let transient = [&token, "Hivewire-Durable: false"];
    let answer = hive.http("POST", &format!("{path}/messages"), &transient, "two");
    assert_eq!(
        answer.json(),
        json!({ "accepted": 1, "ack_level": "memory" })
    );
    let unclear = [&token, "Hivewire-Durable: maybe"];
    hive.http("POST", &format!("{path}/messages"), &unclear, "three")
        .problem(400);

    let peeked = hive
        .rest("GET", &format!("{path}/messages?limit=5"), "")
        .json();
    assert_eq!(peeked["messages"][0]["body"], "one");
    let headers = json!({ "colour": "blue", "content-type": "text/plain" });
    assert_eq!(peeked["messages"][0]["headers"], headers);
    assert_eq!(peeked["messages"].as_array().unwrap().len(), 2);
    let queue = hive.rest("GET", path, "").json();
    assert_eq!(
        (&queue["name"], &queue["waiting"]),
        (&json!("orders/new"), &json!(2))
    );

    let taken = hive.rest("GET", &format!("{path}/stream?max=1"), "");
    assert!(
        taken.head.contains("content-type: application/x-ndjson"),
        "{taken:?}"
    );
    assert!(
        taken.body.contains("\"body\":\"one\"") && !taken.body.contains("two"),
        "{taken:?}"
    );
    let queue = hive.rest("GET", path, "").json();
    assert_eq!(
        (&queue["waiting"], &queue["consumers"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(hive.rest("DELETE", path, "").json()["removed"], 1);
    assert_eq!(hive.rest("GET", path, "").json()["waiting"], 0);
}

#[test]
fn a_full_queue_says_how_much_it_took() {
    let hive = Hive::with_config("[[broker.queues]]\nname = \"small\"\nmessages_max = 2");
    let batch = r#"{"messages":[{"body":"a"},{"body":"b"},{"body":"c"}]}"#;
    let problem = hive
        .rest("POST", "/api/v1/queues/small/messages", batch)
        .problem(507);
    assert_eq!(problem["accepted"], 2);
    assert_eq!(problem["type"], "urn:hivewire:full");
}

#[test]
fn a_topic_streams_what_is_published_from_then_on() {
    let hive = Hive::start();
    let publish = || {
        hive.rest(
            "POST",
            "/api/v1/topics/news/messages",
            r#"{"messages":[{"body":"hi"}]}"#,
        )
    };
    assert_eq!(publish().json()["ack_level"], "memory");
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| hive.rest("GET", "/api/v1/topics/news/stream?max=1", ""));
        while hive.rest("GET", "/api/v1/topics/news", "").json()["consumers"] != 1 {
            std::thread::yield_now();
        }
        publish();
        assert!(stream.join().unwrap().body.contains("\"body\":\"hi\""));
    });
    let topics = hive.rest("GET", "/api/v1/topics", "").json();
    let mut topics = topics["topics"].as_array().unwrap().iter();
    let news = topics.find(|topic| topic["name"] == "news").unwrap();
    assert_eq!(news["totals"]["published"], 2);
}

#[test]
fn node_and_metrics_tell_what_happened() {
    let hive = Hive::start();
    hive.json(&["pub", "quo\"ted", "a"]);
    let node = hive.rest("GET", "/api/v1/node", "").json();
    assert_eq!(node["journal"]["state"], "ok");
    assert_eq!(node["listeners"].as_array().unwrap().len(), 4);
    let metrics = hive.rest("GET", "/metrics", "").body;
    for line in [
        "hivewire_journal_records_total 1",
        "hivewire_queue_messages{queue=\"quo\\\"ted\"} 1",
        "hivewire_queue_published_total{queue=\"quo\\\"ted\"} 1",
        "# TYPE hivewire_delivery_seconds histogram",
        "hivewire_connections{protocol=\"stomp\"} 0",
    ] {
        assert!(
            metrics.lines().any(|l| l == line),
            "{line} is missing in:\n{metrics}"
        );
    }
    let syncs = metrics
        .lines()
        .find_map(|l| l.strip_prefix("hivewire_journal_syncs_total "));
    assert!(syncs.unwrap().parse::<u64>().unwrap() >= 1);
}

/// Every secret that a node knows is planted here, and must not turn up in what it logs at the
/// finest level, nor in what it answers.
#[test]
fn secrets_never_show() {
    let hive = Hive::with_config(
        "gamq.allow_anonymous = true\n[[users]]\nname = \"alice\"\npassword = \"planted-password\"",
    );
    let token = hive.token();
    let mut seen = String::new();
    seen.push_str(&hive.rest("GET", "/api/v1/node", "").body);
    seen.push_str(&hive.rest("GET", "/metrics", "").body);
    seen.push_str(
        &hive
            .rest("POST", "/api/v1/dead/purge", &format!("{{\"{token}\":1"))
            .head,
    );
    seen.push_str(&hive.http("GET", &format!("/?token={token}"), &[], "").body);
    seen.push_str(
        &hive
            .http("GET", &format!("/nothing?token={token}"), &[], "")
            .body,
    );
    for arguments in [
        ["queues", "--token", &token],
        ["queues", "--token", "planted-wrong-token"],
    ] {
        let output = hive.run(&arguments);
        seen.push_str(&common::stdout(&output));
        seen.push_str(&common::stderr(&output));
    }
    seen.push_str(&hive.log());
    assert!(seen.contains("version"), "something was seen at all");
    for secret in [token.as_str(), "planted-password", "planted-wrong-token"] {
        assert!(!seen.contains(secret), "{secret} shows in:\n{seen}");
    }
    // The control: the search does find what is there.
    assert!(hive.ready["studio"].as_str().unwrap().contains(&token));
}

/// What lies unread when a connection ends takes the rest of the answer with it.
#[test]
fn a_large_answer_comes_whole_though_nobody_wants_the_body() {
    let hive = Hive::start();
    let (address, token) = (hive.address("http"), hive.token());
    let head = format!(
        "GET /api/v1/openapi.json HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    );
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(common::TIMEOUT)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // Meanwhile the node could answer.
        assert_eq!(hive.rest("GET", "/api/v1/node", "").status, 200);
        let _ = stream.write_all(b"{}");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        assert!(read.is_ok(), "{read:?} after {} bytes", answer.len());
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.to_lowercase().contains(&length), "{head}");
    }
}
