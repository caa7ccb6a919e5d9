//! The OpenAPI document is true: every operation is called on the real binary, and every answer is what the
//! document says.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;
#[path = "common/contract.rs"]
mod contract;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use build::Descriptor;
use build::descriptor;
use common::Hive;
use contract::{Contract, Received};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

const TIMEOUT: Duration = Duration::from_secs(60);
const BATCH: &str =
    r#"{"messages":[{"body":"one"},{"body_base64":"/w==","headers":{"k":"v"},"durable":false}]}"#;

/// A node whose answers are compared with the document.
struct Checked {
    hive: Hive,
    agent: Agent,
    contract: RefCell<Contract>,
}

impl Checked {
    fn new(hive: Hive) -> Self {
        let document = hive.rest("GET", "/api/v1/openapi.json", "").json();
        Self {
            hive,
            agent: Agent::config_builder()
                .http_status_as_error(false)
                .timeout_global(Some(TIMEOUT))
                .build()
                .into(),
            contract: RefCell::new(Contract::new(document)),
        }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Received {
        let uri = format!("http://{}{path}", self.hive.address("http"));
        let mut request = Request::builder().method(method).uri(uri);
        if !headers.iter().any(|(name, _)| *name == "Authorization") {
            request = request.header("Authorization", format!("Bearer {}", self.hive.token()));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).unwrap();
        let mut answer = self.agent.run(request).unwrap();
        let content_type = answer.headers().get("content-type");
        Received {
            status: answer.status().as_u16(),
            content_type: content_type.map(|value| value.to_str().unwrap().to_owned()),
            body: answer.body_mut().read_to_vec().unwrap(),
        }
    }

    /// Asks, and compares the answer with the document.
    fn call(
        &self,
        expected: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Received {
        let answer = self.ask(method, path, headers, body);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, expected, "{method} {path}: {text}");
        let checked = self.contract.borrow_mut().check(method, path, &answer);
        checked.unwrap_or_else(|reason| panic!("{reason}"));
        answer
    }

    fn get(&self, expected: u16, path: &str) -> Value {
        json_of(&self.call(expected, "GET", path, &[], b""))
    }

    fn post(&self, expected: u16, path: &str, body: &Value) -> Value {
        let headers = [("Content-Type", "application/json")];
        json_of(&self.call(
            expected,
            "POST",
            path,
            &headers,
            body.to_string().as_bytes(),
        ))
    }

    fn delete(&self, expected: u16, path: &str) -> Value {
        json_of(&self.call(expected, "DELETE", path, &[], b""))
    }
}

fn json_of(answer: &Received) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

/// Says 200 to whoever posts something.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut some = [0; 64 << 10];
            let _ = stream.read(&mut some);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

/// A node among others, so that all operations have something to work on.
fn node() -> Hive {
    Hive::with_config(&format!(
        "[[alerts.webhooks]]\nurl = \"http://{}/\"\n[node]\nname = \"a\"\n",
        sink()
    ))
}

fn worker(name: &str) -> String {
    let path = build::test_worker(name).unwrap_or_else(|error| panic!("{error}"));
    path.to_str().unwrap().to_owned()
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !look() {
        assert!(Instant::now() < end, "it did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn look_at_the_node(node: &Checked) {
    for path in [
        "/",
        "/health",
        "/metrics",
        "/api/v1/openapi.json",
        "/api/v1/node",
    ] {
        node.get(200, path);
    }
    node.get(404, "/assets/none.js");
    node.call(
        401,
        "GET",
        "/api/v1/node",
        &[("Authorization", "Bearer no")],
        b"",
    );
    node.call(
        403,
        "GET",
        "/metrics",
        &[("Origin", "http://evil.example")],
        b"",
    );
}

fn use_queues_and_topics(node: &Checked) {
    let messages = "/api/v1/queues/orders%2Fnew/messages";
    node.call(
        200,
        "POST",
        messages,
        &[("Content-Type", "application/json")],
        BATCH.as_bytes(),
    );
    node.call(200, "POST", messages, &[], &[0, 159, 146, 150]);
    node.call(
        400,
        "POST",
        messages,
        &[("Content-Type", "application/json")],
        b"[]",
    );
    node.get(200, "/api/v1/queues?q=orders&limit=1");
    node.get(200, "/api/v1/queues/orders%2Fnew");
    node.get(404, "/api/v1/queues/none");
    node.get(400, "/api/v1/queues?limit=many");
    let page = node.get(200, &format!("{messages}?limit=2"));
    let next = page["next"].as_str().unwrap();
    let page = node.get(200, &format!("{messages}?limit=2&after={next}"));
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    let stream = "/api/v1/queues/orders%2Fnew/stream?max=2&wait_ms=20000";
    let lines = node.call(200, "GET", stream, &[], b"");
    assert_eq!(lines.body.iter().filter(|byte| **byte == b'\n').count(), 2);
    node.delete(200, "/api/v1/queues/orders%2Fnew");
    node.delete(404, "/api/v1/queues/none");
    node.delete(409, "/api/v1/queues/hivewire.dead");

    node.call(200, "POST", "/api/v1/topics/news/messages", &[], b"hi");
    node.call(
        200,
        "GET",
        "/api/v1/topics/news/stream?wait_ms=50",
        &[],
        b"",
    );
    node.get(200, "/api/v1/topics");
    node.get(200, "/api/v1/topics/news");
    node.get(404, "/api/v1/topics/none");
}

fn use_plugins(node: &Checked) {
    let component = std::fs::read(worker("counter")).unwrap();
    let described = |version: &str, description: &str| {
        let descriptor = Descriptor {
            name: "counter".to_owned(),
            id: "shop/counter".to_owned(),
            version: version.to_owned(),
            description: description.to_owned(),
            ..Descriptor::default()
        };
        descriptor::embed(&component, &descriptor).unwrap()
    };
    let (first, second) = (described("1.0.0", ""), described("2.0.0", ""));
    let wasm = [("Content-Type", "application/wasm")];
    node.call(200, "POST", "/api/v1/plugins", &wasm, &first);
    node.call(422, "POST", "/api/v1/plugins", &wasm, b"nonsense");
    let path = "/api/v1/plugins/shop%2Fcounter/2.0.0";
    node.call(200, "PUT", &format!("{path}?author=me"), &wasm, &second);
    node.call(409, "PUT", path, &wasm, &described("2.0.0", "another"));
    node.call(400, "PUT", path, &wasm, b"");
    node.get(200, "/api/v1/plugins?q=counter");
    node.get(200, "/api/v1/plugins/shop%2Fcounter");
    node.get(404, "/api/v1/plugins/none");
    let path = "/api/v1/plugins/shop%2Fcounter/newest";
    let plugin = node.get(200, path);
    let etag = format!("\"{}\"", plugin["digest"].as_str().unwrap());
    node.call(304, "GET", path, &[("If-None-Match", &etag)], b"");
    let fetched = node.call(200, "GET", &format!("{path}/component"), &[], b"");
    assert_eq!(fetched.body, second);
    node.call(
        304,
        "GET",
        &format!("{path}/component"),
        &[("If-None-Match", &etag)],
        b"",
    );
    node.delete(200, "/api/v1/plugins/shop%2Fcounter/2.0.0");
    node.delete(404, "/api/v1/plugins/shop%2Fcounter/2.0.0");
    node.call(200, "PUT", "/api/v1/components", &wasm, &component);
}

fn apply_documents(node: &Checked) {
    let document = json!({
        "flow": "numbers",
        "stages": { "all": { "plugin": "map", "parameters": { "to": "event" }, "to": "queue:all" } },
    });
    node.post(200, "/api/v1/document-check", &document);
    let checked = node.post(200, "/api/v1/document-check", &json!({ "flow": "f" }));
    assert_eq!(checked["sound"], false);
    node.get(200, "/api/v1/document-schema");
    let path = "/api/v1/documents/numbers";
    node.get(404, path);
    node.get(404, &format!("{path}/versions"));
    let json = [("Content-Type", "application/json")];
    let toml = [("Content-Type", "application/toml")];
    let body = document.to_string();
    let plan = format!("{path}?plan=true");
    node.call(200, "PUT", &plan, &json, body.as_bytes());
    node.call(200, "PUT", path, &json, body.as_bytes());
    node.call(422, "PUT", path, &toml, b"flow = \"numbers\"");
    node.call(
        400,
        "PUT",
        "/api/v1/documents/other",
        &json,
        body.as_bytes(),
    );
    let other = [
        ("Content-Type", "application/json"),
        ("If-Match", "\"other\""),
    ];
    node.call(412, "PUT", path, &other, body.as_bytes());
    node.get(200, path);
    let accept = [("Accept", "application/toml")];
    node.call(200, "GET", path, &accept, b"");
    node.get(200, &format!("{path}/versions"));
    node.get(200, &format!("{path}/versions/1"));
    node.call(200, "GET", &format!("{path}/versions/1"), &accept, b"");
    node.get(404, &format!("{path}/versions/9"));
    node.delete(200, "/api/v1/flows/numbers");
}

fn deploy_and_change(node: &Checked) {
    let deployment = json!({ "as": "shop/counter", "source": worker("counter"), "workers": 3 });
    let deployed = node.post(200, "/api/v1/deployments", &deployment);
    assert_eq!(
        (&deployed["changed"], &deployed["version"]),
        (&json!(true), &json!(1))
    );
    let again = node.post(200, "/api/v1/deployments", &deployment);
    assert_eq!(
        (&again["changed"], &again["version"]),
        (&json!(false), &json!(1))
    );
    let missing = json!({ "as": "shop/other", "source": "/none.wasm" });
    node.post(422, "/api/v1/deployments", &missing);
    node.post(400, "/api/v1/deployments", &json!({ "as": "shop" }));

    let stage = "/api/v1/flows/shop/counter";
    until("it has all its parts", || {
        node.get(200, stage)["nodes"]["a"] == 3
    });
    node.get(200, "/api/v1/flows?q=shop/&state=running&node=a");
    node.get(200, "/api/v1/flows/shop");
    node.get(404, "/api/v1/flows/none");
    node.get(404, "/api/v1/flows/shop/none");
    node.get(200, &format!("{stage}/definition"));
    node.get(404, "/api/v1/flows/shop/none/definition");
    let path = format!("{stage}/workers?limit=2");
    let page = node.get(200, &path);
    assert_eq!(page["next"], "1");
    node.get(200, &format!("{path}&after=1"));

    node.post(
        200,
        "/api/v1/messages/shop%2Fcounter",
        &json!({ "messages": [{ "body": "x" }] }),
    );
    node.post(
        404,
        "/api/v1/messages/shop%2Fnone",
        &json!({ "messages": [] }),
    );
    node.call(
        200,
        "POST",
        "/api/v1/asks/shop%2Fcounter?timeout_ms=20000",
        &[],
        b"hi",
    );
    let json = [("Accept", "application/json")];
    node.call(
        200,
        "POST",
        "/api/v1/asks/shop%2Fcounter?timeout_ms=20000",
        &json,
        b"hi",
    );
    node.call(
        504,
        "POST",
        "/api/v1/asks/queue%3Anobody?timeout_ms=50",
        &[],
        b"hi",
    );

    let condition = [("If-Match", "\"0123\"")];
    node.call(
        412,
        "POST",
        &format!("{stage}/scale?workers=4"),
        &condition,
        b"",
    );
    node.post(200, &format!("{stage}/scale?workers=2"), &json!({}));
    node.post(200, &format!("{stage}/pause"), &json!({}));
    let paused = node.get(200, stage);
    assert_eq!(paused["paused"], true);
    node.post(200, &format!("{stage}/resume"), &json!({}));
    node.post(404, "/api/v1/flows/shop/none/pause", &json!({}));
    node.post(404, "/api/v1/flows/shop/none/resume", &json!({}));
    node.get(404, &format!("{stage}/sample?output=none"));
    let mut client = TcpStream::connect(node.hive.address("stomp")).unwrap();
    client
        .write_all(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        .unwrap();
    let mut some = [0; 512];
    assert!(client.read(&mut some).unwrap() > 0);
    node.get(200, "/api/v1/services");
    let page = node.get(200, "/api/v1/clients?limit=10");
    let id = page["clients"][0]["id"].as_u64().unwrap();
    node.delete(200, &format!("/api/v1/clients/{id}"));
    node.delete(404, "/api/v1/clients/0");
    node.get(200, "/api/v1/examples");
    node.post(404, "/api/v1/examples/none", &json!({}));
    node.get(200, "/api/v1/live?flow=shop");
    node.get(400, "/api/v1/live?period_ms=1");
    node.post(200, &format!("{stage}/restart?reset=true"), &json!({}));
    node.delete(200, &format!("{stage}/workers/1"));
    let versions = node.get(200, &format!("{stage}/versions"));
    assert_eq!(versions["versions"][0]["state"], "current", "{versions}");
    node.get(200, &format!("{stage}/history"));
    node.get(200, &format!("{stage}/decisions?limit=10"));
    node.get(200, "/api/v1/history?limit=1");
    node.call(200, "GET", &format!("{stage}/logs?tail=10"), &[], b"");
}

fn see_messages_die(node: &Checked) {
    let deployment = json!({
        "as": "shop/broken", "source": worker("broken-handle"), "supervision": { "tries_max": 1 },
    });
    node.post(200, "/api/v1/deployments", &deployment);
    for body in ["one", "two", "three"] {
        node.call(
            200,
            "POST",
            "/api/v1/queues/shop.broken/messages",
            &[],
            body.as_bytes(),
        );
    }
    until("three dead letters", || {
        let dead = node.get(200, "/api/v1/dead?from=shop.broken");
        dead["letters"].as_array().unwrap().len() == 3
    });
    node.call(200, "GET", "/api/v1/flows/shop/broken/logs", &[], b"");
    let page = node.get(200, "/api/v1/dead?limit=1");
    let first = page["next"].as_str().unwrap().parse::<u64>().unwrap();
    node.get(200, &format!("/api/v1/dead?limit=1&after={first}"));
    node.delete(200, "/api/v1/flows/shop/broken");
    let replayed = node.post(200, "/api/v1/dead/replay", &json!({ "id": first }));
    assert_eq!(replayed["replayed"], 1);
    assert_eq!(
        node.post(200, "/api/v1/dead/purge", &json!({}))["purged"],
        2
    );
    node.call(400, "POST", "/api/v1/dead/purge", &[], b"[]");
}

fn tell_nodes(node: &Checked) {
    node.get(200, "/api/v1/nodes?state=running&limit=10");
    node.get(200, "/api/v1/nodes/a");
    node.get(404, "/api/v1/nodes/none");
    node.post(
        200,
        "/api/v1/nodes/a",
        &json!({ "labels": { "zone": "1" } }),
    );
    node.post(404, "/api/v1/nodes/none", &json!({}));
    node.post(
        200,
        "/api/v1/moves",
        &json!({ "what": "shop/counter", "to": "a" }),
    );
    node.post(
        404,
        "/api/v1/moves",
        &json!({ "what": "shop/counter", "to": "none" }),
    );
}

fn listen_and_speak(node: &Checked) {
    node.post(
        200,
        "/api/v1/general",
        &json!({ "note": "hello", "from": "a test" }),
    );
    node.post(400, "/api/v1/general", &json!({ "note": "" }));
    let events = "/api/v1/events?kind=note,stage&tail=50";
    let events = node.call(200, "GET", events, &[], b"");
    assert!(events.body.windows(5).any(|some| some == b"hello"));
    node.get(400, "/api/v1/events?kind=none");
    let logs = node.call(200, "GET", "/api/v1/logs?level=info&limit=5", &[], b"");
    assert!(!logs.body.is_empty());
    node.get(404, "/api/v1/logs?node=none");
    node.get(400, "/api/v1/logs?level=none");
    node.post(200, "/api/v1/nodes/a/profile?seconds=1", &json!({}));
    node.post(404, "/api/v1/nodes/none/profile", &json!({}));
}

fn change_the_configuration(node: &Checked) {
    node.get(200, "/api/v1/config");
    node.get(404, "/api/v1/config?node=none");
    let key = "/api/v1/config/logs.filter";
    node.get(200, key);
    node.get(404, "/api/v1/config/none");
    let put = |status: u16, path: &str, body: &str| {
        let json = [("Content-Type", "application/json")];
        json_of(&node.call(status, "PUT", path, &json, body.as_bytes()))
    };
    assert_eq!(put(200, key, r#"{"value": "debug"}"#)["value"], "debug");
    put(400, key, r#"{"value": 7}"#);
    put(409, "/api/v1/config/data", r#"{"value": "/elsewhere"}"#);
    node.delete(200, key);
    let history = node.get(200, "/api/v1/config/history?limit=10");
    assert_eq!(history["changes"].as_array().map(Vec::len), Some(2));
}

fn look_for_alerts(node: &Checked) {
    node.get(200, "/api/v1/alerts?severity=warning");
    node.get(200, "/api/v1/alerts/rules");
    let order = json!({ "rule": "disk", "for_seconds": 60, "labels": { "a": "b" } });
    let silence = node.post(200, "/api/v1/alerts/silences", &order);
    node.post(
        404,
        "/api/v1/alerts/silences",
        &json!({ "rule": "none", "for_seconds": 60 }),
    );
    node.get(200, "/api/v1/alerts/silences");
    node.delete(200, &format!("/api/v1/alerts/silences/{}", silence["id"]));
    node.delete(404, &format!("/api/v1/alerts/silences/{}", silence["id"]));
    node.post(200, "/api/v1/alerts/test", &json!({}));
    let page = node.get(200, "/api/v1/requests?limit=2");
    let next = page["next"].as_str().unwrap();
    node.get(200, &format!("/api/v1/requests?after={next}&status=200"));
}

fn use_the_registry(node: &Checked) {
    let systems = node.get(200, "/registry/system/list");
    let id = &systems[0]["bootstrapperId"];
    let deployment = json!({
        "bootstrapperId": id,
        "action": "action.addIsolate",
        "isolateSystemName": "old",
        "isolateName": "echo",
        "uri": worker("echo"),
        "workersPaths": ["localhost"],
    });
    node.post(200, "/registry/deploy", &deployment);
    node.post(400, "/registry/deploy", &json!({}));
    let path = format!("/registry/system/{}", id.as_str().unwrap());
    assert!(node.get(200, &path)["old"].is_array());
    node.get(404, "/registry/system/none");
    let shutdown = json!({ "bootstrapperId": id, "isolateSystemName": "old" });
    node.post(200, "/registry/system/shutdown", &shutdown);
    node.post(404, "/registry/system/shutdown", &shutdown);
    node.delete(200, "/api/v1/flows/shop");
    node.delete(404, "/api/v1/flows/shop");
}

/// A crawl that has just begun, of a server that is not there.
fn look_at_crawls(node: &Checked) {
    let path = "/api/v1/crawls/site";
    node.get(404, path);
    let site = json!({
        "flow": "site",
        "stages": {
            "normalise": { "plugin": "url-normaliser", "to": "seen" },
            "seen": { "plugin": "seen-urls", "key": "json:/host", "to": "frontier" },
            "frontier": { "plugin": "frontier", "key": "json:/host", "to": "store" },
            "store": { "plugin": "page-store", "parameters": { "to": "crawls/site" } },
        },
    });
    let mut bare = site.clone();
    bare["flow"] = "bare".into();
    bare["stages"].as_object_mut().unwrap().remove("store");
    bare["stages"]["frontier"]
        .as_object_mut()
        .unwrap()
        .remove("to");
    let json = [("Content-Type", "application/json")];
    for document in [&site, &bare] {
        let path = format!("/api/v1/documents/{}", document["flow"].as_str().unwrap());
        node.call(200, "PUT", &path, &json, document.to_string().as_bytes());
    }
    let crawls = node.get(200, "/api/v1/crawls?limit=1");
    assert_eq!(
        (&crawls["crawls"][0]["flow"], &crawls["next"]),
        (&json!("bare"), &json!("bare"))
    );
    node.get(200, "/api/v1/crawls?after=bare");
    let crawl = node.get(200, &format!("{path}?results=true&hosts=5"));
    assert_eq!(
        (&crawl["fetched"], &crawl["results"]["pages"]),
        (&json!(0), &json!(0))
    );
    node.get(400, &format!("{path}?hosts=many"));
    node.get(200, &format!("{path}/pages?status=4xx&order=url&limit=5"));
    node.get(400, &format!("{path}/pages?status=much"));
    node.get(409, "/api/v1/crawls/bare/pages");
    node.get(200, &format!("{path}/search?query=honey&limit=3"));
    node.get(400, &format!("{path}/search?query="));
    let why = node.get(200, &format!("{path}/why?url=http://example.com/%23a"));
    assert_eq!(
        (&why["url"], &why["fate"]),
        (&json!("http://example.com/"), &json!("unknown"))
    );
    node.get(409, "/api/v1/crawls/bare/why?url=http://example.com/");
    node.call(200, "GET", &format!("{path}/export?what=refused"), &[], b"");
    node.call(200, "GET", &format!("{path}/export?format=csv"), &[], b"");
    node.get(400, &format!("{path}/export?format=xml"));
    node.delete(200, "/api/v1/flows/site");
    node.delete(200, "/api/v1/flows/bare");
}

#[test]
fn every_operation_answers_as_the_document_says() {
    let node = Checked::new(node());
    look_at_the_node(&node);
    use_queues_and_topics(&node);
    use_plugins(&node);
    apply_documents(&node);
    look_at_crawls(&node);
    deploy_and_change(&node);
    see_messages_die(&node);
    tell_nodes(&node);
    listen_and_speak(&node);
    change_the_configuration(&node);
    look_for_alerts(&node);
    use_the_registry(&node);
    let contract = node.contract.borrow();
    assert!(
        contract.not_called().is_empty(),
        "{:?}",
        contract.not_called()
    );
}

#[test]
fn the_document_has_every_route_and_no_other() {
    let node = Checked::new(Hive::start());
    let routes = hivewire::rest::ROUTES.iter();
    let routes = routes.map(|route| format!("{} {}", route.method, route.path));
    assert_eq!(node.contract.borrow().operations(), routes.collect());
}

/// Whether the checks find out that a document was falsified.
fn is_found_out(hive: &Hive, falsify: impl Fn(&mut Value)) -> bool {
    let mut document = hive.rest("GET", "/api/v1/openapi.json", "").json();
    let before = document.clone();
    falsify(&mut document);
    assert_ne!(document, before, "nothing was falsified");
    let answer = hive.rest("GET", "/api/v1/queues/orders", "");
    assert_eq!(answer.status, 200);
    let received = Received {
        status: 200,
        content_type: Some("application/json".to_owned()),
        body: answer.body.into_bytes(),
    };
    let check = |document| Contract::new(document).check("GET", "/api/v1/queues/orders", &received);
    check(before).unwrap_or_else(|reason| panic!("{reason}"));
    check(document).is_err()
}

#[test]
fn control_a_document_that_is_not_true_is_found_out() {
    let hive = Hive::start();
    hive.rest("POST", "/api/v1/queues/orders/messages", BATCH);
    let schema = "/components/schemas/QueueShown";
    let property = |document: &mut Value, from: &str, to: &str| {
        let properties = document
            .pointer_mut(&format!("{schema}/properties"))
            .unwrap();
        let properties = properties.as_object_mut().unwrap();
        let moved = properties.remove(from).unwrap();
        properties.insert(to.to_owned(), moved);
    };
    assert!(is_found_out(&hive, |document| property(
        document, "on_disk", "onDisk"
    )));
    assert!(is_found_out(&hive, |document| {
        let required = document.pointer_mut(&format!("{schema}/required")).unwrap();
        required.as_array_mut().unwrap().push("colour".into());
    }));
    assert!(is_found_out(&hive, |document| {
        document["components"]["schemas"]["QueueShown"]["properties"]["waiting"]["type"] =
            "string".into();
    }));
    assert!(is_found_out(&hive, |document| {
        let responses =
            document["paths"]["/api/v1/queues/{name}"]["get"]["responses"].as_object_mut();
        responses.unwrap().remove("200");
    }));
    // An operation that nobody calls is missed.
    let document = hive.rest("GET", "/api/v1/openapi.json", "").json();
    let contract = Contract::new(document);
    assert_eq!(contract.not_called().len(), contract.operations().len());
}
