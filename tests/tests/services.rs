//! Requests over HTTP that stages of flows answer: the real binary, real sockets, also while the flow changes.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hivewire_tests::hive::Hive;
use hivewire_tests::http::{Response, request};
use hivewire_tests::nodes::{SETTLE_TIMEOUT, node, wait_for_parts};
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::{AckMode, Stomp, TIMEOUT};
use hivewire_tests::workers::component;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

fn put(hive: &Hive, document: &Value) -> Result<Response> {
    let flow = document["flow"].as_str().context("a flow")?;
    let path = format!("/api/v1/documents/{flow}");
    Ok(hive.rest_within(
        "PUT",
        &path,
        document.to_string().as_bytes(),
        SETTLE_TIMEOUT,
    )?)
}

fn apply(hive: &Hive, document: &Value) -> Result<()> {
    let answer = put(hive, document)?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    Ok(())
}

fn services(hive: &Hive) -> Result<Value> {
    Ok(hive.rest("GET", "/api/v1/services", b"")?.json()?)
}

/// Where services listen.
fn address(hive: &Hive) -> Result<SocketAddr> {
    let shown = services(hive)?;
    let address = shown["address"].as_str();
    Ok(address.with_context(|| shown.to_string())?.parse()?)
}

fn ask(hive: &Hive, route: &str, headers: &[(&str, &str)], body: &str) -> Result<Response> {
    let (method, path) = route.split_once(' ').context("a method and a path")?;
    Ok(request(
        address(hive)?,
        method,
        path,
        headers,
        body.as_bytes(),
    )?)
}

/// A flow with one stage that answers, and more.
fn greeter(with: &str, http: Value) -> Value {
    json!({
        "flow": "greeter",
        "stages": { "greet": { "plugin": "answer", "parameters": { "with": with } } },
        "http": http,
    })
}

#[test]
fn the_example_takes_orders() -> Result<()> {
    let hive = Hive::start()?;
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/services/shop/flow.toml"
    );
    let ran = hive.command(&["run", file]).output()?;
    ensure!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );

    let hello = ask(&hive, "GET /hello/Ada%20L", &[], "")?;
    assert_eq!((hello.status, hello.text().as_str()), (200, "hello Ada L"));
    assert_eq!(
        hello.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let order = r#"{"article": "tea", "price": 3, "count": 2}"#;
    let made = ask(&hive, "POST /orders", &[JSON], order)?;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()?, json!({ "article": "tea", "total": 6 }));
    let wrong = ask(&hive, "POST /orders", &[JSON], r#"{"article": "tea"}"#)?;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    assert!(wrong.text().contains("price"), "{}", wrong.text());
    let back = ask(
        &hive,
        "POST /returns",
        &[JSON],
        r#"{"article": "tea", "count": -1}"#,
    )?;
    assert_eq!((back.status, back.text().as_str()), (202, ""));

    let mut stomp = Stomp::connect(hive.stomp_address())?;
    stomp.subscribe("sales", "/queue/sales", AckMode::Auto, &[])?;
    let mut sold = Vec::new();
    while sold.len() < 2 {
        let sale: Value = serde_json::from_slice(&stomp.next_message(TIMEOUT)?.body)?;
        sold.push((sale["orders"].as_i64(), sale["articles"].as_i64()));
    }
    assert_eq!(sold, [(Some(1), Some(2)), (Some(2), Some(1))]);

    let listed = hive.command(&["services"]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    assert!(
        listed.contains("/hello/{name}") && listed.contains("shop/orders"),
        "{listed}"
    );
    Ok(())
}

#[test]
fn what_nobody_answers_is_told() -> Result<()> {
    let hive = Hive::options()
        .config("[services.limits]\nbody_bytes_max = 1000\n")
        .start()?;
    assert_eq!(
        services(&hive)?["address"],
        Value::Null,
        "nobody needs it yet"
    );
    let document = json!({
        "flow": "odd",
        "stages": {
            "mute": { "plugin": "map", "parameters": { "to": "event" }, "to": "queue:q" },
            "answers": { "plugin": "answer", "parameters": { "status": "event.status" } },
            "gone": { "plugin": "answer" },
        },
        "http": [
            { "route": "POST /mute", "stage": "mute", "timeout": "200ms" },
            { "route": "POST /orders/{id}", "stage": "answers" },
            { "route": "GET /gone", "stage": "gone" },
        ],
    });
    apply(&hive, &document)?;
    let problem = |answer: &Response| {
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{answer:?}"
        );
    };
    let late = ask(&hive, "POST /mute", &[], "1")?;
    assert!([502, 504].contains(&late.status), "{late:?}");
    problem(&late);
    let nowhere = ask(&hive, "GET /nowhere", &[], "")?;
    assert_eq!(nowhere.status, 404);
    problem(&nowhere);
    let wrong = ask(&hive, "DELETE /orders/7", &[], "")?;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    problem(&wrong);
    let large = ask(&hive, "POST /orders/7", &[], &"x".repeat(1_001))?;
    assert_eq!(large.status, 413);
    problem(&large);
    let head = ask(&hive, "HEAD /gone", &[], "")?;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let stopped = hive.command(&["stop", "odd/gone"]).output()?;
    ensure!(stopped.status.success(), "{stopped:?}");
    let gone = ask(&hive, "GET /gone", &[], "")?;
    assert_eq!(
        (gone.status, gone.header("retry-after")),
        (503, Some("1")),
        "{gone:?}"
    );
    problem(&gone);

    let shown = services(&hive)?;
    let of = |path: &str| {
        shown["routes"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["path"] == path))
    };
    let gone = of("/gone").context("a route")?;
    assert_eq!(
        (gone["running"].as_bool(), gone["failed"].as_u64()),
        (Some(false), Some(1)),
        "{gone}"
    );
    let metrics = hive.rest("GET", "/metrics", b"")?.text();
    let line =
        r#"hivewire_route_requests_total{flow="odd",stage="gone",method="GET",path="/gone"} 2"#;
    assert!(metrics.contains(line), "{metrics}");
    Ok(())
}

#[test]
fn routes_change_while_requests_come() -> Result<()> {
    let hive = Arc::new(Hive::start()?);
    let route = |path: &str| json!([{ "route": format!("GET {path}"), "stage": "greet" }]);
    apply(&hive, &greeter("'one'", route("/greet")))?;
    let address = address(&hive)?;
    let on = Arc::new(AtomicBool::new(true));
    let asking = {
        let on = on.clone();
        thread::spawn(move || -> Result<Vec<String>> {
            let mut answers = Vec::new();
            while on.load(Ordering::SeqCst) {
                let answer = request(address, "GET", "/greet", &[], b"")?;
                ensure!(answer.status == 200, "{answer:?}");
                answers.push(answer.text());
            }
            Ok(answers)
        })
    };
    let more = json!([
        { "route": "GET /greet", "stage": "greet" },
        { "route": "GET /welcome", "stage": "greet" },
    ]);
    apply(&hive, &greeter("'two'", more))?;
    assert_eq!(ask(&hive, "GET /welcome", &[], "")?.text(), "two");
    on.store(false, Ordering::SeqCst);
    let mut answers = asking.join().expect("asking does not panic")?;
    answers.dedup();
    assert!(
        ["one", "two"].ends_with(&answers.iter().map(String::as_str).collect::<Vec<_>>())
            || answers == ["one"],
        "{answers:?}"
    );
    apply(&hive, &greeter("'two'", route("/welcome")))?;
    assert_eq!(ask(&hive, "GET /greet", &[], "")?.status, 404);
    assert_eq!(ask(&hive, "GET /welcome", &[], "")?.status, 200);
    Ok(())
}

#[test]
fn a_component_is_replaced_while_it_serves() -> Result<()> {
    let hive = Hive::start()?;
    let document = |worker: &str| {
        json!({
            "flow": "counting",
            "stages": { "count": { "plugin": component(worker) } },
            "http": [{ "route": "POST /count", "stage": "count" }],
        })
    };
    apply(&hive, &document("counter"))?;
    let address = address(&hive)?;
    let on = Arc::new(AtomicBool::new(true));
    let asking = {
        let on = on.clone();
        thread::spawn(move || -> Result<Vec<String>> {
            let mut answers = Vec::new();
            while on.load(Ordering::SeqCst) || answers.is_empty() {
                let answer = request(address, "POST", "/count", &[], b"")?;
                ensure!(answer.status == 200, "{answer:?}");
                answers.push(answer.text());
            }
            Ok(answers)
        })
    };
    apply(&hive, &document("counter-v2"))?;
    on.store(false, Ordering::SeqCst);
    let mut answers = asking.join().expect("asking does not panic")?;
    answers.push(ask(&hive, "POST /count", &[], "")?.text());
    let last = answers.last().context("an answer")?;
    assert!(last.starts_with("v2:"), "{last}");
    for (number, answer) in answers.iter().enumerate() {
        let count = answer
            .rsplit('/')
            .next()
            .and_then(|count| count.parse().ok());
        assert_eq!(
            count,
            Some(number + 1),
            "each request counts once: {answer}"
        );
    }
    Ok(())
}

#[test]
fn web_pages_of_others_are_kept_out() -> Result<()> {
    let hive = Hive::options()
        .config("[services]\norigins = [\"https://front.example\"]\n")
        .start()?;
    let http = json!([{ "route": "POST /greet", "stage": "greet" }]);
    apply(&hive, &greeter("'hi'", http))?;
    let from = |origin| ask(&hive, "POST /greet", &[("origin", origin)], "");
    assert_eq!(from("https://evil.example")?.status, 403);
    let own = format!("http://{}", address(&hive)?);
    assert_eq!(from(&own)?.status, 200);
    let allowed = from("https://front.example")?;
    assert_eq!(allowed.status, 200);
    assert_eq!(
        allowed.header("access-control-allow-origin"),
        Some("https://front.example")
    );
    let before = [
        ("origin", "https://front.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let before = ask(&hive, "OPTIONS /greet", &before, "")?;
    assert_eq!(before.status, 200, "{before:?}");
    assert!(
        before.header("access-control-allow-methods").is_some(),
        "{before:?}"
    );
    let picture = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    assert_eq!(ask(&hive, "POST /greet", &picture, "")?.status, 403);
    assert_eq!(services(&hive)?["refused"], 2);
    Ok(())
}

#[test]
fn two_flows_cannot_answer_the_same() -> Result<()> {
    let hive = Hive::start()?;
    let route = |route| json!([{ "route": route, "stage": "greet" }]);
    apply(&hive, &greeter("'first'", route("GET /greet/{name}")))?;
    let mut other = greeter("'second'", route("GET /greet/{who}"));
    other["flow"] = json!("other");
    let refused = put(&hive, &other)?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let problem = &refused.json()?["problems"][0];
    assert_eq!(problem["path"], "http.0.route", "{problem}");
    assert_eq!(ask(&hive, "GET /greet/x", &[], "")?.text(), "first");
    // The control: another path is fine.
    other["http"] = route("GET /welcome/{who}");
    apply(&hive, &other)?;
    assert_eq!(ask(&hive, "GET /welcome/x", &[], "")?.text(), "second");
    Ok(())
}

#[test]
fn routes_are_there_again_after_a_kill() -> Result<()> {
    let mut hive = Hive::start()?;
    let http = json!([{ "route": "GET /greet", "stage": "greet" }]);
    apply(&hive, &greeter("'hi'", http))?;
    assert_eq!(ask(&hive, "GET /greet", &[], "")?.status, 200);
    hive.kill9();
    hive.start_again()?;
    let answers = wait_until(TIMEOUT, || {
        ask(&hive, "GET /greet", &[], "").is_ok_and(|answer| answer.text() == "hi")
    });
    assert!(answers, "{}", hive.log());
    Ok(())
}

#[test]
fn a_port_that_is_taken_is_told_and_taken_once_it_is_free() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?;
    let hive = Hive::options()
        .config(format!("[services]\naddress = \"{port}\"\n"))
        .start()?;
    let http = json!([{ "route": "GET /greet", "stage": "greet" }]);
    apply(&hive, &greeter("'hi'", http))?;
    let shown = services(&hive)?;
    let problem = shown["problem"].as_str().context("a problem")?;
    assert!(
        problem.contains(&port.to_string()) && problem.contains("services.address"),
        "{problem}"
    );
    drop(taken);
    let listens = wait_until(Duration::from_secs(60), || {
        ask(&hive, "GET /greet", &[], "").is_ok_and(|answer| answer.text() == "hi")
    });
    assert!(listens, "{}", services(&hive)?);
    Ok(())
}

#[test]
fn every_node_answers_for_all() -> Result<()> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let (a, b) = (node("a", &bus).start()?, node("b", &bus).start()?);
    let mut document = greeter(
        "'from one of us'",
        json!([{ "route": "GET /greet", "stage": "greet" }]),
    );
    document["stages"]["greet"]["on"] = json!(["b"]);
    apply(&a, &document)?;
    wait_for_parts(&a, "greeter/greet", "b has the stage", |parts| {
        parts.get("b").is_some_and(|parts| *parts > 0)
            && parts.get("a").is_none_or(|parts| *parts == 0)
    })?;
    for hive in [&a, &b] {
        let mut last = String::new();
        let answers = wait_until(SETTLE_TIMEOUT, || {
            let answer = ask(hive, "GET /greet", &[], "");
            last = format!("{answer:?}");
            answer.is_ok_and(|answer| answer.text() == "from one of us")
        });
        assert!(answers, "{last}; {}", hive.log());
    }
    Ok(())
}
