//! What happens is told to whoever listens: on every node, in order, once, and at nobody's expense.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use hivewire_tests::event_client::EventClient;
use hivewire_tests::hive::Hive;
use hivewire_tests::http;
use hivewire_tests::nodes::{node, tell};
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::{AckMode, Frame, Stomp, TIMEOUT};
use hivewire_tests::workers::{component, must_deploy};
use serde_json::{Value, json};

const GENERAL: &str = "/topic/hivewire.general";

fn is(kind: &str, what: &str) -> impl Fn(&Value) -> bool {
    move |event| event["kind"] == kind && event["event"] == what
}

fn say(hive: &Hive, note: &str) -> Result<u64> {
    let said = tell(hive, "/api/v1/general", &json!({ "note": note }))?;
    Ok(said["number"].as_u64().unwrap_or_default())
}

fn says(note: &str) -> impl Fn(&Value) -> bool {
    move |event| event["kind"] == "note" && event["text"] == note
}

#[test]
fn a_deployment_on_one_node_is_told_once_by_all_others() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let ada = node("ada", &bus).start()?;
    let mut at_ada = EventClient::connect(&ada, "kind=node,stage,note")?;
    let mut bob = node("bob", &bus).start()?;
    at_ada.wait_for("bob joined", |event| {
        is("node", "joined")(event) && event["node"] == "bob"
    })?;
    let mut at_bob = EventClient::connect(&bob, "flow=shop")?;
    let mut of_another_flow = EventClient::connect(&bob, "flow=bank")?;

    must_deploy(&ada, &component("echo"), "shop/echo", &json!({}))?;
    let mut deployed = Vec::new();
    for client in [&mut at_ada, &mut at_bob] {
        let event = client.wait_for("a deployment", is("stage", "deployed"))?;
        assert_eq!(event["node"], "ada", "the one that was asked tells it");
        assert_eq!(event["stage"], "shop/echo");
        deployed.push(event);
    }
    tell(&bob, "/api/v1/flows/shop/echo/scale?workers=3", &json!({}))?;
    say(&bob, "that was all")?;
    let mut told = Vec::new();
    loop {
        let event = at_ada.next_event()?;
        if says("that was all")(&event) {
            break;
        }
        told.push(event);
    }
    let of_stage: Vec<&Value> = told.iter().map(|event| &event["event"]).collect();
    assert_eq!(of_stage, ["scaled"], "once, by one node: {told:?}");

    // The control: the same socket with another filter was told nothing but where it begins.
    assert_eq!(of_another_flow.next_event()?["kind"], "begin");
    let more = of_another_flow.next_within(Duration::from_millis(100))?;
    assert_eq!(more, None);

    bob.terminate()?;
    let left = at_ada.wait_for("bob left", |event| event["kind"] == "node")?;
    assert_eq!(
        (&left["event"], &left["node"]),
        (&json!("left"), &json!("bob"))
    );
    bob.start_again()?;
    at_ada.wait_for("bob is back", is("node", "joined"))?;
    bob.kill9();
    let gone = at_ada.wait_for("bob is gone", |event| event["kind"] == "node")?;
    assert_eq!(
        (&gone["event"], &gone["node"]),
        (&json!("gone"), &json!("bob"))
    );
    Ok(())
}

#[test]
fn a_node_alone_tells_of_requests_alerts_and_numbers() -> Result<()> {
    let hive = Hive::start()?;
    let mut all = EventClient::connect(&hive, "")?;
    assert_eq!(all.next_event()?["kind"], "begin");
    let first = all.wait_for("numbers", |event| event["kind"] == "metrics")?;
    assert_eq!(first["complete"], true);
    must_deploy(&hive, &component("echo"), "shop/echo", &json!({}))?;
    all.wait_for("a deployment", is("stage", "deployed"))?;
    let request = all.wait_for("the request", is("request", "done"))?;
    assert_eq!(request["path"], "/api/v1/deployments");
    all.wait_for("numbers of the stage", |event| {
        event["stages"]["shop/echo"]["waiting"] == 0
    })?;
    let silence = json!({ "rule": "*", "for_seconds": 60, "why": "work" });
    tell(&hive, "/api/v1/alerts/silences", &silence)?;
    let silence = all.wait_for("a silence", is("silence", "begun"))?;
    assert_eq!(silence["why"], "work");
    all.wait_for("its request", is("request", "done"))?;
    // Messages on their way are no events.
    let coffee = json!({ "messages": [{ "body": "one coffee" }] });
    tell(&hive, "/api/v1/queues/orders/messages", &coffee)?;
    say(&hive, "done")?;
    let one_waits = |event: &Value| event["queues"]["orders"]["waiting"] == 1;
    let mut waits = false;
    loop {
        let event = all.next_event()?;
        assert_ne!(event["kind"], "request", "{event}");
        waits |= one_waits(&event);
        if says("done")(&event) {
            break;
        }
    }
    if !waits {
        all.wait_for("one waits", one_waits)?;
    }
    Ok(())
}

#[test]
fn alerts_and_plug_ins_are_told() -> Result<()> {
    let hive = Hive::options()
        .config(
            "[alerts]\nlook_every_ms = 100\n[[alerts.rules]]\nname = \"many\"\nkind = \"expression\"\n\
             expression = \"hivewire_queue_messages > 2 && labels.queue == 'orders'\"\nfor_seconds = 0\n",
        )
        .start()?;
    let mut client = EventClient::connect(&hive, "kind=alert,plugin")?;
    assert_eq!(client.next_event()?["kind"], "begin");
    let orders = json!({ "messages": [{ "body": "1" }, { "body": "2" }, { "body": "3" }] });
    tell(&hive, "/api/v1/queues/orders/messages", &orders)?;
    let fired = client.wait_for("an alert", is("alert", "fired"))?;
    assert_eq!(
        (&fired["rule"], &fired["labels"]["queue"]),
        (&json!("many"), &json!("orders"))
    );
    hive.rest("DELETE", "/api/v1/queues/orders", b"")?;
    let recovered = client.wait_for("its end", is("alert", "recovered"))?;
    assert_eq!(recovered["rule"], "many");

    let component = std::fs::read(component("echo"))?;
    let answer = hive.rest("POST", "/api/v1/plugins", &component)?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let plugin = answer.json()?["plugin"].clone();
    let pushed = client.wait_for("a plug-in", is("plugin", "pushed"))?;
    assert_eq!(pushed["id"], "echo");
    assert_eq!(pushed["version"], plugin["version"]);
    let version = plugin["version"].as_str().unwrap_or_default();
    hive.rest("DELETE", &format!("/api/v1/plugins/echo/{version}"), b"")?;
    client.wait_for("its end", is("plugin", "removed"))?;
    Ok(())
}

#[test]
fn who_comes_back_gets_what_is_kept_or_hears_how_much_was_lost() -> Result<()> {
    let mut hive = Hive::start()?;
    let mut first = EventClient::connect(&hive, "kind=note")?;
    let run = first.next_event()?["run"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let numbers: Vec<u64> = ["one", "two", "three"]
        .iter()
        .map(|note| say(&hive, note))
        .collect::<Result<_>>()?;
    assert_eq!(first.wait_for("one", says("one"))?["number"], numbers[0]);
    drop(first);

    let query = format!("kind=note&run={run}&after={}", numbers[0]);
    let mut again = EventClient::connect(&hive, &query)?;
    assert_eq!(again.next_event()?["kind"], "begin");
    let came: Vec<Value> = (0..2).map(|_| again.next_event()).collect::<Result<_>>()?;
    assert_eq!(came[0]["text"], "two");
    assert_eq!(
        (&came[1]["text"], &came[1]["number"]),
        (&json!("three"), &json!(numbers[2]))
    );

    // The same as lines, and those of before the events are missed.
    let last = flood(&hive, 6_000, 100)?;
    let query = format!("/api/v1/events?kind=note&after={}", numbers[2]);
    let lines = hive.rest("GET", &query, b"")?;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = lines
        .text()
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    assert_eq!(lines[0]["kind"], "begin");
    assert_eq!(lines[1]["kind"], "missed");
    let missed = lines[1]["count"].as_u64().unwrap_or_default();
    let next = lines[2]["number"].as_u64().unwrap_or_default();
    assert_eq!(numbers[2] + missed + 1, next, "{} {}", lines[1], lines[2]);
    assert!(says(&last)(&lines[lines.len() - 1]));

    // Another process has other numbers.
    hive.terminate()?;
    hive.start_again()?;
    let mut other = EventClient::connect(&hive, &format!("run={run}&after=1"))?;
    assert_eq!(other.next_event()?["kind"], "begin");
    let missed = other.next_event()?;
    assert_eq!(
        (&missed["kind"], &missed["count"]),
        (&json!("missed"), &Value::Null)
    );
    Ok(())
}

/// Another node tells so much that nobody can remember all of it. Gives the last note, once the node
/// has heard it.
fn flood(hive: &Hive, notes: usize, characters: usize) -> Result<String> {
    let mut stomp = Stomp::connect_with(hive.stomp_address(), &[("node", "flood")])?;
    let filling = "x".repeat(characters);
    let last = format!("last of {notes}");
    let mut watcher = EventClient::connect(hive, "kind=note")?;
    for number in 0..notes {
        let text = if number + 1 == notes { &last } else { &filling };
        let note = json!({ "kind": "note", "event": "said", "node": "flood", "text": text });
        stomp.send(GENERAL, &[], note.to_string().as_bytes())?;
    }
    let until = Instant::now() + TIMEOUT;
    loop {
        if watcher
            .next_within(Duration::from_millis(100))?
            .is_some_and(|event| says(&last)(&event))
        {
            return Ok(last);
        }
        anyhow::ensure!(Instant::now() < until, "the last note never came");
    }
}

#[test]
fn a_slow_reader_misses_something_and_the_others_nothing() -> Result<()> {
    let hive = Hive::start()?;
    let mut slow = EventClient::connect_narrow(&hive, "kind=note")?;
    let mut quick = EventClient::connect(&hive, "kind=note")?;
    for client in [&mut slow, &mut quick] {
        assert_eq!(client.next_event()?["kind"], "begin");
    }
    const NOTES: usize = 20_000;
    let read = Arc::new(AtomicUsize::new(0));
    let reader = std::thread::spawn({
        let read = read.clone();
        move || -> Result<usize> {
            let mut missed = 0;
            loop {
                let event = quick.next_event()?;
                missed += usize::from(event["kind"] == "missed");
                if event["text"] == "the end" {
                    return Ok(missed);
                }
                read.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let mut stomp = Stomp::connect_with(hive.stomp_address(), &[("node", "flood")])?;
    let text = "x".repeat(1_500);
    for number in 0..NOTES {
        let note = json!({ "kind": "note", "event": "said", "node": "flood", "text": text });
        stomp.send(GENERAL, &[], note.to_string().as_bytes())?;
        // No faster than a reader who does read.
        if number % 500 == 499 {
            let has_read = || read.load(Ordering::SeqCst) + 500 >= number;
            assert!(
                wait_until(TIMEOUT, has_read),
                "the quick one does not follow"
            );
        }
    }
    say_last(&mut stomp)?;
    let missed = reader.join().expect("the reader did not panic")?;
    let read = read.load(Ordering::SeqCst);
    assert_eq!((read, missed), (NOTES, 0), "who reads misses nothing");

    let missed = slow.wait_for("some are missed", |event| event["kind"] == "missed")?;
    assert!(missed["count"].as_u64() > Some(0), "{missed}");
    slow.wait_for("it goes on from there", says("the end"))?;
    assert!(hive.memory_bytes()? < 200 << 20);
    Ok(())
}

fn say_last(stomp: &mut Stomp) -> Result<()> {
    let note = json!({ "kind": "note", "event": "said", "node": "flood", "text": "the end" });
    stomp.send(GENERAL, &[], note.to_string().as_bytes())?;
    Ok(())
}

#[test]
fn only_nodes_and_who_has_the_token_may_speak_and_only_the_latter_listen() -> Result<()> {
    let hive = Hive::start()?;
    let (address, token) = (hive.http_address(), hive.token()?);
    let listen = |headers: &[(&'static str, &str)]| -> Result<EventClient> {
        EventClient::over(TcpStream::connect(address)?, address, "", headers)
    };
    let refused = |headers: &[(&'static str, &str)]| match listen(headers) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    };
    let protocols = format!("hivewire.events, hivewire.token.{token}");
    let wrong = "hivewire.events, hivewire.token.0123456789abcdef";
    let ours = format!("http://{address}");
    assert!(refused(&[]).contains("401"));
    assert!(refused(&[("authorization", "Bearer wrong")]).contains("401"));
    assert!(refused(&[("sec-websocket-protocol", wrong)]).contains("401"));
    let evil = [
        ("sec-websocket-protocol", protocols.as_str()),
        ("origin", "http://evil.example"),
    ];
    assert!(refused(&evil).contains("403"));
    // The controls: the same from our own page, and with the header that programs send.
    let page = [
        ("sec-websocket-protocol", protocols.as_str()),
        ("origin", ours.as_str()),
    ];
    assert_eq!(listen(&page)?.next_event()?["kind"], "begin");
    let mut client = EventClient::connect(&hive, "kind=note")?;
    assert_eq!(client.next_event()?["kind"], "begin");

    // The token in a protocol opens nothing else.
    let headers = [("sec-websocket-protocol", protocols.as_str())];
    let other = http::request(address, "GET", "/api/v1/queues", &headers, b"")?;
    assert_eq!(other.status, 401);
    assert_eq!(
        hive.times_said(&token),
        1,
        "only where it is printed on purpose"
    );

    // Clients may read the topic and not write to it.
    let mut stranger = Stomp::connect(hive.stomp_address())?;
    stranger.subscribe("1", GENERAL, AckMode::Auto, &[])?;
    stranger.send(GENERAL, &[], b"{\"kind\":\"note\",\"node\":\"evil\"}")?;
    let error: Frame = stranger.receive_frame(TIMEOUT)?;
    assert_eq!(error.header("message"), Some("access refused"));
    for body in ["{}", "{\"note\":\"\"}", "{\"note\":1}"] {
        let said = hive.rest("POST", "/api/v1/general", body.as_bytes())?;
        assert_eq!(said.status, 400, "{body}");
    }
    let long = json!({ "note": "x".repeat(1_001) }).to_string();
    let said = hive.rest("POST", "/api/v1/general", long.as_bytes())?;
    assert_eq!(said.status, 400);
    let unknown = hive.rest("GET", "/api/v1/events?kind=weather", b"")?;
    assert_eq!(unknown.status, 400);
    say(&hive, "hello")?;
    assert!(says("hello")(&client.next_event()?), "nothing came before");
    Ok(())
}

#[test]
fn too_many_are_refused_and_a_drain_closes_all() -> Result<()> {
    let mut hive = Hive::start()?;
    let mut clients = Vec::new();
    let refusal = loop {
        match EventClient::connect(&hive, "kind=note") {
            Ok(client) => clients.push(client),
            Err(error) => break error.to_string(),
        }
        anyhow::ensure!(clients.len() <= 1_000, "there is no limit");
    };
    assert!(refusal.contains("503"), "{refusal}");
    let problem = hive.rest("GET", "/api/v1/events?follow=true", b"")?;
    assert_eq!(
        problem.header("content-type"),
        Some("application/problem+json")
    );
    // The control: room is made when somebody goes.
    clients.pop();
    let fits = || {
        hive.rest("GET", "/api/v1/events", b"")
            .is_ok_and(|a| a.status == 200)
    };
    assert!(wait_until(TIMEOUT, fits));
    hive.terminate()?;
    for client in &mut clients {
        let ended = client
            .wait_for("an end", |_| false)
            .unwrap_err()
            .to_string();
        assert!(ended.contains("Away"), "{ended}");
    }
    Ok(())
}
