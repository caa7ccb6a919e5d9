//! Components deployed into the real binary, and what becomes of them.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Hive, stderr, stdout};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);

fn component(name: &str) -> PathBuf {
    build::test_worker(name).unwrap_or_else(|error| panic!("{error}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Puts a component into place as build tools do.
fn install(component: &Path, place: &Path) {
    let beside = place.with_extension("new");
    std::fs::copy(component, &beside).unwrap();
    std::fs::rename(&beside, place).unwrap();
}

fn ask(hive: &Hive, stage: &str) -> String {
    let reply = hive.run(&["ask", stage, "hi", "--timeout", "20s"]);
    assert!(reply.status.success(), "{}", stderr(&reply));
    stdout(&reply).trim_end().to_owned()
}

fn events(hive: &Hive, stage: &str) -> Vec<(String, u64)> {
    let history = hive.json(&["history", stage]);
    let entries = history["history"].as_array().unwrap().iter();
    let event = |entry: &Value| {
        let event = entry["event"].as_str().unwrap().to_owned();
        (event, entry["version"].as_u64().unwrap())
    };
    entries.map(event).collect()
}

fn refused(hive: &Hive, arguments: &[&str]) -> String {
    let output = hive.run(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    stderr(&output)
}

#[test]
fn a_worker_is_deployed_sent_to_asked_restarted_and_stopped() {
    let hive = Hive::start();
    assert!(stdout(&hive.run(&["ps"])).contains("nothing is deployed"));
    let counter = component("counter");
    let deployed = hive.json(&["deploy", text(&counter), "--as", "shop/counter"]);
    assert_eq!(
        (&deployed["version"], &deployed["replaced"]),
        (&json!(1), &json!(false))
    );

    assert_eq!(hive.json(&["send", "shop/counter", "one"])["accepted"], 1);
    assert_eq!(ask(&hive, "shop/counter"), "2/2");
    let reply = hive.json(&["ask", "shop/counter/0", "hi"]);
    assert_eq!(reply["body"], "3/3");

    let flows = hive.json(&["ps"]);
    let stage = &flows["flows"][0]["stages"][0];
    assert_eq!(stage["spec"]["address"], "shop/counter");
    assert_eq!(
        (&stage["state"], &stage["version"]),
        (&json!("running"), &json!(1))
    );
    assert_eq!(stage["deployment"]["source"], text(&counter));
    let table = stdout(&hive.run(&["ps", "shop/counter"]));
    assert!(
        table.contains("shop/counter/0") && table.contains("(watched)"),
        "{table}"
    );
    let metrics = hive.rest("GET", "/metrics", "").body;
    let turns = "hivewire_stage_turns_total{flow=\"shop\",stage=\"counter\"} 3";
    assert!(metrics.lines().any(|line| line == turns), "{metrics}");

    hive.json(&["restart", "shop/counter"]);
    assert!(ask(&hive, "shop/counter").ends_with("/4"));
    hive.json(&["restart", "shop/counter", "--reset"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");

    let unknown = refused(&hive, &["ask", "shop/contour", "hi"]);
    assert!(unknown.contains("did you mean shop/counter?"), "{unknown}");
    hive.json(&["stop", "shop/counter"]);
    assert_eq!(hive.json(&["ps"])["flows"], json!([]));
    assert_eq!(
        events(&hive, "shop/counter")
            .iter()
            .map(|(event, _)| event.as_str())
            .collect::<Vec<_>>(),
        ["deployed", "restarted", "restarted", "stopped"]
    );
    let again = hive.json(&["deploy", text(&counter), "--as", "shop/counter"]);
    assert_eq!(again["version"], 2);
    hive.json(&["stop", "shop"]);
    let unknown = refused(&hive, &["stop", "shop"]);
    assert!(unknown.contains("no flow shop"), "{unknown}");
}

#[test]
fn nobody_answering_has_an_exit_code_of_its_own() {
    let hive = Hive::start();
    let silent = hive.run(&["ask", "queue:nobody", "hi", "--timeout", "100ms"]);
    assert_eq!(silent.status.code(), Some(3), "{}", stderr(&silent));
    assert!(
        stderr(&silent).contains("queue:nobody"),
        "{}",
        stderr(&silent)
    );
    let path = "/api/v1/asks/queue%3Anobody?timeout_ms=50";
    let answer = hive.rest("POST", path, r#"{"messages":[{"body":"hi"}]}"#);
    assert_eq!(answer.problem(504)["type"], "urn:hivewire:no-reply");
}

#[test]
fn what_does_not_fit_is_refused_and_the_old_goes_on() {
    let hive = Hive::start();
    let counter = component("counter");
    hive.json(&["deploy", text(&counter), "--as", "shop/counter"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");

    let junk = hive.folder.path().join("junk.wasm");
    std::fs::write(&junk, "this is no component").unwrap();
    let why = refused(&hive, &["deploy", text(&junk), "--as", "shop/counter"]);
    assert!(why.contains("not a WebAssembly component"), "{why}");
    let request = json!({ "as": "shop/counter", "source": text(&junk) }).to_string();
    let problem = hive
        .rest("POST", "/api/v1/deployments", &request)
        .problem(422);
    assert_eq!(problem["check"], "component");

    for (name, expected) in [
        ("broken-init", "this worker cannot begin"),
        ("broken-load", "a snapshot of 8 bytes"),
        ("capability", "send:queue:audit"),
    ] {
        let broken = component(name);
        let why = refused(&hive, &["deploy", text(&broken), "--as", "shop/counter"]);
        assert!(why.contains(expected), "{name}: {why}");
        let request = json!({ "as": "shop/counter", "source": text(&broken) }).to_string();
        let problem = hive
            .rest("POST", "/api/v1/deployments", &request)
            .problem(422);
        assert_eq!(problem["check"], "stage", "{name}");
    }
    let missing = json!({ "as": "shop/counter", "source": "/nowhere.wasm" }).to_string();
    let problem = hive
        .rest("POST", "/api/v1/deployments", &missing)
        .problem(422);
    assert_eq!(problem["check"], "source");

    assert_eq!(ask(&hive, "shop/counter"), "2/2");
    let events = events(&hive, "shop/counter");
    assert_eq!(
        events
            .iter()
            .filter(|(event, _)| event == "refused")
            .count(),
        9,
        "{events:?}"
    );
    // What was never deployed is not listed.
    refused(&hive, &["deploy", text(&junk), "--as", "shop/junk"]);
    assert!(!stdout(&hive.run(&["ps"])).contains("shop/junk"));
}

#[test]
fn a_changed_file_takes_over_and_a_broken_one_does_not() {
    let hive = Hive::start();
    let place = hive.folder.path().join("counter.wasm");
    install(&component("counter"), &place);
    hive.json(&["deploy", text(&place), "--as", "shop/counter"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");

    // Broken versions of every kind come and go, and the old one answers.
    std::fs::write(&place, "half a compo").unwrap();
    until("the refusal", || {
        events(&hive, "shop/counter")
            .iter()
            .any(|(event, _)| event == "refused")
            .then_some(())
    });
    assert_eq!(ask(&hive, "shop/counter"), "2/2");
    install(&component("counter-v2"), &place);
    let reply = until("version two", || {
        Some(ask(&hive, "shop/counter")).filter(|reply| reply.starts_with("v2:"))
    });
    let (memory, state) = reply["v2:".len()..].split_once('/').unwrap();
    assert_eq!(memory, state, "what was counted in memory went over");
    assert!(
        events(&hive, "shop/counter")
            .iter()
            .any(|(event, _)| event == "replaced")
    );

    // This one fails in its first turn: the one before comes back.
    install(&component("broken-handle"), &place);
    until("the rollback", || {
        // Whoever is asked while it fails gets no answer.
        hive.run(&["ask", "shop/counter", "hi", "--timeout", "200ms"]);
        events(&hive, "shop/counter")
            .iter()
            .any(|(event, _)| event == "rolled-back")
            .then_some(())
    });
    until("version two again", || {
        let reply = hive.run(&["ask", "shop/counter", "hi", "--timeout", "2s"]);
        stdout(&reply).starts_with("v2:").then_some(())
    });
    let stage = hive.json(&["ps", "shop/counter"]);
    assert!(stage["deployment"]["refused_digest"].is_string(), "{stage}");
}

#[test]
fn a_restart_of_the_node_brings_everything_back() {
    let mut hive = Hive::start();
    let place = hive.folder.path().join("counter.wasm");
    install(&component("counter"), &place);
    hive.json(&[
        "deploy",
        text(&place),
        "--as",
        "shop/counter",
        "--workers",
        "2",
    ]);
    install(&component("counter-v2"), &place);
    until("version two", || {
        let stage = hive.json(&["ps", "shop/counter"]);
        (stage["version"] == 2).then_some(())
    });
    ask(&hive, "shop/counter");
    let lost = hive.folder.path().join("lost.wasm");
    install(&component("echo"), &lost);
    hive.json(&["deploy", text(&lost), "--as", "shop/lost", "--no-watch"]);
    let digest = hive.json(&["ps", "shop/lost"])["code"]["digest"].clone();
    let history = events(&hive, "shop/counter");

    // The source is not needed for a restart, but the component is.
    std::fs::remove_file(&place).unwrap();
    let kept = hive
        .data()
        .join("components")
        .join(format!("{}.wasm", digest.as_str().unwrap()));
    assert_eq!(hive.terminate(), Some(0), "{}", hive.log());
    std::fs::write(&kept, "damaged").unwrap();
    hive.start_again();

    let stage = hive.json(&["ps", "shop/counter"]);
    assert_eq!(
        (&stage["version"], &stage["workers_count"]),
        (&json!(2), &json!(2))
    );
    assert!(ask(&hive, "shop/counter").starts_with("v2:"));
    assert_eq!(events(&hive, "shop/counter"), history);
    let failed = hive.json(&["ps", "shop/lost"]);
    assert_eq!(failed["state"], "failed");
    let reason = failed["deployment"]["failure"].as_str().unwrap();
    assert!(reason.contains("damaged"), "{reason}");
    hive.json(&["deploy", text(&lost), "--as", "shop/lost"]);
    assert_eq!(ask(&hive, "shop/lost"), "hi");

    // Versions go on where they were.
    install(&component("counter"), &place);
    until("version three", || {
        let stage = hive.json(&["ps", "shop/counter"]);
        (stage["version"] == 3).then_some(())
    });
}

#[test]
fn a_component_is_fetched_and_watched_over_http() {
    let hive = Hive::with_config("[deploy]\nallow_private_sources = true\nwatch_interval_ms = 50");
    let server = Server::start(&component("counter"));
    let uri = format!("http://{}/counter.wasm", server.address);
    hive.json(&["deploy", &uri, "--as", "shop/counter"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    until("a question with the ETag", || {
        (server.state.lock().unwrap().not_modified > 2).then_some(())
    });
    server.offer(&component("counter-v2"));
    until("version two", || {
        Some(ask(&hive, "shop/counter")).filter(|reply| reply.starts_with("v2:"))
    });
    server.state.lock().unwrap().missing = true;
    until("the trouble", || {
        let stage = hive.json(&["ps", "shop/counter"]);
        let trouble = stage["deployment"]["trouble"].as_str()?;
        trouble.contains("404").then_some(())
    });
    assert!(ask(&hive, "shop/counter").starts_with("v2:"));
}

#[test]
fn a_private_address_is_no_source_unless_it_is_allowed() {
    let hive = Hive::start();
    let server = Server::start(&component("counter"));
    let uri = format!("http://{}/counter.wasm", server.address);
    let why = refused(&hive, &["deploy", &uri, "--as", "shop/counter"]);
    assert!(why.contains("deploy.allow_private_sources"), "{why}");
    assert_eq!(server.state.lock().unwrap().requests, 0);
}

#[test]
fn a_file_can_be_uploaded_and_a_router_be_ones_own() {
    let hive = Hive::start();
    let (counter, router) = (component("counter"), component("first-router"));
    let deployed = hive.json(&[
        "deploy",
        text(&counter),
        "--as",
        "shop/counter",
        "--upload",
        "--workers",
        "3",
        "--router",
        text(&router),
    ]);
    assert_eq!(deployed["version"], 1);
    let stage = hive.json(&["ps", "shop/counter"]);
    assert_eq!(stage["deployment"]["source"], "upload");
    assert_eq!(stage["deployment"]["watch"], false);
    for expected in ["1/1", "2/2", "3/3"] {
        let reply = hive.json(&["ask", "shop/counter", "hi", "--header", "to=2"]);
        assert_eq!(reply["body"], expected);
    }
    let unknown = json!({ "as": "a/b", "source": format!("sha256:{}", "0".repeat(64)) });
    let problem = hive
        .rest("POST", "/api/v1/deployments", &unknown.to_string())
        .problem(422);
    assert!(
        problem["detail"].as_str().unwrap().contains("upload"),
        "{problem}"
    );
    let both = json!({ "as": "a/b", "source": text(&counter), "router": "random", "key": "body" });
    hive.rest("POST", "/api/v1/deployments", &both.to_string())
        .problem(400);
}

#[test]
fn outputs_lead_on_and_logs_are_shown() {
    let hive = Hive::start();
    let (echo, broken) = (component("echo"), component("broken-handle"));
    hive.json(&["deploy", text(&broken), "--as", "shop/broken", "--no-watch"]);
    hive.json(&[
        "deploy",
        text(&echo),
        "--as",
        "shop/echo",
        "--output",
        "out=shop/broken",
        "--output",
        "out=queue:copies",
        "--workers",
        "2",
    ]);
    hive.json(&["send", "shop/echo", "hello"]);
    let copy = hive.run(&["sub", "copies", "--count", "1", "--timeout", "20"]);
    assert_eq!(stdout(&copy), "hello\n");
    let line = until("a line in the log", || {
        let lines = stdout(&hive.run(&["logs", "shop/broken"]));
        lines
            .lines()
            .find(|line| line.contains("broken after 0 messages"))
            .map(str::to_owned)
    });
    assert!(line.contains("shop/broken/0"), "{line}");
    let mut following = hive.command(&["logs", "shop/broken", "-f", "--json"]);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let mut last = first["number"].as_u64().unwrap();
    // What is written while it is followed comes too.
    let seen = hive.json(&["logs", "shop/broken", "--tail", "1"])["number"]
        .as_u64()
        .unwrap();
    hive.json(&["send", "shop/broken", "again"]);
    while last <= seen {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["number"], last + 1, "no line is left out");
        last += 1;
    }
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Serves one component with an ETag.
struct Server {
    address: SocketAddr,
    state: Arc<Mutex<Offer>>,
}

#[derive(Default)]
struct Offer {
    bytes: Vec<u8>,
    version: u32,
    requests: u32,
    not_modified: u32,
    missing: bool,
}

impl Server {
    fn start(component: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        server.offer(component);
        let state = server.state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let answer = state
                    .lock()
                    .unwrap()
                    .answer(&String::from_utf8_lossy(&head));
                let _ = stream.write_all(&answer);
            }
        });
        server
    }

    fn offer(&self, component: &Path) {
        let mut state = self.state.lock().unwrap();
        state.bytes = std::fs::read(component).unwrap();
        state.version += 1;
    }
}

impl Offer {
    fn answer(&mut self, head: &str) -> Vec<u8> {
        self.requests += 1;
        let etag = format!("\"{}\"", self.version);
        let is_known = head
            .to_lowercase()
            .contains(&format!("if-none-match: {etag}"));
        let (status, body) = match (self.missing, is_known) {
            (true, _) => ("404 Not Found", &[][..]),
            (false, true) => {
                self.not_modified += 1;
                ("304 Not Modified", &[][..])
            }
            (false, false) => ("200 OK", &self.bytes[..]),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nETag: {etag}\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}
