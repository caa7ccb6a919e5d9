//! Live numbers over a WebSocket: of all nodes together, only what changes, and at nobody's expense.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Result;
use hivewire_tests::event_client::EventClient;
use hivewire_tests::hive::Hive;
use hivewire_tests::nodes::{node, tell};
use hivewire_tests::workers::{component, must_deploy};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);
/// What a watcher knows after all frames so far.
struct Known {
    client: EventClient,
    state: Value,
    frames: usize,
}

impl Known {
    fn of(client: EventClient) -> Self {
        let state = json!({ "stages": {}, "edges": {}, "queues": {} });
        Self {
            client,
            state,
            frames: 0,
        }
    }

    fn next(&mut self, timeout: Duration) -> Result<bool> {
        let Some(frame) = self.client.next_within(timeout)? else {
            return Ok(false);
        };
        assert_eq!(frame["kind"], "live");
        assert_eq!(frame["complete"], self.frames == 0, "only the first one");
        assert!(frame["at_ms"].as_u64().is_some());
        self.frames += 1;
        for part in ["stages", "edges", "queues"] {
            for (name, entry) in frame[part].as_object().unwrap() {
                let known = self.state[part].as_object_mut().unwrap();
                match entry.is_null() {
                    true => known.remove(name),
                    false => known.insert(name.clone(), entry.clone()),
                };
            }
        }
        for (stage, numbers) in self.state["stages"].as_object().unwrap() {
            check_book(stage, &numbers["input"]);
        }
        Ok(true)
    }

    fn until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while !is_it(&self.state) {
            assert!(Instant::now() < end, "never: {what}; {:#}", self.state);
            self.next(Duration::from_millis(100))?;
        }
        Ok(())
    }
}

fn check_book(stage: &str, input: &Value) {
    if input.is_null() {
        return;
    }
    let number = |name: &str| input[name].as_u64().unwrap();
    let all = number("out") + number("queued") + number("dropped");
    assert_eq!(number("in"), all, "{stage}: {input}");
}

/// One event reaches `sum` twice, if its number is odd.
fn run_flow(hive: &Hive, delivery: &str) -> Result<()> {
    let document = json!({
        "flow": "numbers",
        "delivery": delivery,
        "stages": {
            "in": {
                "plugin": "map",
                "parameters": { "to": "{'key': event.key, 'number': event.number}" },
                "to": ["odd", "sum"],
            },
            "odd": {
                "plugin": "filter",
                "parameters": { "where": "event.number % 2 == 1" },
                "to": "sum",
            },
            "sum": {
                "plugin": "aggregate",
                "key": "json:/key",
                "workers": 2,
                "parameters": { "by": "event.key", "compute": { "count": "count" } },
                "to": "queue:sums",
            },
        },
    });
    let body = document.to_string();
    let answer = hive.rest("PUT", "/api/v1/documents/numbers", body.as_bytes())?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Ok(())
}

fn send(hive: &Hive, numbers: std::ops::Range<u64>) -> Result<()> {
    let body = |number: u64| match number % 20 {
        // Nobody can say what it is.
        0 => json!({ "body": json!({ "number": number }).to_string() }),
        _ => {
            let event = json!({ "key": (number % 7).to_string(), "number": number });
            json!({ "body": event.to_string() })
        }
    };
    let messages: Vec<Value> = numbers.map(body).collect();
    let messages = json!({ "messages": messages });
    tell(hive, "/api/v1/messages/numbers%2Fin", &messages)?;
    Ok(())
}

#[test]
fn books_and_edges_agree_for_every_delivery() -> Result<()> {
    for delivery in ["at-most-once", "at-least-once", "state-once"] {
        let hive = Hive::start()?;
        run_flow(&hive, delivery)?;
        let watching = EventClient::watch_live(&hive, "flow=numbers&period_ms=100")?;
        let mut known = Known::of(watching);
        for part in 0..10 {
            send(&hive, part * 20..(part + 1) * 20)?;
            known.next(Duration::from_millis(50))?;
        }
        let handled = 190;
        let odd = 100;
        known.until("everything is done", |state| {
            let sum = &state["stages"]["numbers/sum"]["input"];
            sum["out"] == handled + odd && sum["queued"] == 0
        })?;
        known.until("the edge is told", |state| {
            state["edges"]["numbers/sum.out>queue:sums"]["in"] == handled + odd
        })?;
        let input = |stage: &str| known.state["stages"][stage]["input"].clone();
        let of_in = input("numbers/in");
        assert_eq!(
            (&of_in["in"], &of_in["out"], &of_in["dropped"]),
            (&json!(200), &json!(handled), &json!(10)),
            "{delivery}"
        );
        assert_eq!(input("numbers/odd")["out"], handled);
        let sent = |edge: &str| known.state["edges"][edge]["in"].as_u64().unwrap();
        assert_eq!(sent("numbers/in.out>numbers/odd"), handled);
        assert_eq!(sent("numbers/in.out>numbers/sum"), handled);
        assert_eq!(sent("numbers/odd.out>numbers/sum"), odd);
        assert_eq!(input("numbers/sum")["in"], handled + odd, "{delivery}");
        let room = &input("numbers/sum")["room"];
        assert_eq!(room.is_u64(), delivery == "at-most-once", "{delivery}");
        assert_eq!(known.state["queues"]["sums"]["waiting"], handled + odd);
        assert_eq!(known.state["stages"]["numbers/sum"]["workers"], 2);
        let queues = known.state["queues"].as_object().unwrap();
        assert_eq!(queues.len(), 1, "{queues:?}");
        known.until("rates fall again", |state| {
            state["stages"]["numbers/in"]["rate"] == 0.0
        })?;
    }
    Ok(())
}

#[test]
fn numbers_are_of_all_nodes_whichever_is_watched() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let ada = node("ada", &bus).start()?;
    let mut bob = node("bob", &bus).start()?;
    // One that is in memory on both nodes, so that each has its own.
    run_flow(&ada, "at-most-once")?;
    let mut at_ada = Known::of(EventClient::watch_live(&ada, "flow=numbers&period_ms=100")?);
    let mut at_bob = Known::of(EventClient::watch_live(&bob, "period_ms=250")?);
    send(&ada, 1..11)?;
    send(&bob, 1..20)?;
    let all = 29;
    for known in [&mut at_ada, &mut at_bob] {
        known.until("numbers of both nodes", |state| {
            let stage = &state["stages"]["numbers/in"];
            stage["turns"] == all && stage["input"]["out"] == all && stage["workers"] == 2
        })?;
        known.until("what went over edges on both", |state| {
            state["edges"]["numbers/in.out>numbers/odd"]["in"] == all
        })?;
    }
    bob.terminate()?;
    at_ada.until("bob's numbers are gone", |state| {
        state["stages"]["numbers/in"]["turns"] == 10
    })
}

#[test]
fn who_watches_must_say_who_it_is_and_not_ask_too_often() -> Result<()> {
    let hive = Hive::start()?;
    let address = hive.http_address();
    let open = |path: &str, headers: &[(&'static str, &str)]| {
        EventClient::open(TcpStream::connect(address)?, address, path, headers)
    };
    let path = "/api/v1/live?period_ms=100";
    assert!(open(path, &[]).is_err());
    let token = hive.token()?;
    let protocols = format!("hivewire.live, hivewire.token.{token}");
    let by_protocol = [("sec-websocket-protocol", protocols.as_str())];
    assert_eq!(open(path, &by_protocol)?.next_event()?["complete"], true);
    let foreign = [
        ("sec-websocket-protocol", protocols.as_str()),
        ("origin", "http://evil.example"),
    ];
    assert!(open(path, &foreign).is_err());
    for period in ["99", "0", "60001"] {
        let path = format!("/api/v1/live?period_ms={period}");
        assert!(open(&path, &by_protocol).is_err(), "{period}");
    }
    let once = hive.rest("GET", "/api/v1/live", b"")?.json()?;
    assert_eq!(once["complete"], true);
    Ok(())
}

#[test]
fn a_slow_reader_gets_fewer_frames_and_the_newest_numbers() -> Result<()> {
    let hive = Hive::start()?;
    for number in 0..40 {
        let stage = format!("many/echo-{number}");
        must_deploy(&hive, &component("echo"), &stage, &json!({}))?;
    }
    let mut slow = Known::of(EventClient::watch_live_narrow(&hive, "period_ms=100")?);
    slow.next(Duration::from_secs(20))?;
    let began = Instant::now();
    let mut sent = 0;
    while began.elapsed() < Duration::from_secs(5) {
        for number in 0..40 {
            let to = format!("/api/v1/messages/many%2Fecho-{number}");
            tell(&hive, &to, &json!({ "messages": [{ "body": "x" }] }))?;
        }
        sent += 1;
    }
    slow.until("the newest numbers", |state| {
        state["stages"]["many/echo-39"]["turns"] == sent
    })?;
    assert!(slow.frames <= 60, "{} frames in 5 s", slow.frames);
    Ok(())
}

#[test]
fn a_pause_holds_on_all_nodes() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let ada = node("ada", &bus).start()?;
    let bob = node("bob", &bus).start()?;
    run_flow(&ada, "state-once")?;
    tell(&ada, "/api/v1/flows/numbers/in/pause", &json!({}))?;
    let mut at_bob = Known::of(EventClient::watch_live(&bob, "flow=numbers&period_ms=100")?);
    send(&ada, 1..11)?;
    send(&bob, 1..11)?;
    let is_paused = |state: &Value| state["stages"]["numbers/in"]["paused"] == true;
    at_bob.until("it is paused", is_paused)?;
    let shown = bob.rest("GET", "/api/v1/flows/numbers/in", b"")?.json()?;
    assert_eq!(shown["paused"], true);
    std::thread::sleep(Duration::from_secs(1));
    at_bob.next(Duration::from_millis(200))?;
    assert_eq!(at_bob.state["stages"]["numbers/in"]["turns"], 0);
    tell(&bob, "/api/v1/flows/numbers/in/resume", &json!({}))?;
    at_bob.until("all is done", |state| {
        let stage = &state["stages"]["numbers/in"];
        stage["turns"] == 20 && stage["paused"] == false
    })
}
