//! The plug-in repository of the real binary: what it takes in, gives out, refuses and runs.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use build::Descriptor;
use build::descriptor::{self, Output, PluginKind};
use common::{Hive, stderr, stdout};
use serde_json::{Value, json};
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn described(id: &str, version: &str) -> Descriptor {
    Descriptor {
        name: "counter".to_owned(),
        id: id.to_owned(),
        version: version.to_owned(),
        language: "rust".to_owned(),
        ..Descriptor::default()
    }
}

/// Components that say different things about themselves.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A worker of the tests that says this about itself.
    fn put(&self, worker: &str, file: &str, descriptor: &Descriptor) -> PathBuf {
        let path = build::test_worker(worker).unwrap_or_else(|error| panic!("{error}"));
        let component = std::fs::read(path).unwrap();
        let component = descriptor::embed(&component, descriptor).unwrap();
        let path = self.0.path().join(file);
        std::fs::write(&path, component).unwrap();
        path
    }

    /// The counter with this id and version.
    fn counter(&self, file: &str, id: &str, version: &str) -> PathBuf {
        self.put("counter", file, &described(id, version))
    }
}

fn push(hive: &Hive, path: &Path) -> Value {
    hive.json(&["plugins", "push", text(path)])
}

fn refused(hive: &Hive, arguments: &[&str]) -> String {
    let output = hive.run(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    stderr(&output)
}

/// The ids in a list, but for those of what is built in.
fn ids(list: &Value) -> Vec<&str> {
    let plugins = list["plugins"].as_array().unwrap().iter();
    plugins
        .filter(|plugin| plugin["repository"] != "built-in")
        .map(|plugin| plugin["id"].as_str().unwrap())
        .collect()
}

fn ask(hive: &Hive, stage: &str) -> String {
    let reply = hive.run(&["ask", stage, "hi", "--timeout", "20s"]);
    assert!(reply.status.success(), "{}", stderr(&reply));
    stdout(&reply).trim_end().to_owned()
}

fn source(hive: &Hive, stage: &str) -> String {
    let shown = hive.json(&["ps", stage]);
    let source = shown["deployment"]["source"].as_str();
    source.unwrap_or_default().to_owned()
}

#[test]
fn a_plug_in_is_pushed_listed_shown_and_pulled() {
    let mut hive = Hive::start();
    let shelf = Shelf::new();
    let nothing = stdout(&hive.run(&["plugins", "--search", "no such plug-in"]));
    assert!(nothing.contains("plugins push"), "{nothing}");
    let whole = Descriptor {
        author: "Alice".to_owned(),
        description: "Counts orders".to_owned(),
        licence: "MIT".to_owned(),
        kind: PluginKind::Provider,
        outputs: vec![Output {
            name: "out".to_owned(),
            description: "every tenth order".to_owned(),
        }],
        ..described("shop/counter", "1.10.0")
    };
    let newest = shelf.put("counter", "newest.wasm", &whole);
    let pushed = push(&hive, &newest);
    assert_eq!(pushed["created"], true);
    push(&hive, &shelf.counter("older.wasm", "shop/counter", "1.9.0"));
    push(&hive, &shelf.counter("other.wasm", "other", "0.1.0"));

    let list = hive.json(&["plugins"]);
    assert_eq!(ids(&list), ["other", "shop/counter"]);
    let all = list["plugins"].as_array().unwrap();
    let counter = all.iter().find(|plugin| plugin["id"] == "shop/counter");
    let counter = counter.unwrap();
    assert_eq!(counter["newest"], "1.10.0");
    assert_eq!(counter["versions"], json!(["1.10.0", "1.9.0"]));
    assert_eq!(counter["repository"], "own");
    let found = hive.json(&["plugins", "--search", "ORDERS"]);
    assert_eq!(ids(&found), ["shop/counter"]);
    let found = hive.json(&["plugins", "--kind", "processor"]);
    assert_eq!(ids(&found), ["other"]);
    let page = hive
        .rest("GET", "/api/v1/plugins?own=true&limit=1", "")
        .json();
    assert_eq!(
        (ids(&page), &page["next"]),
        (vec!["other"], &json!("other"))
    );
    let path = "/api/v1/plugins?own=true&limit=1&after=other";
    let page = hive.rest("GET", path, "").json();
    assert_eq!(
        (ids(&page), &page["next"]),
        (vec!["shop/counter"], &Value::Null)
    );

    let path = "/api/v1/plugins/shop%2Fcounter";
    let versions = hive.rest("GET", path, "").json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let shown = hive.rest("GET", &format!("{path}/1.10.0"), "");
    let digest = shown.json()["digest"].as_str().unwrap().to_owned();
    assert!(
        shown.head.contains(&format!("etag: \"{digest}\"")),
        "{shown:?}"
    );
    assert_eq!(shown.json()["author"], "Alice");
    assert_eq!(shown.json()["kind"], "provider");
    assert_eq!(
        shown.json()["outputs"][0]["description"],
        "every tenth order"
    );
    assert_eq!(shown.json()["entry_point"], "hivewire:worker/worker@1.0.0");
    let token = format!("Authorization: Bearer {}", hive.token());
    for end in ["1.10.0", "1.10.0/component", "newest"] {
        let known = format!("If-None-Match: W/\"0\", \"{digest}\"");
        let path = format!("{path}/{end}");
        assert_eq!(hive.http("GET", &path, &[&token, &known], "").status, 304);
    }
    let text_shown = stdout(&hive.run(&["plugins", "show", "shop/counter"]));
    for expected in ["shop/counter@1.10.0", "Alice", "every tenth order", "1.9.0"] {
        assert!(text_shown.contains(expected), "{text_shown}");
    }

    let pulled = hive.json(&["plugins", "pull", "shop/counter"]);
    assert_eq!(pulled["path"], "counter-1.10.0.wasm");
    let pulled = std::fs::read(hive.folder.path().join("counter-1.10.0.wasm")).unwrap();
    assert_eq!(pulled, std::fs::read(&newest).unwrap());

    hive.restart();
    assert_eq!(ids(&hive.json(&["plugins"])), ["other", "shop/counter"]);
    hive.json(&["plugins", "pull", "other@0.1.0", "-o", "here.wasm"]);
}

#[test]
fn a_version_does_not_change_and_what_does_not_fit_is_refused() {
    let hive = Hive::with_config("[plugins]\nversions_max = 2");
    let shelf = Shelf::new();
    let first = shelf.counter("first.wasm", "shop/counter", "1.0.0");
    let created = |answer: Value| answer["created"].as_bool().unwrap();
    assert!(created(push(&hive, &first)));
    assert!(
        !created(push(&hive, &first)),
        "the same again changes nothing"
    );
    let other = shelf.put("echo", "other.wasm", &described("shop/counter", "1.0.0"));
    let why = refused(&hive, &["plugins", "push", text(&other)]);
    assert!(
        why.contains("409") && why.contains("does not change"),
        "{why}"
    );
    let shown = hive.json(&["plugins", "show", "shop/counter@1.0.0"]);
    hive.json(&["plugins", "pull", "shop/counter", "-o", "still.wasm"]);
    let still = std::fs::read(hive.folder.path().join("still.wasm")).unwrap();
    assert_eq!(still, std::fs::read(&first).unwrap(), "{shown}");

    push(
        &hive,
        &shelf.counter("second.wasm", "shop/counter", "1.1.0"),
    );
    let third = shelf.counter("third.wasm", "shop/counter", "1.2.0");
    let why = refused(&hive, &["plugins", "push", text(&third)]);
    assert!(
        why.contains("507") && why.contains("plugins.versions_max"),
        "{why}"
    );

    let junk = hive.folder.path().join("junk.wasm");
    for (bytes, expected) in [
        (&b"this is no component"[..], "not a WebAssembly component"),
        (b"\x7fELF and more", "compiled"),
        (b"\0asm\x01\0\0\0", "module"),
    ] {
        std::fs::write(&junk, bytes).unwrap();
        let why = refused(&hive, &["plugins", "push", text(&junk)]);
        assert!(why.contains("422") && why.contains(expected), "{why}");
    }
    let loose = shelf.counter("loose.wasm", "loose", "1");
    let why = refused(&hive, &["plugins", "push", text(&loose)]);
    assert!(why.contains("such as 1.2.0"), "{why}");
    let router = shelf.put("first-router", "router.wasm", &described("router", "1.0.0"));
    let why = refused(&hive, &["plugins", "push", text(&router)]);
    assert!(why.contains("422"), "{why}");
    for path in [
        "/api/v1/plugins/a%20b",
        "/api/v1/plugins/shop/counter",
        "/api/v1/plugins?limit=501",
    ] {
        hive.rest("GET", path, "").problem(400);
    }
    hive.rest("GET", "/api/v1/plugins/none", "").problem(404);
    hive.rest("GET", "/api/v1/plugins/none/1.0.0/component", "")
        .problem(404);
    hive.rest("DELETE", "/api/v1/plugins/none/1.0.0", "")
        .problem(404);
}

#[test]
fn a_component_that_says_nothing_is_called_as_it_is_named() {
    let hive = Hive::start();
    let shelf = Shelf::new();
    let silent = shelf.put("counter", "silent.wasm", &Descriptor::default());
    let why = refused(&hive, &["plugins", "push", text(&silent)]);
    assert!(why.contains("name its id and version"), "{why}");
    let mut arguments = vec!["plugins", "push", text(&silent), "--id", "shop/silent"];
    arguments.extend([
        "--version",
        "1.0.0",
        "--author",
        "Bob & Co",
        "--kind",
        "processor",
    ]);
    hive.json(&arguments);
    let shown = hive.json(&["plugins", "show", "shop/silent"]);
    assert_eq!(shown["plugin"]["author"], "Bob & Co");
    hive.json(&["deploy", "plugin:shop/silent", "--as", "shop/counter"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    // What says something cannot be called otherwise.
    let counter = shelf.counter("counter.wasm", "shop/counter", "1.0.0");
    let mut arguments = vec!["plugins", "push", text(&counter), "--id", "shop/other"];
    arguments.extend(["--version", "1.0.0"]);
    let why = refused(&hive, &arguments);
    assert!(why.contains("its id is shop/counter"), "{why}");
}

#[test]
fn a_stage_runs_a_plug_in_which_then_cannot_be_removed() {
    let mut hive = Hive::start();
    let shelf = Shelf::new();
    push(&hive, &shelf.counter("one.wasm", "shop/counter", "1.0.0"));
    let two = shelf.put(
        "counter-v2",
        "two.wasm",
        &described("shop/counter", "2.0.0"),
    );
    push(&hive, &two);
    hive.json(&[
        "deploy",
        "plugin:shop/counter@1.0.0",
        "--as",
        "shop/counter",
    ]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    assert_eq!(source(&hive, "shop/counter"), "plugin:shop/counter@1.0.0");

    // Without a number it is the newest one at that moment, which is written down.
    hive.json(&["deploy", "plugin:shop/counter", "--as", "shop/counter"]);
    assert!(ask(&hive, "shop/counter").starts_with("v2:"));
    assert_eq!(source(&hive, "shop/counter"), "plugin:shop/counter@2.0.0");
    push(&hive, &shelf.counter("three.wasm", "shop/counter", "3.0.0"));
    hive.restart();
    assert!(ask(&hive, "shop/counter").starts_with("v2:"));
    assert_eq!(source(&hive, "shop/counter"), "plugin:shop/counter@2.0.0");

    let why = refused(&hive, &["plugins", "remove", "shop/counter@2.0.0"]);
    assert!(
        why.contains("409") && why.contains("used by shop/counter"),
        "{why}"
    );
    hive.json(&["plugins", "remove", "shop/counter@3.0.0"]);
    hive.json(&["stop", "shop/counter"]);
    hive.json(&["plugins", "remove", "shop/counter@2.0.0"]);
    let shown = hive.json(&["plugins", "show", "shop/counter"]);
    assert_eq!(shown["versions"], json!(["1.0.0"]));

    let request = json!({ "as": "shop/counter", "source": "plugin:shop/counter@2.0.0" });
    let path = "/api/v1/deployments";
    let problem = hive.rest("POST", path, &request.to_string()).problem(422);
    assert_eq!(problem["check"], "plugin");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("versions 1.0.0"), "{detail}");
    for wrong in ["plugin:", "plugin:shop/counter@1", "plugin:a/b/c"] {
        let request = json!({ "as": "shop/counter", "source": wrong }).to_string();
        hive.rest("POST", path, &request).problem(400);
    }
}

#[test]
fn arguments_are_checked_before_anything_is_touched() {
    let hive = Hive::start();
    let shelf = Shelf::new();
    let with_parameters = |version: &str| Descriptor {
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "limit": { "type": "integer", "minimum": 1 },
                "shops": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["limit"],
            "additionalProperties": false,
        })),
        ..described("shop/counter", version)
    };
    push(
        &hive,
        &shelf.put("counter", "one.wasm", &with_parameters("1.0.0")),
    );
    let deploy = |args: &Value| {
        let request =
            json!({ "as": "shop/counter", "source": "plugin:shop/counter", "args": args });
        hive.rest("POST", "/api/v1/deployments", &request.to_string())
    };
    let wrong = |args: Value, pointer: &str, expected: &str| {
        let problem = deploy(&args).problem(422);
        assert_eq!(
            (&problem["check"], &problem["pointer"]),
            (&json!("args"), &json!(pointer))
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains(expected) && detail.contains(pointer),
            "{detail}"
        );
    };
    wrong(Value::Null, "", "limit");
    wrong(json!("limit=3"), "", "JSON");
    wrong(json!({ "limit": "planted-secret" }), "/limit", "integer");
    wrong(
        json!({ "limit": 3, "shops": ["a", 7] }),
        "/shops/1",
        "string",
    );
    wrong(json!({ "limit": 3, "limits": 4 }), "", "limits");
    assert!(!hive.log().contains("planted-secret"));
    assert!(stdout(&hive.run(&["ps"])).contains("nothing is deployed"));

    assert_eq!(deploy(&json!({ "limit": 3 })).status, 200);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    let stage = hive.json(&["ps", "shop/counter"]);
    assert_eq!(stage["spec"]["args"], r#"{"limit":3}"#);
    wrong(json!({ "limit": 0 }), "/limit", "1");
    let arguments = [
        "deploy",
        "plugin:shop/counter",
        "--as",
        "shop/counter",
        "--args",
        "{}",
    ];
    let why = refused(&hive, &arguments);
    assert!(why.contains("\"limit\""), "{why}");
    assert_eq!(ask(&hive, "shop/counter"), "2/2", "what ran goes on");

    let broken = Descriptor {
        parameters: Some(json!({ "type": "orders" })),
        ..described("shop/broken", "1.0.0")
    };
    let broken = shelf.put("counter", "broken.wasm", &broken);
    let why = refused(&hive, &["plugins", "push", text(&broken)]);
    assert!(why.contains("422") && why.contains("`parameters`"), "{why}");
}

/// Gives a node a name, so that others can join it.
fn name(hive: &mut Hive, name: &str) {
    let file = hive.folder.path().join("hivewire.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}\n[node]\nname = \"{name}\"\n")).unwrap();
    hive.restart();
}

fn cached(hive: &Hive, digest: &str) -> bool {
    let component = format!("components/{digest}.wasm");
    hive.data().join(component).is_file()
}

#[test]
fn nodes_on_one_bus_have_one_repository() {
    let shelf = Shelf::new();
    let mut first = Hive::start();
    // What was pushed while it stood alone is shared, too.
    let alone = push(&first, &shelf.counter("one.wasm", "shop/alone", "1.0.0"));
    name(&mut first, "a");
    let bus = format!("stomp://{}", first.address("stomp"));
    let second = Hive::with_config(&format!("[node]\nname = \"b\"\nbus = [\"{bus}\"]"));
    let pushed = push(&first, &shelf.counter("two.wasm", "shop/counter", "1.0.0"));
    assert_eq!(
        ids(&second.json(&["plugins"])),
        ["shop/alone", "shop/counter"]
    );

    for pushed in [&alone, &pushed] {
        let digest = pushed["plugin"]["digest"].as_str().unwrap();
        assert!(!cached(&second, digest));
        let id = pushed["plugin"]["id"].as_str().unwrap();
        second.json(&["plugins", "pull", id, "-o", "pulled.wasm"]);
        assert!(cached(&second, digest), "what was fetched is kept");
    }
    let mut arguments = vec!["deploy", "plugin:shop/counter", "--as", "shop/counter"];
    arguments.extend(["--on", "b"]);
    second.json(&arguments);
    assert_eq!(ask(&second, "shop/counter"), "1/1");
    assert_eq!(source(&first, "shop/counter"), "plugin:shop/counter@1.0.0");

    // Each node sees what the other one does.
    let why = refused(&first, &["plugins", "remove", "shop/counter@1.0.0"]);
    assert!(why.contains("used by shop/counter"), "{why}");
    let other = shelf.put("echo", "other.wasm", &described("shop/counter", "1.0.0"));
    let why = refused(&second, &["plugins", "push", text(&other)]);
    assert!(why.contains("does not change"), "{why}");
    second.json(&["plugins", "remove", "shop/alone@1.0.0"]);
    assert_eq!(ids(&first.json(&["plugins"])), ["shop/counter"]);
    second.json(&["stop", "shop/counter"]);
    first.json(&["plugins", "remove", "shop/counter@1.0.0"]);
    assert_eq!(ids(&second.json(&["plugins"])), Vec::<&str>::new());
}

/// What makes a node look into a folder and then at another node.
fn repositories(folder: &Path, node: &str, token: &str) -> String {
    format!(
        "[deploy]\nallow_private_sources = true\nfetch_seconds_max = 5\n\
         [[plugins.repositories]]\nname = \"shelf\"\nlocation = \"{}\"\n\
         [[plugins.repositories]]\nname = \"far\"\nlocation = \"{node}\"\ntoken = \"{token}\"\n",
        text(folder)
    )
}

#[test]
fn other_repositories_are_asked_in_order() {
    let (shelf, drawer) = (Shelf::new(), Shelf::new());
    let mut far = Hive::start();
    shelf.counter("counter.wasm", "shop/counter", "1.0.0");
    let elsewhere = drawer.put("echo", "echo.wasm", &described("shop/counter", "1.0.0"));
    push(&far, &elsewhere);
    push(
        &far,
        &drawer.put("counter-v2", "far.wasm", &described("far/counter", "2.0.0")),
    );
    let node = format!("http://{}", far.address("http"));
    let hive = Hive::with_config(&repositories(shelf.0.path(), &node, &far.token()));

    let list = hive.json(&["plugins"]);
    assert_eq!(ids(&list), ["far/counter", "shop/counter"]);
    assert_eq!(list["troubles"], json!([]));
    let repository = |id: &str| {
        let shown = hive.json(&["plugins", "show", id]);
        shown["plugin"]["repository"].as_str().unwrap().to_owned()
    };
    assert_eq!(repository("shop/counter"), "shelf");
    assert_eq!(repository("far/counter"), "far");
    hive.json(&["deploy", "plugin:shop/counter", "--as", "shop/counter"]);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    hive.json(&["deploy", "plugin:far/counter", "--as", "shop/far"]);
    assert!(ask(&hive, "shop/far").starts_with("v2:"));
    // The own one comes first.
    push(&hive, &drawer.counter("own.wasm", "shop/counter", "0.9.0"));
    assert_eq!(repository("shop/counter"), "own");
    let found = hive.rest("GET", "/api/v1/plugins?own=true", "").json();
    assert_eq!(ids(&found), ["shop/counter"]);

    // What cannot be asked is told in a list, and ends a search: something else could have that name.
    assert_eq!(far.terminate(), Some(0));
    let list = hive.json(&["plugins"]);
    assert_eq!(ids(&list), ["shop/counter"]);
    assert_eq!(list["troubles"][0]["repository"], "far");
    assert_eq!(repository("shop/counter"), "own");
    let why = refused(
        &hive,
        &["deploy", "plugin:far/counter", "--as", "shop/next"],
    );
    assert!(why.contains("the repository far cannot be used"), "{why}");
    assert!(
        ask(&hive, "shop/far").starts_with("v2:"),
        "what ran goes on"
    );
    assert!(
        !hive.log().contains(&far.token()),
        "the token shows in the log"
    );
}

/// A repository that promises one thing and may give another.
struct Dishonest {
    address: SocketAddr,
    answers: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Dishonest {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            answers: Arc::default(),
        };
        let answers = server.answers.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split([' ', '?']).nth(1).unwrap_or_default();
                let (status, body) = match answers.lock().unwrap().get(path) {
                    Some(body) => ("200 OK", body.clone()),
                    None => ("404 Not Found", Vec::new()),
                };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
                );
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        server
    }

    fn answer(&self, path: &str, body: impl Into<Vec<u8>>) {
        let path = format!("/api/v1/plugins{path}");
        self.answers.lock().unwrap().insert(path, body.into());
    }
}

#[test]
fn a_repository_that_gives_other_bytes_is_found_out() {
    let shelf = Shelf::new();
    let honest = shelf.counter("honest.wasm", "shop/counter", "1.0.0");
    let other = shelf.counter("other.wasm", "shop/counter", "1.0.1");
    let [honest, other] = [honest, other].map(|path| std::fs::read(path).unwrap());
    let server = Dishonest::start();
    let promised = json!({ "versions": [{
        "id": "shop/counter",
        "version": "1.0.0",
        "digest": hivewire::deploy::digest_of(&honest),
        "bytes": honest.len(),
    }]});
    server.answer("/shop%2Fcounter", promised.to_string());
    server.answer("/shop%2Fcounter/1.0.0/component", other);
    let empty = tempfile::tempdir().unwrap();
    let node = format!("http://{}", server.address);
    let hive = Hive::with_config(&repositories(empty.path(), &node, "planted-token"));

    let deploy = ["deploy", "plugin:shop/counter", "--as", "shop/counter"];
    let why = refused(&hive, &deploy);
    assert!(why.contains("the repository far gave other bytes"), "{why}");
    let path = "/api/v1/plugins/shop%2Fcounter/1.0.0/component";
    let problem = hive.rest("GET", path, "").problem(502);
    assert_eq!(problem["type"], "urn:hivewire:repository");
    let kept = std::fs::read_dir(hive.data().join("components")).unwrap();
    assert_eq!(kept.count(), 0, "nothing of it is kept");

    // The control: what it promised is taken.
    server.answer("/shop%2Fcounter/1.0.0/component", honest);
    hive.json(&deploy);
    assert_eq!(ask(&hive, "shop/counter"), "1/1");
    // And once it is here, it is not fetched again.
    server.answer("/shop%2Fcounter/1.0.0/component", "junk");
    hive.json(&["deploy", "plugin:shop/counter", "--as", "shop/again"]);
    // Nonsense is told as such.
    server.answer("/shop%2Fcounter", "no JSON");
    let why = refused(&hive, &deploy);
    assert!(why.contains("does not answer as a node does"), "{why}");
    assert!(!hive.log().contains("planted-token"));
}
