//! Several nodes operated from one: their logs, their configuration, where they spend their time, and that
//! they say when they go. No node reaches another but over the bus.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hivewire_tests::hive::{Hive, HiveOptions};
use hivewire_tests::nodes::{SETTLE_TIMEOUT, node, tell, wait_for_parts};
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::{AckMode, Stomp, TIMEOUT};
use hivewire_tests::workers::{component, must_deploy};
use serde_json::{Value, json};

const STAGE: &str = "t/chatty";

const USERS: &str = "
[[users]]
name = \"node\"
password = \"planted-honey\"
node = true

[[users]]
name = \"alice\"
password = \"wonderland\"

[gamq]
allow_anonymous = true
";

/// A broker and two nodes on it.
struct Cluster {
    broker: Hive,
    a: Hive,
    b: Hive,
}

impl Cluster {
    fn start() -> Result<Self> {
        let broker = Hive::options().config(USERS).start()?;
        let bus = format!("stomp://node:planted-honey@{}", broker.stomp_address());
        let start = |name| member(name, &bus).start();
        let cluster = Self {
            broker,
            a: start("a")?,
            b: start("b")?,
        };
        cluster.wait_until_known()?;
        Ok(cluster)
    }

    /// Waits until each has heard of the other.
    fn wait_until_known(&self) -> Result<()> {
        for (hive, other) in [(&self.a, "b"), (&self.b, "a")] {
            let known = wait_until(SETTLE_TIMEOUT, || {
                state_of(hive, other).is_ok_and(|state| state == "running")
            });
            ensure!(known, "never heard of {other}: {}", hive.log());
        }
        Ok(())
    }

    /// A stage that writes what it gets into its log runs on b alone.
    fn chatty_on_b(&self) -> Result<()> {
        let only_b = json!({ "on": ["b"], "strict": true });
        must_deploy(&self.a, &component("chatty"), STAGE, &only_b)?;
        wait_for_parts(&self.a, STAGE, "b has the stage", |parts| {
            parts.get("b").is_some_and(|parts| *parts > 0) && parts.get("a") == Some(&0)
        })
    }

    fn write(&self, text: &str) -> Result<()> {
        let message = json!({ "messages": [{ "body": text }] });
        tell(&self.a, "/api/v1/messages/t%2Fchatty", &message).map(|_| ())
    }
}

/// A node that has much to say and looks often whether something is wrong.
fn member(name: &str, bus: &str) -> HiveOptions {
    let often = "[alerts]\nlook_every_ms = 100\n";
    node(name, bus)
        .config(often)
        .argument("--log")
        .argument("debug")
}

fn state_of(hive: &Hive, node: &str) -> Result<String> {
    let nodes = hive.rest("GET", "/api/v1/nodes", b"")?.json()?;
    let nodes = nodes["nodes"].as_array().context("a list of nodes")?;
    let found = nodes.iter().find(|one| one["name"] == node);
    let state = found.and_then(|node| node["state"].as_str());
    Ok(state.unwrap_or_default().to_owned())
}

fn logs(hive: &Hive, query: &str) -> Result<Vec<Value>> {
    let answer = hive.rest("GET", &format!("/api/v1/logs?{query}"), b"")?;
    ensure!(answer.status == 200, "{}", answer.text());
    let text = answer.text();
    let lines = text.lines().filter(|line| !line.is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn has(lines: &[Value], node: &str, text: &str) -> bool {
    let is_it = |line: &Value| {
        line["node"] == node
            && line["line"]
                .as_str()
                .is_some_and(|line| line.contains(text))
    };
    lines.iter().any(is_it)
}

/// Somebody who follows the logs, line by line.
struct Follower {
    reader: BufReader<TcpStream>,
}

impl Follower {
    fn start(hive: &Hive, query: &str) -> Result<Self> {
        let address: SocketAddr = hive.http_address();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let token = std::fs::read_to_string(hive.data().join("token"))?;
        let request = format!(
            "GET /api/v1/logs?follow=true&{query} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            token.trim()
        );
        stream.write_all(request.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        ensure!(first.contains("200"), "{first}");
        Ok(Self { reader })
    }

    /// The next line with this text.
    fn wait_for(&mut self, text: &str) -> Result<Value> {
        loop {
            let mut line = String::new();
            let bytes = self.reader.read_line(&mut line)?;
            ensure!(bytes > 0, "the stream ended before: {text}");
            if line.starts_with('{') && line.contains(text) {
                return Ok(serde_json::from_str(&line)?);
            }
        }
    }
}

#[test]
fn lines_of_all_nodes_are_read_and_followed_on_one() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.chatty_on_b()?;
    cluster.write("a line of the past")?;
    let mut seen = Vec::new();
    let came = wait_until(SETTLE_TIMEOUT, || {
        seen = logs(&cluster.a, "stage=t%2Fchatty").unwrap_or_default();
        has(&seen, "b", "a line of the past")
    });
    ensure!(came, "{seen:?}; {}", cluster.b.log());
    ensure!(!has(
        &logs(&cluster.a, "node=a&limit=10000")?,
        "a",
        "of the past"
    ));
    let both = logs(&cluster.a, "limit=10000")?;
    for name in ["a", "b"] {
        ensure!(
            both.iter().any(|line| line["node"] == name),
            "nothing of {name}"
        );
    }
    ensure!(both.is_sorted_by_key(|line| line["at_ms"].as_u64()));

    let mut follower = Follower::start(&cluster.a, "stage=t%2Fchatty")?;
    cluster.write("a line of now")?;
    let line = follower.wait_for("a line of now")?;
    assert_eq!(
        (&line["node"], &line["worker"]),
        (&json!("b"), &json!("t/chatty/0"))
    );
    cluster.write("warn of this")?;
    assert_eq!(follower.wait_for("warn of this")?["level"], "warn");
    drop(follower);
    // Nobody follows: nothing is sent, and what was logged meanwhile is the past.
    cluster.write("a line for nobody")?;
    let came = wait_until(SETTLE_TIMEOUT, || {
        logs(&cluster.a, "node=b&stage=t%2Fchatty")
            .is_ok_and(|lines| has(&lines, "b", "for nobody"))
    });
    ensure!(came, "{}", cluster.b.log());
    for hive in [&cluster.a, &cluster.b, &cluster.broker] {
        ensure!(!hive.log().contains("planted-honey"), "{}", hive.log());
        for file in std::fs::read_dir(hive.data().join("logs"))? {
            let text = std::fs::read_to_string(file?.path())?;
            ensure!(!text.contains("planted-honey"), "{text}");
        }
    }
    Ok(())
}

#[test]
fn more_lines_than_may_be_followed_are_counted_and_told() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.chatty_on_b()?;
    let few = json!({ "value": 1 }).to_string();
    let path = "/api/v1/config/logs.followed_lines_per_second_max?node=b";
    let set = cluster.a.rest("PUT", path, few.as_bytes())?;
    ensure!(set.status == 200, "{}", set.text());
    let mut follower = Follower::start(&cluster.a, "stage=t%2Fchatty")?;
    let messages: Vec<Value> = (0..200)
        .map(|n| json!({ "body": format!("line {n}") }))
        .collect();
    tell(
        &cluster.a,
        "/api/v1/messages/t%2Fchatty",
        &json!({ "messages": messages }),
    )?;
    follower.wait_for("line 0")?;
    // What was left out is told with the next line that has room.
    let told = std::thread::scope(|scope| {
        let following = scope.spawn(|| follower.wait_for("were left out"));
        while !following.is_finished() {
            cluster.write("another")?;
            std::thread::sleep(Duration::from_millis(200));
        }
        following.join().expect("it does not panic")
    })?;
    assert_eq!(
        (&told["node"], &told["level"]),
        (&json!("b"), &json!("warn"))
    );
    let metrics = cluster.b.rest("GET", "/metrics", b"")?.text();
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("hivewire_log_lines_not_followed_total"));
    ensure!(
        counted.is_some_and(|line| !line.ends_with(" 0")),
        "{counted:?}"
    );
    // The control: the files have them all.
    let all = logs(&cluster.a, "node=b&stage=t%2Fchatty&limit=10000")?;
    ensure!((0..200).all(|n| has(&all, "b", &format!("line {n}"))));
    Ok(())
}

#[test]
fn the_configuration_of_another_node_is_changed_and_survives_its_death() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let path = "/api/v1/config/workers.runtime.prefetch_max?node=b";
    let set = |cluster: &Cluster, value: Value| {
        let body = json!({ "value": value }).to_string();
        cluster.a.rest("PUT", path, body.as_bytes())
    };
    let refused = set(&cluster, json!(0))?;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(set(&cluster, json!("many"))?.status, 400);
    let changed = set(&cluster, json!(77))?;
    ensure!(changed.status == 200, "{}", changed.text());
    let shown =
        |hive: &Hive, path: &str| -> Result<Value> { Ok(hive.rest("GET", path, b"")?.json()?) };
    let of_b = shown(&cluster.b, "/api/v1/config/workers.runtime.prefetch_max")?;
    assert_eq!(
        (&of_b["value"], &of_b["from"]),
        (&json!(77), &json!("run-time"))
    );
    let of_a = shown(&cluster.a, "/api/v1/config/workers.runtime.prefetch_max")?;
    assert_eq!(of_a["from"], "default", "a is as it was");

    cluster.b.kill9();
    cluster.b.start_again()?;
    let back = wait_until(SETTLE_TIMEOUT, || {
        shown(&cluster.a, path).is_ok_and(|key| key["value"] == 77)
    });
    ensure!(back, "{}", cluster.b.log());
    let history = shown(&cluster.a, "/api/v1/config/history?node=b")?;
    let change = &history["changes"][0];
    assert_eq!(
        (&change["new"], &change["via"], &change["who"]),
        (&json!(77), &json!("a"), &json!("token"))
    );
    let all = cluster.a.rest("GET", "/api/v1/config?node=b", b"")?.text();
    ensure!(
        all.contains("node.bus") && !all.contains("planted-honey"),
        "{all}"
    );
    assert_eq!(
        cluster
            .a
            .rest("GET", "/api/v1/config?node=nobody", b"")?
            .status,
        404
    );
    Ok(())
}

/// What is wrong as this node tells it: who sees it, by rule, and who did not answer.
fn wrong(hive: &Hive, query: &str) -> Result<(Vec<(String, Value)>, Value)> {
    let path = format!("/api/v1/alerts?{query}");
    let mut answer = hive.rest("GET", &path, b"")?.json()?;
    let alerts = answer["alerts"].as_array().context("a list of alerts")?;
    let seen = alerts.iter().map(|alert| {
        let rule = alert["rule"].as_str().unwrap_or_default();
        (rule.to_owned(), alert["nodes"].clone())
    });
    Ok((seen.collect(), answer["missing"].take()))
}

#[test]
fn what_is_wrong_on_any_node_is_seen_on_each() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let rule = |name: &str| {
        json!({ "name": name, "kind": "expression", "for_seconds": 0,
                "expression": "hivewire_log_lines_not_followed_total >= 0.0" })
    };
    let rules = [
        ("a", json!([rule("both")])),
        ("b", json!([rule("both"), rule("only-b")])),
    ];
    for (node, rules) in rules {
        let path = format!("/api/v1/config/alerts.rules?node={node}");
        let body = json!({ "value": rules }).to_string();
        let set = cluster.a.rest("PUT", &path, body.as_bytes())?;
        ensure!(set.status == 200, "{}", set.text());
    }
    let mut seen = Vec::new();
    let told = wait_until(SETTLE_TIMEOUT, || {
        (seen, _) = wrong(&cluster.a, "all=true").unwrap_or_default();
        seen.contains(&("both".to_owned(), json!(["a", "b"])))
            && seen.contains(&("only-b".to_owned(), json!(["b"])))
    });
    ensure!(told, "{seen:?}");
    // The control: by itself, it knows of its own.
    let (own, missing) = wrong(&cluster.a, "")?;
    ensure!(own.contains(&("both".to_owned(), json!(["a"]))), "{own:?}");
    ensure!(own.iter().all(|(rule, _)| rule != "only-b"), "{own:?}");
    ensure!(missing == json!({}), "{missing}");

    // One that does not answer is named, until the others know that it is dead.
    cluster.b.kill9();
    let (own, missing) = wrong(&cluster.a, "all=true")?;
    ensure!(
        missing.get("b").is_some() || state_of(&cluster.a, "b")? != "running",
        "{missing}"
    );
    ensure!(own.iter().all(|(rule, _)| rule != "only-b"), "{own:?}");
    Ok(())
}

#[test]
fn another_node_is_profiled() -> Result<()> {
    let cluster = Cluster::start()?;
    let taken = std::thread::scope(|scope| {
        let asked = scope.spawn(|| profile(&cluster.a, "b", 3));
        while !asked.is_finished() {
            for _ in 0..50 {
                cluster.b.rest("GET", "/metrics", b"")?;
            }
        }
        asked.join().expect("it does not panic")
    })?;
    assert_eq!(taken["node"], "b");
    ensure!(taken["samples"].as_u64().unwrap_or(0) > 0, "{taken}");
    let folded = taken["folded"].as_str().context("stacks")?;
    let deepest = folded.lines().map(|line| line.matches(';').count()).max();
    ensure!(
        deepest.is_some_and(|deepest| deepest > 3) && folded.contains("hivewire"),
        "{folded}"
    );
    ensure!(
        taken["svg"]
            .as_str()
            .is_some_and(|svg| svg.starts_with("<svg"))
    );
    Ok(())
}

/// With time for a profile, which other requests do not need.
fn profile(hive: &Hive, node: &str, seconds: u32) -> Result<Value> {
    let path = format!("/api/v1/nodes/{node}/profile?seconds={seconds}");
    hive.rest_within("POST", &path, b"", Duration::from_secs(90))?
        .json()
        .context("a profile")
}

#[test]
fn only_nodes_hear_and_say_what_nodes_tell_each_other() -> Result<()> {
    let broker = Hive::options().config(USERS).start()?;
    let login = [("login", "alice"), ("passcode", "wonderland")];
    for destination in [
        "/topic/hivewire.logs",
        "/queue/hivewire.command.b",
        "/queue/hivewire.answer.a",
    ] {
        let mut alice = Stomp::connect_with(broker.stomp_address(), &login)?;
        let refused = alice.subscribe("1", destination, AckMode::Auto, &[]);
        let refused = refused.err().context(destination)?.to_string();
        ensure!(refused.contains("is for nodes only"), "{refused}");
        let mut alice = Stomp::connect_with(broker.stomp_address(), &login)?;
        alice.send(destination, &[], b"{}")?;
        let error = alice.receive_frame(TIMEOUT)?;
        assert_eq!(error.command, "ERROR", "{destination}: {error:?}");
    }
    let mut alice = Stomp::connect_with(broker.stomp_address(), &login)?;
    alice.send("/topic/hivewire.logs.wanted", &[], b"{}")?;
    assert_eq!(alice.receive_frame(TIMEOUT)?.command, "ERROR");
    // The control: alice may use names of her own.
    let mut alice = Stomp::connect_with(broker.stomp_address(), &login)?;
    alice.subscribe("1", "/topic/logs", AckMode::Auto, &[])?;
    alice.send("/topic/logs", &[], b"mine")?;
    assert_eq!(alice.next_message(TIMEOUT)?.body, b"mine");
    Ok(())
}

#[test]
fn a_node_that_stops_says_so_to_whoever_listens() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let bus = format!(
        "stomp://node:planted-honey@{}",
        cluster.broker.stomp_address()
    );
    let mut c = member("c", &bus).start()?;
    let heard = wait_until(SETTLE_TIMEOUT, || {
        state_of(&cluster.a, "c").is_ok_and(|state| state == "running")
    });
    ensure!(heard, "{}", cluster.a.log());
    // The control: one that dies says nothing.
    c.kill9();
    // a takes no parts, so b knows no other that could take its own.
    tell(
        &cluster.a,
        "/api/v1/nodes/a",
        &json!({ "state": "draining" }),
    )?;
    let heard = wait_until(SETTLE_TIMEOUT, || {
        state_of(&cluster.b, "a").is_ok_and(|state| state == "draining")
    });
    ensure!(heard, "{}", cluster.b.log());
    cluster.b.terminate()?;
    let dead = wait_until(SETTLE_TIMEOUT, || {
        state_of(&cluster.a, "b").is_ok_and(|state| state == "dead")
    });
    ensure!(dead, "{}", cluster.a.log());
    let mut alerts = Value::Null;
    let missed = |alerts: &Value, node: &str| {
        let all = alerts["alerts"].as_array().into_iter().flatten();
        let mut of_node = all.filter(|alert| alert["labels"]["node"] == node);
        of_node.any(|alert| alert["rule"] == "node-gone")
    };
    let told = wait_until(SETTLE_TIMEOUT, || {
        let answer = cluster.a.rest("GET", "/api/v1/alerts", b"");
        alerts = answer
            .ok()
            .and_then(|answer| answer.json().ok())
            .unwrap_or_default();
        missed(&alerts, "c")
    });
    ensure!(told && !missed(&alerts, "b"), "{alerts}");
    Ok(())
}
