//! Logs of one node: kept in files with bounds, read back, followed, and without secrets.

#[allow(dead_code)]
mod common;

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Hive, stdout};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);
const FILE_BYTES_MAX: u64 = 65_536;
const FILES_MAX: usize = 3;

fn small_files() -> Hive {
    Hive::with_config(&format!(
        "[logs]\nfile_bytes_max = {FILE_BYTES_MAX}\nfiles_max = {FILES_MAX}\n"
    ))
}

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

fn deploy_chatty(hive: &Hive) {
    let component = build::test_worker("chatty").unwrap_or_else(|error| panic!("{error}"));
    let component = component.to_str().unwrap();
    hive.json(&["deploy", component, "--as", "t/chatty", "--no-watch"]);
}

/// Lets the worker write these lines.
fn write(hive: &Hive, lines: impl Iterator<Item = String>) {
    let messages: Vec<Value> = lines.map(|body| json!({ "body": body })).collect();
    let batch = json!({ "messages": messages }).to_string();
    let sent = hive.rest("POST", "/api/v1/messages/t%2Fchatty", &batch);
    assert_eq!(sent.status, 200, "{sent:?}");
}

/// Lines of `GET /api/v1/logs`, which ends without `follow`.
fn logs(hive: &Hive, query: &str) -> Vec<Value> {
    let mut command = hive.command(&["logs", "--all", "--json"]);
    let output = command.args(query.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", common::stderr(&output));
    let lines = stdout(&output);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn texts(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["line"].as_str().unwrap())
        .collect()
}

fn files(hive: &Hive) -> Vec<(PathBuf, u64)> {
    let found = fs::read_dir(hive.data().join("logs")).into_iter().flatten();
    // The oldest may go while we look.
    let sized = found.filter_map(|file| {
        let file = file.ok()?;
        Some((file.path(), file.metadata().ok()?.len()))
    });
    sized.collect()
}

#[test]
fn files_are_bounded_and_the_newest_lines_are_in_them() {
    let hive = small_files();
    deploy_chatty(&hive);
    let mut seen = HashSet::new();
    for round in 0..10 {
        write(
            &hive,
            (0..500).map(|n| format!("line {round} {n} {}", "x".repeat(100))),
        );
        let last = format!("line {round} 499 ");
        until("the last line of a round", || {
            let lines = logs(&hive, "--stage t/chatty --tail 1");
            let files = files(&hive);
            assert!(
                files.len() <= FILES_MAX + 1,
                "one may be about to go: {files:?}"
            );
            assert!(
                files.iter().all(|(_, bytes)| *bytes <= FILE_BYTES_MAX),
                "{files:?}"
            );
            seen.extend(files.into_iter().map(|(path, _)| path));
            texts(&lines)
                .iter()
                .any(|text| text.starts_with(&last))
                .then_some(())
        });
    }
    assert!(seen.len() > FILES_MAX, "files came and went: {seen:?}");
    until("the oldest file is gone", || {
        (files(&hive).len() <= FILES_MAX).then_some(())
    });
    // The control: what was written first is no longer there.
    let all = logs(&hive, "--stage t/chatty --tail 10000");
    assert!(all.len() > 100 && !texts(&all).iter().any(|text| text.starts_with("line 0 ")));
    let numbers: Vec<u64> = all
        .iter()
        .map(|line| line["id"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted());
}

#[test]
fn logs_are_chosen_by_level_stage_and_time() {
    let hive = Hive::start();
    deploy_chatty(&hive);
    write(
        &hive,
        ["hello".to_owned(), "warn of this".to_owned()].into_iter(),
    );
    let lines = until("both lines", || {
        let lines = logs(&hive, "--stage t/chatty");
        (lines.len() == 2).then_some(lines)
    });
    assert_eq!(texts(&lines), ["hello", "warn of this"]);
    for (key, value) in [
        ("stage", "t/chatty"),
        ("worker", "t/chatty/0"),
        ("level", "info"),
    ] {
        assert_eq!(lines[0][key], value, "{lines:?}");
    }
    assert!(
        lines[0]["node"]
            .as_str()
            .is_some_and(|node| !node.is_empty())
    );
    assert!(lines[0]["at_ms"].as_u64().unwrap() > 1_600_000_000_000);
    assert_eq!(
        texts(&logs(&hive, "--stage t/chatty --level warn")),
        ["warn of this"]
    );
    assert!(texts(&logs(&hive, "--level warn --since 10m")).contains(&"warn of this"));
    let own = logs(&hive, "--tail 10000");
    let is_own = |line: &&Value| {
        line["target"]
            .as_str()
            .is_some_and(|t| t.starts_with("hivewire"))
    };
    assert!(
        own.iter().any(|line| is_own(&line)),
        "the node says something, too"
    );
    let later = hive.rest("GET", "/api/v1/logs?since_ms=99999999999999", "");
    assert_eq!(
        (later.status, later.body.trim_matches(['0', '\r', '\n'])),
        (200, "")
    );
    for (query, expected) in [
        ("level=loud", "is no level"),
        ("limit=10001", "at most"),
        ("stage=x", "x"),
    ] {
        let problem = hive
            .rest("GET", &format!("/api/v1/logs?{query}"), "")
            .problem(400);
        assert!(
            problem["detail"].as_str().unwrap().contains(expected),
            "{problem}"
        );
    }
    hive.rest("GET", "/api/v1/logs?node=nobody", "")
        .problem(404);
}

#[test]
fn what_is_written_is_followed() {
    let hive = Hive::start();
    deploy_chatty(&hive);
    let follow = [
        "logs", "--all", "-f", "--json", "--stage", "t/chatty", "--tail", "1000",
    ];
    let mut following = hive.command(&follow);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(following.stdout.take().unwrap()).lines();
    write(&hive, (0..50).map(|n| format!("line {n}")));
    let seen: Vec<u64> = lines
        .take(50)
        .map(|line| {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let text = line["line"].as_str().unwrap().to_owned();
            text.strip_prefix("line ").unwrap().parse().unwrap()
        })
        .collect();
    following.kill().unwrap();
    following.wait().unwrap();
    // Whether a line was the past or came later, none is there twice or missing.
    let all: Vec<u64> = (0..50).collect();
    assert_eq!(seen, all);
}

#[test]
fn lines_of_before_a_restart_are_shown() {
    let mut hive = Hive::start();
    deploy_chatty(&hive);
    write(&hive, ["before".to_owned()].into_iter());
    let shown = |hive: &Hive| stdout(&hive.run(&["logs", "t/chatty"]));
    until("the line", || shown(&hive).contains("before").then_some(()));
    hive.restart();
    write(&hive, ["after".to_owned()].into_iter());
    until("both lines", || {
        let shown = shown(&hive);
        let (before, after) = (shown.find(" before")?, shown.find(" after")?);
        (before < after).then_some(())
    });
    let only = stdout(&hive.run(&["logs", "t/chatty", "--tail", "1"]));
    assert!(only.contains("after") && !only.contains("before"), "{only}");
    let both = stdout(&hive.run(&["logs", "t/chatty", "--tail", "2"]));
    assert!(both.contains("after") && both.contains("before"), "{both}");
}

/// Everything secret that a node knows is planted, and must turn up neither in files nor in the stream,
/// although the node logs at the finest level.
#[test]
fn no_secret_gets_into_the_logs() {
    let hive = Hive::with_config(
        "gamq.allow_anonymous = true\n\
         [[users]]\nname = \"alice\"\npassword = \"planted-password\"\n\
         [[alerts.webhooks]]\nurl = \"http://127.0.0.1:1/planted-path\"\nbearer = \"planted-bearer\"\n\
         [[plugins.repositories]]\nname = \"other\"\nlocation = \"http://127.0.0.1:1\"\ntoken = \"planted-repository\"\n",
    );
    let token = hive.token();
    hive.http("GET", &format!("/?token={token}"), &[], "");
    hive.http("GET", &format!("/nothing?token={token}"), &[], "");
    hive.rest("POST", "/api/v1/alerts/test", "");
    hive.rest("GET", "/api/v1/plugins", "");
    hive.rest("GET", "/api/v1/config", "");
    hive.rest(
        "PUT",
        "/api/v1/config/users",
        "{\"value\": \"planted-value\"}",
    )
    .problem(409);
    hive.rest(
        "PUT",
        "/api/v1/config/broker.names_max",
        "{\"value\": \"planted-value\"}",
    )
    .problem(400);
    hive.rest("PUT", "/api/v1/config/logs.files_max", "{\"value\": 9}");
    let mut stream = String::new();
    until("the change is in the log", || {
        stream = hive.rest("GET", "/api/v1/logs?limit=10000", "").body;
        stream
            .contains("the configuration was changed")
            .then_some(())
    });
    let mut seen = stream + &hive.log();
    for (file, _) in files(&hive) {
        seen.push_str(&fs::read_to_string(file).unwrap());
    }
    for secret in [token.as_str(), "planted"] {
        assert!(!seen.contains(secret), "{secret} shows in:\n{seen}");
    }
}
