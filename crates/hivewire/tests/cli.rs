//! The commands of the real binary against a real node.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::Write;
use std::process::Stdio;

use common::{Hive, binary, stderr, stdout};
use serde_json::json;

fn pipe_into(hive: &Hive, arguments: &[&str], input: &[u8]) -> std::process::Output {
    let mut command = hive.command(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn arguments_files_and_standard_input_are_published() {
    let hive = Hive::start();
    let published = hive.json(&["pub", "q", "one", "two"]);
    assert_eq!(published, json!({ "accepted": 2, "ack_level": "synced" }));
    assert_eq!(
        stdout(&pipe_into(&hive, &["pub", "q"], b"three\nfour")),
        "2 messages to queue q (synced)\n"
    );
    let whole = pipe_into(
        &hive,
        &["pub", "q", "--whole", "--transient", "--header", "k=v"],
        b"five\nsix\n",
    );
    assert_eq!(stdout(&whole), "1 message to queue q (memory)\n");
    let file = hive.folder.path().join("lines");
    std::fs::write(&file, b"seven\n\xff\n").unwrap();
    hive.json(&["pub", "q", "--file", "lines"]);
    let taken = hive.run(&["sub", "q", "--count", "7"]);
    assert_eq!(
        taken.stdout,
        b"one\ntwo\nthree\nfour\nfive\nsix\n\nseven\n\xff\n"
    );
}

#[test]
fn messages_come_as_json_with_all_there_is_to_know() {
    let hive = Hive::start();
    hive.json(&["pub", "a/b", "one", "--header", "k=v=w"]);
    let message = hive.json(&["sub", "a/b", "--count", "1"]);
    assert_eq!(
        (&message["body"], &message["headers"]),
        (&json!("one"), &json!({ "k": "v=w" }))
    );
    assert_eq!(
        (&message["redelivered"], &message["tries"]),
        (&json!(false), &json!(0))
    );
    assert!(message["id"].is_u64() && message["published_at"].is_u64());
}

#[test]
fn a_timeout_is_told_from_success() {
    let hive = Hive::start();
    let code = |arguments: &[&str]| hive.run(arguments).status.code();
    assert_eq!(code(&["sub", "q", "--timeout", "0.05"]), Some(0));
    assert_eq!(
        code(&["sub", "q", "--timeout", "0.05", "--count", "1"]),
        Some(3)
    );
    assert_eq!(code(&["sub", "q", "--timeout", "soon"]), Some(2));
}

#[test]
fn queues_are_shown_with_depth_and_age() {
    let hive = Hive::start();
    hive.json(&["pub", "orders", "1", "2", "3"]);
    let queues = hive.json(&["queues"]);
    let orders = &queues["queues"][1];
    assert_eq!(
        (&orders["name"], &orders["waiting"]),
        (&json!("orders"), &json!(3))
    );
    for key in [
        "on_disk",
        "unacknowledged",
        "bytes",
        "consumers",
        "oldest_age_ms",
    ] {
        assert!(orders[key].is_u64(), "{key}");
    }
    let text = stdout(&hive.run(&["queues"]));
    let row = text
        .lines()
        .find(|line| line.starts_with("orders"))
        .unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some("3"), "{text}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let rate = || {
        hive.json(&["queues"])["queues"][1]["in_per_second"]
            .as_f64()
            .unwrap()
    };
    while rate() == 0.0 {
        assert!(std::time::Instant::now() < deadline, "no rate was measured");
        hive.json(&["pub", "orders", "more"]);
    }
}

#[test]
fn dead_letters_are_listed_replayed_and_purged() {
    let hive = Hive::with_config(
        "[[broker.queues]]\nname = \"small\"\nmessages_max = 1\nwhen_full = \"oldest-to-dead-letters\"",
    );
    hive.json(&["pub", "small", "a", "b", "c", "--header", "k=v"]);
    let list = hive.json(&["dead", "list"]);
    let letters = list["letters"].as_array().unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!(
        (&letters[0]["body"], &letters[0]["from"]),
        (&json!("a"), &json!("small"))
    );
    assert!(
        letters[0]["reason"].as_str().unwrap().contains("full"),
        "{list}"
    );
    let text = stdout(&hive.run(&["dead", "list"]));
    assert!(text.contains("small") && text.contains("full"), "{text}");

    // As long as the queue is full, nothing goes back, and nothing is lost.
    let refused = hive.run(&["dead", "replay"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("full"), "{}", stderr(&refused));
    assert_eq!(stdout(&hive.run(&["sub", "small", "--count", "1"])), "c\n");
    let id = letters[0]["id"].to_string();
    assert_eq!(
        hive.json(&["dead", "list", "--id", &id])["letters"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(hive.json(&["dead", "replay", "--id", &id])["replayed"], 1);
    let again = hive.json(&["sub", "small", "--count", "1"]);
    assert_eq!(
        (&again["body"], &again["redelivered"]),
        (&json!("a"), &json!(true))
    );
    assert_eq!(again["headers"], json!({ "k": "v" }));

    assert_eq!(
        hive.json(&["dead", "purge", "--from", "other"])["purged"],
        0
    );
    assert_eq!(
        hive.json(&["dead", "purge", "--from", "small"])["purged"],
        1
    );
    assert!(
        hive.json(&["dead", "list"])["letters"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn errors_say_what_to_do() {
    let hive = Hive::start();
    let failed = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let nobody = failed(binary().args(["queues", "--server", "http://127.0.0.1:1"]));
    assert!(nobody.contains("start it with `hivewire up`"), "{nobody}");
    let tls = failed(binary().args(["queues", "--server", "https://127.0.0.1"]));
    assert!(tls.contains("http://127.0.0.1:8000"), "{tls}");
    let no_token = failed(hive.command(&["queues", "--data", "elsewhere"]).env_clear());
    assert!(
        no_token.contains("needs a token") && no_token.contains("--token"),
        "{no_token}"
    );
    let wrong = failed(&mut hive.command(&["queues", "--token", "wrong-token-here"]));
    assert!(wrong.contains("does not accept"), "{wrong}");
    let bad_name = failed(&mut hive.command(&["pub", "a b", "x"]));
    assert!(bad_name.contains("white space"), "{bad_name}");
    let gamq = failed(&mut hive.command(&["bench", "--protocol", "gamq", "--durable"]));
    assert!(gamq.contains("--protocol stomp"), "{gamq}");
}

#[test]
fn the_token_is_found_from_folders_below() {
    let hive = Hive::start();
    let below = hive.data().with_file_name("project").join("src");
    std::fs::create_dir_all(&below).unwrap();
    let found = hive.command(&["queues"]).current_dir(&below).output();
    let found = found.unwrap();
    assert!(found.status.success(), "{}", stderr(&found));
    let elsewhere = tempfile::tempdir().unwrap();
    let not_found = hive.command(&["queues"]).current_dir(&elsewhere).output();
    let not_found = stderr(&not_found.unwrap());
    assert!(not_found.contains("needs a token"), "{not_found}");
}

#[test]
fn nobody_reading_the_output_is_no_error() {
    let hive = Hive::start();
    let many: Vec<String> = (0..2_000)
        .map(|n| format!("message {n} {}", "x".repeat(100)))
        .collect();
    pipe_into(&hive, &["pub", "q"], many.join("\n").as_bytes());
    let mut command = hive.command(&["sub", "q"]);
    let mut sub = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(sub.stdout.take());
    let output = sub.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn the_benchmark_measures_both_protocols() {
    let hive = Hive::start();
    for arguments in [
        [
            "bench",
            "--protocol",
            "stomp",
            "--messages",
            "3000",
            "--size",
            "64",
        ]
        .as_slice(),
        &[
            "bench",
            "--protocol",
            "gamq",
            "--messages",
            "3000",
            "--producers",
            "2",
            "--consumers",
            "2",
        ],
        &["bench", "--durable", "--messages", "500", "--window", "50"],
    ] {
        let result = hive.json(arguments);
        assert!(
            result["messages_per_second"].as_f64().unwrap() > 0.0,
            "{result}"
        );
        assert!(
            result["latency_us"]["p50"].as_u64().unwrap() > 0,
            "{result}"
        );
        let durable = result["durable"] == true;
        assert_eq!(durable, result["syncs"].as_u64().unwrap() > 0, "{result}");
    }
    let queues = hive.json(&["queues"]);
    let left = queues["queues"].as_array().unwrap().iter();
    assert_eq!(
        left.map(|queue| queue["waiting"].as_u64().unwrap())
            .sum::<u64>(),
        0
    );
}

#[test]
fn completion_scripts_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = binary().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(stdout(&output).contains("hivewire"));
    }
}
