//! The registry of the real binary: the requests of the system that Hivewire takes over from, as they
//! are written there.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Hive, stderr, stdout};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);

const DEPLOY: &str = r#"{
  "bootstrapperId" : "266393094",
  "action": "action.addIsolate",
  "messageQueuingSystemServer": "ws://54.77.239.200:42043/mqs",
  "isolateSystemName" : "sampleSystem",
  "isolateName" : "consumer",
  "uri" : "http://54.77.239.221/sampleSystem/bin/Consumer.dart",
  "workersPaths" : ["localhost",
    "ws://54.77.239.243:42042/activator"],
  "routerType" : "random",
  "hotDeployment" : true
}"#;

const DETAILS: &str = r#"{
  "sampleSystem": [
    {
      "id": "sampleSystem/consumer",
      "workerUri":
        "http://54.77.239.221/sampleSystem/bin/Consumer.dart",
      "workersCount": 2,
      "workersPaths": [
        "localhost",
        "ws://54.77.239.243:42042/activator"
      ],
      "routerType": "random",
      "hotDeployment": true
    }
  ]
}"#;

const SHUTDOWN_ISOLATE: &str = r#"{
  "bootstrapperId" : "266393094",
  "isolateSystemName" : "sampleSystem",
  "isolateName" : "consumer"
}"#;

const SHUTDOWN_SYSTEM: &str = r#"{
  "bootstrapperId" : "266393094",
  "isolateSystemName" : "sampleSystem"
}"#;

fn component(name: &str) -> PathBuf {
    build::test_worker(name).unwrap_or_else(|error| panic!("{error}"))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ask(hive: &Hive, stage: &str) -> String {
    let reply = hive.run(&["ask", stage, "hi", "--timeout", "20s"]);
    assert!(reply.status.success(), "{}", stderr(&reply));
    stdout(&reply).trim_end().to_owned()
}

/// Two nodes: the first one has the broker.
fn two_nodes() -> (Hive, Hive) {
    let node = |more: String| {
        Hive::with_config(&format!(
            "[deploy]\nallow_private_sources = true\n[node]\n{more}"
        ))
    };
    let a = node("name = \"a\"".to_owned());
    let bus = a.address("stomp");
    let b = node(format!("name = \"b\"\nbus = [\"stomp://{bus}\"]"));
    until("both nodes are listed by both", || {
        let knows_two = |hive: &Hive| list(hive).len() == 2;
        (knows_two(&a) && knows_two(&b)).then_some(())
    });
    (a, b)
}

fn list(hive: &Hive) -> Vec<Value> {
    let answer = hive.rest("GET", "/registry/system/list", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json().as_array().unwrap().clone()
}

/// The id of the node that listens there.
fn id_of(hive: &Hive) -> String {
    let port = hive.address("http").port().to_string();
    let list = list(hive);
    let system = list.iter().find(|system| system["port"] == port).unwrap();
    system["bootstrapperId"].as_str().unwrap().to_owned()
}

fn activator(hive: &Hive) -> String {
    format!("ws://{}/activator", hive.address("http"))
}

fn details(hive: &Hive, id: &str) -> Value {
    let answer = hive.rest("GET", &format!("/registry/system/{id}"), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn must_post(hive: &Hive, path: &str, body: &str) {
    let answer = hive.rest("POST", path, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body, "");
}

fn deploy(hive: &Hive, body: &Value) {
    must_post(hive, "/registry/deploy", &body.to_string());
}

fn shut_down(hive: &Hive, body: &Value) {
    must_post(hive, "/registry/system/shutdown", &body.to_string());
}

fn deployment(id: &str, isolate: &str, uri: &Path, places: &[&str]) -> Value {
    json!({
        "bootstrapperId": id,
        "action": "action.addIsolate",
        "isolateSystemName": "sampleSystem",
        "isolateName": isolate,
        "uri": uri,
        "workersPaths": places,
        "routerType": "random",
        "hotDeployment": false,
    })
}

fn stage(hive: &Hive, stage: &str) -> Value {
    hive.rest("GET", &format!("/api/v1/flows/{stage}"), "")
        .json()
}

fn wait_for_parts(hive: &Hive, address: &str, parts: &Value) {
    let mut last = Value::Null;
    let end = Instant::now() + TIMEOUT;
    while last != *parts {
        assert!(
            Instant::now() < end,
            "{address}: {parts} never came, but {last}"
        );
        std::thread::sleep(Duration::from_millis(50));
        last = stage(hive, address)["nodes"].clone();
        if let Some(nodes) = last.as_object_mut() {
            nodes.retain(|_, parts| *parts != json!(0));
        }
    }
}

/// How often something was deployed, replaced or stopped.
fn changes(hive: &Hive, stage: &str) -> usize {
    let path = format!("/api/v1/flows/{stage}/history");
    let history = hive.rest("GET", &path, "").json();
    history["history"].as_array().unwrap().len()
}

#[test]
fn the_samples_work_as_they_are_written() {
    let (a, b) = two_nodes();
    let uri = serve(&component("counter"));
    let (id_a, id_b) = (id_of(&a), id_of(&b));
    for id in [&id_a, &id_b] {
        assert!(id.bytes().all(|digit| digit.is_ascii_digit()), "{id}");
    }
    let port = |hive: &Hive| hive.address("http").port().to_string();
    let listed = json!([
        { "bootstrapperId": id_a, "ip": "127.0.0.1", "port": port(&a) },
        { "bootstrapperId": id_b, "ip": "127.0.0.1", "port": port(&b) },
    ]);
    assert_eq!(json!(list(&a)), listed);
    assert_eq!(json!(list(&b)), listed, "any node serves the registry");

    let mqs = format!("ws://{}/mqs", a.address("stomp"));
    let here = |sample: &str| {
        sample
            .replace("266393094", &id_a)
            .replace("ws://54.77.239.200:42043/mqs", &mqs)
            .replace("http://54.77.239.221/sampleSystem/bin/Consumer.dart", &uri)
            .replace("ws://54.77.239.243:42042/activator", &activator(&b))
    };
    must_post(&a, "/registry/deploy", &here(DEPLOY));
    wait_for_parts(&a, "sampleSystem/consumer", &json!({ "a": 1, "b": 1 }));
    let expected: Value = serde_json::from_str(&here(DETAILS)).unwrap();
    assert_eq!(details(&a, &id_a), expected);
    assert_eq!(details(&b, &id_a), expected);
    assert_eq!(details(&b, "a"), expected, "a name serves as an id");
    assert_eq!(details(&a, &id_b), json!({}), "nothing was deployed for b");
    assert_eq!(ask(&b, "sampleSystem/consumer"), "1/1");

    // The same once more, to either node, does nothing.
    let now = || {
        let version = stage(&a, "sampleSystem/consumer")["version"].clone();
        (version, changes(&a, "sampleSystem/consumer"))
    };
    let before = now();
    must_post(&a, "/registry/deploy", &here(DEPLOY));
    must_post(&b, "/registry/deploy", &here(DEPLOY));
    assert_eq!(now(), before);

    // One stage ends, and all else goes on.
    let counter = component("counter");
    deploy(&a, &deployment(&id_a, "other", &counter, &["localhost"]));
    let mut elsewhere = deployment(&id_a, "counter", &counter, &["b"]);
    elsewhere["isolateSystemName"] = "elsewhere".into();
    deploy(&a, &elsewhere);
    assert_eq!(ask(&a, "sampleSystem/other"), "1/1");
    assert_eq!(ask(&a, "elsewhere/counter"), "1/1");
    must_post(&a, "/registry/system/shutdown", &here(SHUTDOWN_ISOLATE));
    let left = details(&a, &id_a);
    assert_eq!(left["sampleSystem"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["sampleSystem"][0]["id"], "sampleSystem/other");
    assert_eq!(left["elsewhere"][0]["workersPaths"], json!([activator(&b)]));
    assert_eq!(ask(&a, "sampleSystem/other"), "2/2");
    let again = a.rest("POST", "/registry/system/shutdown", &here(SHUTDOWN_ISOLATE));
    again.problem(404);

    // And then the whole system.
    must_post(&b, "/registry/system/shutdown", &here(SHUTDOWN_SYSTEM));
    until("only the other system is left", || {
        let left = details(&a, &id_a);
        let left: Vec<&String> = left.as_object()?.keys().collect();
        (left == ["elsewhere"]).then_some(())
    });
    assert_eq!(ask(&a, "elsewhere/counter"), "2/2");
}

#[test]
fn each_node_has_a_replica_of_its_own_and_each_worker_its_place() {
    let (a, b) = two_nodes();
    let (id_a, id_b) = (id_of(&a), id_of(&b));
    let counter = component("counter");
    deploy(&a, &deployment(&id_a, "consumer", &counter, &["localhost"]));
    deploy(
        &a,
        &deployment(&id_b, "consumer", &counter, &["localhost", "localhost"]),
    );
    wait_for_parts(&a, "sampleSystem/consumer", &json!({ "a": 1, "b": 2 }));
    let paths = |id: &str| details(&a, id)["sampleSystem"][0]["workersPaths"].clone();
    assert_eq!(paths(&id_a), json!(["localhost"]));
    assert_eq!(paths(&id_b), json!(["localhost", "localhost"]));
    let whole = |id: &str| json!({ "bootstrapperId": id, "isolateSystemName": "sampleSystem" });
    shut_down(&b, &whole(&id_a));
    wait_for_parts(&b, "sampleSystem/consumer", &json!({ "b": 2 }));
    assert_eq!(details(&b, &id_a), json!({}));
    assert_eq!(paths(&id_b), json!(["localhost", "localhost"]));
    ask(&a, "sampleSystem/consumer");
    shut_down(&b, &whole(&id_b));
    until("it is gone everywhere", || {
        let path = "/api/v1/flows/sampleSystem/consumer";
        let gone = |hive: &Hive| hive.rest("GET", path, "").status == 404;
        (gone(&a) && gone(&b)).then_some(())
    });

    // A stage with a router that chooses several workers has one worker at each place, too.
    let mut all = deployment(&id_b, "all", &counter, &["a", "localhost"]);
    all["routerType"] = "broadcast".into();
    deploy(&a, &all);
    wait_for_parts(&a, "sampleSystem/all", &json!({ "a": 1, "b": 2 }));
    let states = |hive: &Hive| {
        let path = "/api/v1/flows/sampleSystem/all/workers";
        let workers = hive.rest("GET", path, "").json();
        let is_here = |n: usize| workers["workers"][n]["state"] != "stopped";
        [is_here(0), is_here(1)]
    };
    assert_eq!((states(&a), states(&b)), ([true, false], [false, true]));
    let shown = details(&a, &id_b)["sampleSystem"][0].clone();
    assert_eq!(shown["routerType"], "broadcast");
    assert_eq!(shown["workersPaths"], json!([activator(&a), "localhost"]));

    // What was deployed in another way is shown where it runs.
    let source = counter.to_str().unwrap();
    a.json(&["deploy", source, "--as", "shop/counter", "--on", "b"]);
    wait_for_parts(&a, "shop/counter", &json!({ "b": 1 }));
    let shown = details(&a, &id_b)["shop"].clone();
    assert_eq!(shown[0]["workersPaths"], json!(["localhost"]));
    assert_eq!(shown[0]["hotDeployment"], true);
    assert_eq!(details(&a, &id_a), json!({}));
}

#[test]
fn a_node_that_stands_alone_is_one_system() {
    let hive = Hive::start();
    let systems = list(&hive);
    assert_eq!(systems.len(), 1);
    let id = id_of(&hive);
    let (counter, router) = (component("counter"), component("first-router"));
    let mut body = deployment(
        &id,
        "consumer",
        &counter,
        &["localhost", activator(&hive).as_str()],
    );
    body["routerType"] = "roundRobin".into();
    body["args"] = json!(["a", "b"]);
    body["messageQueuingSystemServer"] = format!("stomp://{}", hive.address("stomp")).into();
    body.as_object_mut().unwrap().remove("hotDeployment");
    deploy(&hive, &body);
    let shown = details(&hive, &id);
    let isolate = json!({
        "id": "sampleSystem/consumer",
        "workerUri": counter,
        "workersCount": 2,
        "workersPaths": ["localhost", "localhost"],
        "routerType": "round-robin",
        "hotDeployment": true,
    });
    assert_eq!(shown, json!({ "sampleSystem": [isolate] }));
    let spec = stage(&hive, "sampleSystem/consumer")["spec"].clone();
    assert_eq!(spec["args"], r#"["a","b"]"#);

    // The same once more does nothing; something else does.
    deploy(&hive, &body);
    deploy(&hive, &body);
    assert_eq!(stage(&hive, "sampleSystem/consumer")["version"], 1);
    assert_eq!(changes(&hive, "sampleSystem/consumer"), 1);
    body["workersPaths"] = json!(["localhost"]);
    deploy(&hive, &body);
    assert_eq!(stage(&hive, "sampleSystem/consumer")["version"], 2);
    assert_eq!(details(&hive, &id)["sampleSystem"][0]["workersCount"], 1);

    let mut routed = deployment("localhost", "routed", &counter, &["localhost"; 3]);
    routed["routerType"] = json!(router);
    deploy(&hive, &routed);
    let shown = details(&hive, &id)["sampleSystem"][1].clone();
    assert_eq!(shown["routerType"], json!(router));
    assert_eq!(shown["hotDeployment"], false);
    assert_eq!(ask(&hive, "sampleSystem/routed"), "1/1");

    let mut end = json!({ "bootstrapperId": id, "isolateSystemName": "sampleSystem" });
    end["isolateName"] = "consumer".into();
    shut_down(&hive, &end);
    assert_eq!(ask(&hive, "sampleSystem/routed"), "2/2");
    end.as_object_mut().unwrap().remove("isolateName");
    shut_down(&hive, &end);
    assert_eq!(details(&hive, &id), json!({}));
    let gone = hive.rest("POST", "/registry/system/shutdown", &end.to_string());
    gone.problem(404);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let hive = Hive::start();
    let counter = component("counter");
    let good = deployment("localhost", "consumer", &counter, &["localhost"]);
    let junk = hive.folder.path().join("junk.wasm");
    std::fs::write(&junk, "this is no component").unwrap();
    let foreign = "ws://planted:password@54.77.239.200:42043/mqs";
    let bus = format!("stomp://{}", hive.address("stomp"));
    for (field, value, status, reason) in [
        ("bootstrapperId", json!("266393094"), 404, "there are "),
        ("bootstrapperId", Value::Null, 400, "string"),
        ("action", json!("action.kill"), 400, "action.addIsolate"),
        (
            "messageQueuingSystemServer",
            json!(foreign),
            409,
            bus.as_str(),
        ),
        (
            "messageQueuingSystemServer",
            json!("x"),
            409,
            "leave it out",
        ),
        ("isolateSystemName", json!("a b"), 400, "letters, digits"),
        ("uri", json!("Consumer.dart"), 400, "absolute path"),
        ("uri", json!(junk), 422, "not a WebAssembly component"),
        ("workersPaths", json!([]), 400, "localhost"),
        ("workersPaths", json!(["elsewhere"]), 400, "elsewhere"),
        (
            "workersPaths",
            json!(["ws://54.77.239.243:42042/activator"]),
            400,
            "is no place",
        ),
        ("routerType", json!("sticky"), 400, "round-robin"),
        ("hotDeployment", json!("yes"), 400, "boolean"),
        ("hotDeploy", json!(true), 400, "unknown field"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let answer = hive.rest("POST", "/registry/deploy", &body.to_string());
        let detail = answer.problem(status)["detail"].to_string();
        assert!(detail.contains(reason), "{field}: {detail}");
        assert!(!detail.contains("planted"), "{detail}");
    }
    for field in [
        "bootstrapperId",
        "action",
        "isolateSystemName",
        "isolateName",
        "uri",
        "workersPaths",
    ] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        let answer = hive.rest("POST", "/registry/deploy", &body.to_string());
        let detail = answer.problem(400)["detail"].to_string();
        assert!(detail.contains(field), "{detail}");
    }
    assert_eq!(details(&hive, "localhost"), json!({}), "nothing happened");
    hive.rest("GET", "/registry/system/1", "").problem(404);
    for body in ["", "[]", r#"{"bootstrapperId":"localhost"}"#] {
        hive.rest("POST", "/registry/system/shutdown", body)
            .problem(400);
    }
    hive.http("GET", "/registry/system/list", &[], "")
        .problem(401);
    hive.http("POST", "/registry/deploy", &[], "").problem(401);
}

/// Serves a component, and gives its URI.
fn serve(component: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let bytes = std::fs::read(component).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let length = bytes.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &bytes].concat());
        }
    });
    format!("http://{address}/sampleSystem/bin/Consumer.wasm")
}
