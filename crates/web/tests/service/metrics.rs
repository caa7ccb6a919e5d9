//! Metrics as they are read from outside.

use kernel::metrics::{Registry, to_text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use web::service::ServicesCollector;
use web::{Running, Service, Settings, Write};

use crate::rig::{Gate, PATIENCE, asking, build, get, post, until};

struct Count(u64);

fn add(mut count: Write<Count>) -> String {
    count.0 += 1;
    count.0.to_string()
}

fn service() -> Running {
    let service = Service::new().share(Count(0));
    build(service.post("/count/{n}", add).get("/", || "hello"))
}

/// The value of the line that begins so.
fn value(text: &str, series: &str) -> f64 {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let found = found.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    found.parse().unwrap()
}

#[tokio::test]
async fn routes_and_states_are_counted() {
    let running = service();
    for path in ["/count/1", "/count/2", "/count/1"] {
        post(&running, path).await;
    }
    get(&running, "/").await;
    let done = || running.explain().loops.unwrap().done;
    until("all calls have ended", || done() == 4).await;
    let text = running.metrics();
    let route = r#"service="service",method="POST",path="/count/{n}""#;
    assert_eq!(
        value(&text, &format!("service_requests_total{{{route}}}")),
        3.0
    );
    assert_eq!(
        value(&text, &format!("service_handling_seconds_count{{{route}}}")),
        3.0
    );
    assert!(value(&text, &format!("service_handling_seconds_sum{{{route}}}")) > 0.0);
    let last = format!("service_handling_seconds_bucket{{le=\"+Inf\",{route}}}");
    assert_eq!(value(&text, &last), 3.0);
    let state = r#"service="service",state="Count""#;
    assert_eq!(
        value(&text, &format!("service_state_taken_total{{{state}}}")),
        3.0
    );
    assert_eq!(
        value(&text, &format!("service_state_parked_total{{{state}}}")),
        0.0
    );
    assert_eq!(
        value(&text, "service_loop_calls_total{service=\"service\"}"),
        4.0
    );
    assert_eq!(
        value(&text, "service_overloaded_total{service=\"service\"}"),
        0.0
    );
    let refused = r#"service_edge_refused_total{service="service",reason="idle"}"#;
    assert_eq!(value(&text, refused), 0.0);
    assert!(text.ends_with("# EOF\n"), "{text}");
    // Each family is described once.
    for kind in ["counter", "gauge", "histogram"] {
        let described: Vec<_> = text
            .lines()
            .filter(|line| line.ends_with(kind) && line.starts_with("# TYPE"))
            .collect();
        let mut once = described.clone();
        once.sort_unstable();
        once.dedup();
        assert!(
            !once.is_empty() && once.len() == described.len(),
            "{described:?}"
        );
    }
}

#[tokio::test]
async fn who_waits_for_a_state_is_seen() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Write<Count>| held.pass();
    let settings = Settings {
        loops: 2,
        ..Settings::default()
    };
    let running = build(
        Service::new()
            .share(Count(0))
            .post("/", hold)
            .settings(settings),
    );
    let first = asking(&running, "POST", "/");
    until("it is held", || gate.came() == 1).await;
    let second = asking(&running, "POST", "/");
    let number = |family: &str| {
        let series = format!("{family}{{service=\"service\",state=\"Count\"}}");
        value(&running.metrics(), &series)
    };
    until("one waits", || number("service_state_waiting") == 1.0).await;
    gate.open();
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(number("service_state_waiting"), 0.0);
    assert_eq!(number("service_state_parked_total"), 1.0);
    assert_eq!(number("service_state_waiting_seconds_count"), 1.0);
    assert!(number("service_state_waiting_seconds_sum") > 0.0);
    until("it was let go", || {
        number("service_state_holding_seconds_count") >= 1.0
    })
    .await;
}

#[tokio::test]
async fn what_connections_did_is_not_forgotten_with_the_listener() {
    let running = service();
    let edge = |what: &str| {
        value(
            &running.metrics(),
            &format!("{what}{{service=\"service\"}}"),
        )
    };
    for round in 1..=2_u32 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = running.clone();
        let serving = tokio::spawn(async move { served.serve(listener).await });
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        socket.write_all(request).await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await;
        read.unwrap().unwrap();
        until("it is gone", || edge("service_connections") == 0.0).await;
        assert_eq!(edge("service_edge_requests_total"), f64::from(round));
        serving.abort();
        until("nobody serves", || running.edge().is_empty()).await;
        assert_eq!(edge("service_connections_accepted_total"), f64::from(round));
        assert_eq!(edge("service_edge_requests_total"), f64::from(round));
    }
}

#[tokio::test]
async fn several_services_share_a_registry() {
    let (one, two) = (service(), service());
    post(&two, "/count/1").await;
    let mut registry = Registry::default();
    let both = ServicesCollector::new(move || {
        vec![
            ("one".to_owned(), one.clone()),
            ("two".to_owned(), two.clone()),
        ]
    });
    registry.register_collector(Box::new(both));
    let text = to_text(&registry);
    for (name, count) in [("one", 0.0), ("two", 1.0)] {
        let series = format!(
            "service_requests_total{{service=\"{name}\",method=\"POST\",path=\"/count/{{n}}\"}}"
        );
        assert_eq!(value(&text, &series), count);
    }
    assert_eq!(text.matches("# TYPE service_requests counter").count(), 1);
}
