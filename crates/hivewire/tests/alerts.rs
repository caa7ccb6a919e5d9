//! Alerts of the real binary, told to a webhook and to a real mail server.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Hive, binary, stderr, stdout};
use rustix::process::Signal;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Looks often and groups nothing, so that tests are short. Other rules than those of the test would
/// only be in the way.
const QUICK: &str = "[alerts]\nlook_every_ms = 100\ngroup_wait_seconds = 0\nbuilt_in = false\n\
                     retry_ms_min = 50\nretry_ms_max = 100\ntries_max = 2\n";

/// A queue in which only one message has room: any other makes a dead letter.
const SMALL: &str = "[[broker.queues]]\nname = \"small\"\nmessages_max = 1\n\
                     when_full = \"oldest-to-dead-letters\"\n";

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

/// A rule about the age of messages.
fn age_rule(name: &str, queues: &str, older_than_seconds: u64) -> String {
    format!(
        "[[alerts.rules]]\nname = {name:?}\nkind = \"queue-age\"\nqueues = {queues:?}\n\
         older_than_seconds = {older_than_seconds}\nfor_seconds = 0\n"
    )
}

fn webhook(sink: &WebSink) -> String {
    format!(
        "[[alerts.webhooks]]\nurl = \"http://{}/hook/of-nobody-else\"\nbearer = \"hush-hush\"\n",
        sink.address
    )
}

fn publish(hive: &Hive, queue: &str, messages: usize) {
    let body = json!({ "messages": vec![json!({ "body": "x" }); messages] }).to_string();
    let path = format!("/api/v1/queues/{queue}/messages");
    assert_eq!(hive.rest("POST", &path, &body).status, 200);
}

fn alerts(hive: &Hive) -> Vec<Value> {
    let answer = hive.rest("GET", "/api/v1/alerts", "").json();
    answer["alerts"].as_array().unwrap().clone()
}

/// The alert of a rule, once it is in this state.
fn alert_in(hive: &Hive, rule: &str, state: &str) -> Value {
    until(&format!("{rule} is {state}"), || {
        let found = alerts(hive).into_iter();
        let mut found = found.filter(|alert| alert["rule"] == rule && alert["state"] == state);
        found.next()
    })
}

fn metric(hive: &Hive, name: &str) -> f64 {
    let text = hive.rest("GET", "/metrics", "").body;
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// What was posted.
#[derive(Clone, Debug)]
struct Post {
    head: String,
    body: Value,
}

impl Post {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    /// The rule and, of what fires or else of what has recovered, the given label.
    fn is(&self, rule: &str, firing: usize, recovered: usize) -> bool {
        let count = |key: &str| self.body[key].as_array().map_or(0, Vec::len);
        self.body["rule"] == rule && (count("firing"), count("recovered")) == (firing, recovered)
    }
}

/// Takes POSTs, and answers them with a status that can be changed.
struct WebSink {
    address: SocketAddr,
    posts: Arc<Mutex<Vec<Post>>>,
    status: Arc<AtomicU16>,
}

impl WebSink {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sink = Self {
            address: listener.local_addr().unwrap(),
            posts: Arc::default(),
            status: Arc::new(AtomicU16::new(200)),
        };
        let (posts, status) = (sink.posts.clone(), sink.status.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (posts, status) = (posts.clone(), status.clone());
                std::thread::spawn(move || take_post(stream, &posts, &status));
            }
        });
        sink
    }

    fn posts(&self) -> Vec<Post> {
        self.posts.lock().unwrap().clone()
    }

    /// The first post that is right, once it has come.
    fn post(&self, what: &str, is_right: impl Fn(&Post) -> bool) -> Post {
        until(what, || {
            self.posts().into_iter().find(|post| is_right(post))
        })
    }
}

fn take_post(stream: TcpStream, posts: &Mutex<Vec<Post>>, status: &AtomicU16) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    posts.lock().unwrap().push(Post { head, body });
    let status = status.load(Ordering::SeqCst);
    let answer =
        format!("HTTP/1.1 {status} So\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    let _ = reader.get_mut().write_all(answer.as_bytes());
}

/// A real mail server, as a process of its own. Dropping it ends it.
struct MailSink {
    child: Child,
    port: u64,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl MailSink {
    fn start(arguments: &[&str]) -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = repository.join(".tools/venv/bin/python");
        assert!(
            python.exists(),
            "{} is missing: run tests/tools/install test",
            python.display()
        );
        let mut child = Command::new(python)
            .arg(repository.join("crates/hivewire/tests/common/mail_sink.py"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the mail server did not start");
        let first: Value = serde_json::from_str(&first.unwrap()).unwrap();
        let sink = Self {
            child,
            port: first["port"].as_u64().unwrap(),
            lines: Arc::default(),
        };
        let heard = sink.lines.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap();
                heard.lock().unwrap().push(line);
            }
        });
        sink
    }

    fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// The first mail with this in its subject, once it has come.
    fn mail(&self, subject: &str) -> Value {
        until(&format!("a mail about {subject}"), || {
            let lines = self.lines().into_iter();
            let mut mails = lines.filter(|mail| subject_of(mail).contains(subject));
            mails.next()
        })
    }

    fn settings(&self, more: &str) -> String {
        format!(
            "[[alerts.emails]]\nhost = \"127.0.0.1\"\nport = {}\n\
             from = \"Hivewire <hive@example.org>\"\nto = [\"ann@example.org\", \"bob@example.org\"]\n{more}\n",
            self.port
        )
    }
}

impl Drop for MailSink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn subject_of(mail: &Value) -> &str {
    let text = mail["text"].as_str().unwrap_or_default();
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("Subject: "))
        .unwrap_or_default()
}

#[test]
fn what_is_wrong_is_posted_once_and_that_it_recovered_once() {
    let sink = WebSink::start();
    let rule = "[[alerts.rules]]\nname = \"dead-letters\"\nmore_than = 1\nwithin_seconds = 2\n";
    let config = [QUICK, rule, &webhook(&sink), SMALL].concat();
    let hive = Hive::with_config(&config);
    // One is fine.
    publish(&hive, "small", 2);
    assert_eq!(metric(&hive, "hivewire_alert_notices_sent_total"), 0.0);
    publish(&hive, "small", 5);
    let firing = sink.post("dead letters", |post| post.is("dead-letters", 1, 0));
    assert_eq!(firing.header("authorization"), "bearer hush-hush");
    assert_eq!(firing.header("idempotency-key"), firing.body["id"]);
    assert_eq!(firing.header("content-type"), "application/json");
    assert!(firing.head.starts_with("post /hook/of-nobody-else "));
    let told = &firing.body["firing"][0];
    assert_eq!(told["state"], "firing");
    assert!(told["value"].as_f64().unwrap() >= 2.0, "{told}");
    assert!(told["detail"].as_str().unwrap().contains("dead letters"));
    assert_eq!(firing.body["severity"], "warning");
    let recovered = sink.post("the end", |post| post.is("dead-letters", 0, 1));
    assert_ne!(
        recovered.header("idempotency-key"),
        firing.header("idempotency-key")
    );
    assert!(alerts(&hive).is_empty());
    assert_eq!(sink.posts().len(), 2, "{:?}", sink.posts());
    until("both are counted", || {
        (metric(&hive, "hivewire_alert_notices_sent_total") == 2.0).then_some(())
    });
    assert_eq!(metric(&hive, "hivewire_alert_notices_failed_total"), 0.0);
    // Neither the secret nor the path, which may be one, is in the log.
    let log = hive.log();
    assert!(!log.contains("hush-hush") && !log.contains("of-nobody-else"));
}

#[test]
fn control_without_anything_wrong_nothing_is_told_by_the_rules_that_come_with_hivewire() {
    let sink = WebSink::start();
    let mail = MailSink::start(&[]);
    let quick = QUICK.replace("built_in = false", "built_in = true");
    let disk = "[[alerts.rules]]\nname = \"disk\"\nfree_percent_min = 0.0\n";
    // What comes in the end shows that there was time for more.
    let marker = age_rule("marker", "late", 1);
    let config = [
        &quick,
        disk,
        &marker,
        &webhook(&sink),
        &mail.settings("tls = \"none\""),
    ]
    .concat();
    let hive = Hive::with_config(&config);
    let rules = hive.rest("GET", "/api/v1/alerts/rules", "").json();
    let rules = rules["rules"].as_array().unwrap().clone();
    let names: Vec<&str> = rules
        .iter()
        .map(|rule| rule["name"].as_str().unwrap())
        .collect();
    for name in [
        "node-gone",
        "stage-restarts",
        "stage-failed",
        "stage-stands",
        "dead-letters",
        "queue-age",
        "disk",
        "journal",
    ] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    publish(&hive, "busy", 100);
    publish(&hive, "late", 1);
    mail.mail("marker");
    sink.post("the marker", |post| post.is("marker", 1, 0));
    assert_eq!((sink.posts().len(), mail.lines().len()), (1, 1));
}

#[test]
fn notices_are_mailed_and_silences_keep_them_from_it() {
    let mail = MailSink::start(&[]);
    let config = [
        QUICK,
        &age_rule("orders-age", "orders.*", 0),
        &age_rule("others-age", "others", 1),
        &mail.settings("tls = \"none\""),
    ]
    .concat();
    let mut hive = Hive::with_config(&config);
    let silenced = hive.json(&[
        "alerts",
        "silence",
        "orders-age",
        "--for",
        "2h",
        "--why",
        "known",
    ]);
    assert_eq!(
        (&silenced["id"], &silenced["why"]),
        (&json!(1), &json!("known"))
    );
    publish(&hive, "orders.a", 1);
    let listed = alert_in(&hive, "orders-age", "silenced");
    assert_eq!(
        (&listed["silence"], &listed["labels"]["queue"]),
        (&json!(1), &json!("orders.a"))
    );
    assert_eq!(metric(&hive, "hivewire_alerts_firing"), 0.0);
    // The other mail shows that there was time for one about what is silenced.
    publish(&hive, "others", 1);
    let other = mail.mail("others-age");
    assert_eq!(other["from"], "hive@example.org");
    assert_eq!(other["to"], json!(["ann@example.org", "bob@example.org"]));
    assert_eq!(
        (&other["encrypted"], &other["user"]),
        (&json!(false), &Value::Null)
    );
    let text = other["text"].as_str().unwrap();
    assert!(
        text.contains("the oldest message of others has waited"),
        "{text}"
    );
    assert!(
        text.contains("hivewire alerts silence others-age"),
        "{text}"
    );
    assert_eq!(mail.lines().len(), 1, "{:?}", mail.lines());
    // It holds over a restart. How old the messages are that were there before is not known after it.
    hive.restart();
    publish(&hive, "orders.b", 1);
    alert_in(&hive, "orders-age", "silenced");
    let shown = stdout(&hive.run(&["alerts"]));
    assert!(
        shown.contains("silenced") && shown.contains("known"),
        "{shown}"
    );
    let told = mail.lines();
    let is_quiet = told
        .iter()
        .all(|mail| !subject_of(mail).contains("orders-age"));
    assert!(is_quiet, "{told:?}");
    // What is still wrong when it ends is told then.
    hive.json(&["alerts", "unsilence", "1"]);
    let late = mail.mail("orders-age");
    assert!(subject_of(&late).contains("warning: orders-age"), "{late}");
    hive.rest("DELETE", "/api/v1/queues/orders.b", "");
    mail.mail("recovered: orders-age");
    let gone = hive.run(&["alerts", "unsilence", "1"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("no silence 1"), "{}", stderr(&gone));
}

struct Certificate {
    _folder: tempfile::TempDir,
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate for 127.0.0.1 by an authority that nobody else knows.
fn certificate() -> Certificate {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "authority of a test");
    let authority_key = KeyPair::generate().unwrap();
    let of_authority = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let of_server = server.signed_by(&key, &issuer).unwrap().pem();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    Certificate {
        authority: write("authority.pem", &of_authority),
        certificate: write("certificate.pem", &of_server),
        key: write("key.pem", &key.serialize_pem()),
        _folder: folder,
    }
}

#[test]
fn mail_is_encrypted_and_with_a_login_and_goes_to_nobody_who_cannot_prove_who_it_is() {
    let files = certificate();
    for tls in ["starttls", "tls"] {
        let arguments = [
            "--tls",
            tls,
            "--certificate",
            files.certificate.to_str().unwrap(),
            "--key",
            files.key.to_str().unwrap(),
            "--user",
            "hive",
            "--password",
            "hush-hush",
        ];
        let mail = MailSink::start(&arguments);
        let login = format!("tls = {tls:?}\nuser = \"hive\"\n");
        let trusting = format!("{login}authority = {:?}\n", files.authority);
        let right = mail.settings(&format!("{trusting}password = \"hush-hush\""));
        // Controls: one knows another password, one knows nobody who vouches for the server.
        let wrong_password = mail.settings(&format!("{trusting}password = \"hush\""));
        let not_trusting = mail.settings(&format!("{login}password = \"hush-hush\""));
        let config = [QUICK, &right, &wrong_password, &not_trusting].concat();
        let hive = Hive::with_config(&config);
        let tested = hive.rest("POST", "/api/v1/alerts/test", "{}").json();
        let receivers = tested["receivers"].as_array().unwrap();
        let sent: Vec<&Value> = receivers.iter().map(|receiver| &receiver["sent"]).collect();
        assert_eq!(sent, [true, false, false], "{tls}: {tested}");
        let failure = |number: usize| receivers[number]["failure"].as_str().unwrap();
        assert!(failure(1).contains("535"), "{tls}: {tested}");
        assert!(failure(2).contains("certificate"), "{tls}: {tested}");
        let got = mail.mail("test from");
        assert_eq!(
            (&got["encrypted"], &got["user"]),
            (&json!(true), &json!("hive"))
        );
        let mails = mail
            .lines()
            .into_iter()
            .filter(|line| line["text"].is_string());
        assert_eq!(mails.count(), 1);
        let (log, shown) = (hive.log(), stdout(&hive.run(&["alerts"])));
        assert!(!log.contains("hush") && !shown.contains("hush"));
        let command = hive.run(&["alerts", "test"]);
        assert_eq!(command.status.code(), Some(1));
        let printed = stdout(&command);
        assert!(
            printed.contains(": sent") && printed.contains("failed:"),
            "{printed}"
        );
    }
}

#[test]
fn a_receiver_that_refuses_is_tried_again_counted_and_holds_up_nobody() {
    let (refusing, taking) = (WebSink::start(), WebSink::start());
    refusing.status.store(503, Ordering::SeqCst);
    let mail = MailSink::start(&["--refuse", "550"]);
    let config = [
        QUICK,
        &age_rule("age", "q", 0),
        &webhook(&refusing),
        &mail.settings("tls = \"none\""),
        &webhook(&taking),
    ]
    .concat();
    let hive = Hive::with_config(&config);
    publish(&hive, "q", 1);
    taking.post("a notice", |post| post.is("age", 1, 0));
    let receivers = until("both have failed", || {
        let answer = hive.rest("GET", "/api/v1/alerts", "").json();
        let receivers = answer["receivers"].as_array().unwrap().clone();
        let failed = receivers.iter().filter(|receiver| receiver["failed"] == 1);
        (failed.count() == 2).then_some(receivers)
    });
    let last_failure = |name: &str| {
        let of_name = |receiver: &&Value| receiver["receiver"].as_str().unwrap().contains(name);
        let mut found = receivers.iter().filter(of_name);
        found.next().unwrap()["last_failure"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(last_failure(&refusing.address.to_string()).contains("503"));
    assert!(last_failure("mail to ann@example.org").contains("550"));
    assert_eq!(metric(&hive, "hivewire_alert_notices_failed_total"), 2.0);
    assert_eq!(metric(&hive, "hivewire_alert_notices_sent_total"), 1.0);
    // What may go better was tried twice, under one key; what cannot, once.
    let posts = refusing.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(
        posts[0].header("idempotency-key"),
        posts[1].header("idempotency-key")
    );
    assert_eq!(mail.lines().len(), 1, "{:?}", mail.lines());
    assert!(hive.log().contains("a notice could not be sent"));
}

#[test]
fn alerts_of_one_rule_share_a_notice() {
    let sink = WebSink::start();
    let grouped = QUICK.replace("group_wait_seconds = 0", "group_wait_seconds = 2");
    let config = [grouped, age_rule("age", "q.*", 0), webhook(&sink)].concat();
    let hive = Hive::with_config(&config);
    for queue in ["q.a", "q.b", "q.c"] {
        publish(&hive, queue, 1);
    }
    let first = sink.post("a notice", |post| post.body["rule"] == "age");
    assert!(first.is("age", 3, 0), "{first:?}");
}

#[test]
fn an_expression_is_a_rule_too() {
    let sink = WebSink::start();
    let expression = "hivewire_queue_messages > 2 && labels.queue.startsWith('orders.')";
    let rule = format!(
        "[[alerts.rules]]\nname = \"many\"\nkind = \"expression\"\nexpression = {expression:?}\n\
         severity = \"critical\"\n"
    );
    let slip = "[[alerts.rules]]\nname = \"slip\"\nkind = \"expression\"\n\
                expression = \"hivewire_quue_messages > 2\"\n";
    let hive = Hive::with_config(&[QUICK, &rule, slip, &webhook(&sink)].concat());
    publish(&hive, "other", 10);
    publish(&hive, "orders.few", 2);
    publish(&hive, "orders.many", 3);
    let told = sink.post("many messages", |post| post.is("many", 1, 0));
    assert_eq!(told.body["severity"], "critical");
    let alert = &told.body["firing"][0];
    assert_eq!(
        (&alert["labels"]["queue"], &alert["value"]),
        (&json!("orders.many"), &json!(3.0))
    );
    let rules = hive.rest("GET", "/api/v1/alerts/rules", "").json();
    let rules = rules["rules"].as_array().unwrap();
    let slip = rules.iter().find(|rule| rule["name"] == "slip").unwrap();
    let trouble = slip["trouble"].as_str().unwrap();
    assert!(
        trouble.contains("no metric hivewire_quue_messages"),
        "{trouble}"
    );
    hive.rest("DELETE", "/api/v1/queues/orders.many", "");
    sink.post("fewer messages", |post| post.is("many", 0, 1));
}

#[test]
fn stages_that_restart_and_stages_that_fail_are_told() {
    let sink = WebSink::start();
    let rules = "[[alerts.rules]]\nname = \"stage-restarts\"\nmore_than = 1\nwithin_seconds = 60\n\
                 [[alerts.rules]]\nname = \"stage-failed\"\n";
    let hive = Hive::with_config(&[QUICK, rules, &webhook(&sink)].concat());
    let component = build::test_worker("broken-handle").unwrap();
    for (stage, on_failure) in [("shop/restarts", "restart"), ("shop/fails", "escalate")] {
        let deployment = json!({
            "as": stage,
            "source": component.to_str().unwrap(),
            "watch": false,
            "supervision": { "on_failure": on_failure },
        });
        let answer = hive.rest("POST", "/api/v1/deployments", &deployment.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // Nothing has happened to them yet.
    assert!(alerts(&hive).is_empty());
    publish(&hive, "shop.restarts", 3);
    let restarts = sink.post("restarts", |post| post.is("stage-restarts", 1, 0));
    assert_eq!(
        restarts.body["firing"][0]["labels"]["stage"],
        "shop/restarts"
    );
    publish(&hive, "shop.fails", 10);
    let failed = sink.post("a failure", |post| post.is("stage-failed", 1, 0));
    assert_eq!(failed.body["firing"][0]["labels"]["stage"], "shop/fails");
    assert_eq!(failed.body["severity"], "critical");
    assert_eq!(hive.run(&["stop", "shop/fails"]).status.code(), Some(0));
    sink.post("the end of it", |post| post.is("stage-failed", 0, 1));
}

/// A node of this name, with its own sink; on the bus of another one, if one is given.
fn node(name: &str, bus: Option<&Hive>, more: &str) -> (Hive, WebSink) {
    let sink = WebSink::start();
    let rule = "[[alerts.rules]]\nname = \"node-gone\"\nfor_seconds = 1\n";
    let bus = match bus {
        Some(hive) => format!("bus = [\"stomp://{}\"]\n", hive.address("stomp")),
        None => String::new(),
    };
    let node = format!("[node]\nname = {name:?}\n{bus}");
    let hive = Hive::with_config(&[QUICK, rule, more, &webhook(&sink), &node].concat());
    (hive, sink)
}

/// Waits until a node has heard so many others and itself.
fn hears(hive: &Hive, nodes: usize) {
    until("all nodes are heard", || {
        let heard = hive.rest("GET", "/api/v1/nodes", "").json();
        let living = heard["nodes"].as_array().unwrap().iter();
        let living = living.filter(|node| node["state"] != "dead");
        (living.count() == nodes).then_some(())
    });
}

#[test]
fn that_a_node_is_gone_is_told_by_the_first_of_the_others_alone() {
    let (a, told_by_a) = node("a", None, "");
    let (mut b, _told_by_b) = node("b", Some(&a), "");
    let (c, told_by_c) = node("c", Some(&a), "");
    for hive in [&a, &b, &c] {
        hears(hive, 3);
    }
    b.signal(Signal::KILL);
    b.exit_code();
    let gone = told_by_a.post("b is gone", |post| post.is("node-gone", 1, 0));
    assert_eq!(gone.body["firing"][0]["labels"]["node"], "b");
    assert_eq!(gone.body["node"], "a");
    // The other one knows it, too, and leaves it to the first.
    until("c knows that a has told it", || {
        let listed = alerts(&c);
        let told = listed.iter().find(|alert| alert["told_by"] == "a")?;
        (told["state"] == "firing" && told["labels"]["node"] == "b").then_some(())
    });
    b.start_again();
    let back = told_by_a.post("b is back", |post| post.is("node-gone", 0, 1));
    assert_eq!(back.body["recovered"][0]["labels"]["node"], "b");
    until("c knows that b is back", || {
        alerts(&c).is_empty().then_some(())
    });
    assert_eq!((told_by_a.posts().len(), told_by_c.posts().len()), (2, 0));
}

#[test]
fn control_a_node_that_was_told_to_stop_is_not_missed() {
    let (a, told_by_a) = node("a", None, &age_rule("marker", "late", 2));
    let (mut b, _told_by_b) = node("b", Some(&a), "");
    // It says good-bye only to those whom it has heard.
    for hive in [&a, &b] {
        hears(hive, 2);
    }
    assert_eq!(b.terminate(), Some(0));
    hears(&a, 1);
    // What comes in the end shows that there was time for more.
    publish(&a, "late", 1);
    told_by_a.post("the marker", |post| post.is("marker", 1, 0));
    assert_eq!(told_by_a.posts().len(), 1, "{:?}", told_by_a.posts());
}

#[test]
fn a_node_whose_bus_is_gone_says_so_itself() {
    let (mut a, _told_by_a) = node("a", None, "");
    let (b, told_by_b) = node("b", Some(&a), "");
    hears(&b, 2);
    a.signal(Signal::KILL);
    a.exit_code();
    let told = told_by_b.post("b is cut off", |post| post.is("node-gone", 1, 0));
    let detail = told.body["firing"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("b is cut off"), "{detail}");
}

#[test]
fn the_disk_is_watched() {
    let sink = WebSink::start();
    let rule = "[[alerts.rules]]\nname = \"disk\"\nfor_seconds = 0\nfree_percent_min = 100.0\n";
    let hive = Hive::with_config(&[QUICK, rule, &webhook(&sink)].concat());
    let told = sink.post("the disk", |post| post.is("disk", 1, 0));
    let free = told.body["firing"][0]["value"].as_f64().unwrap();
    assert!((0.0..100.0).contains(&free), "{free}");
    let shown = stdout(&hive.run(&["alerts"]));
    assert!(
        shown.contains("disk") && shown.contains("critical"),
        "{shown}"
    );
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let hive = Hive::with_config(QUICK);
    let silence = |body: Value| hive.rest("POST", "/api/v1/alerts/silences", &body.to_string());
    silence(json!({ "rule": "none", "for_seconds": 5 })).problem(404);
    silence(json!({ "for_seconds": 5 })).problem(400);
    silence(json!({ "rule": "*" })).problem(400);
    silence(json!({ "rule": "*", "for_seconds": 0 })).problem(400);
    silence(json!({ "rule": "*", "for_seconds": 5, "more": 1 })).problem(400);
    hive.rest("DELETE", "/api/v1/alerts/silences/7", "")
        .problem(404);
    hive.rest("DELETE", "/api/v1/alerts/silences/x", "")
        .problem(400);
    hive.rest("POST", "/api/v1/alerts/test", "{}").problem(409);
    let made = silence(json!({ "labels": { "queue": "a*" }, "for_seconds": 60 }));
    assert_eq!(made.status, 200, "{made:?}");
    let all = hive.rest("GET", "/api/v1/alerts/silences", "").json();
    assert_eq!(all["silences"][0]["labels"], json!({ "queue": "a*" }));
    let wrong = hive.run(&["alerts", "silence", "*", "--for", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_wrong_rule_or_receiver_keeps_the_node_from_starting() {
    for (text, expected) in [
        (
            "[[alerts.rules]]\nname = \"x\"\nkind = \"expression\"\nexpression = \"hivewire_queues >\"\n",
            "cannot be understood",
        ),
        ("[[alerts.rules]]\nname = \"x\"\n", "needs a `kind`"),
        ("[[alerts.rules]]\nname = \"disk\"\nfree = 1\n", "line 3"),
        (
            "[[alerts.webhooks]]\nurl = \"http://example.org/\"\nbearer = \"hush\"\n",
            "use https",
        ),
        (
            "[[alerts.emails]]\nhost = \"example.org\"\ntls = \"none\"\nfrom = \"a@b.c\"\nto = [\"d@e.f\"]\n",
            "allow_plain",
        ),
        ("[alerts]\nlook_every_ms = 1\n", "at least 100"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hivewire.toml"), text).unwrap();
        let output = binary()
            .current_dir(folder.path())
            .args([
                "up",
                "--http",
                "127.0.0.1:0",
                "--stomp",
                "off",
                "--gamq",
                "off",
            ])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains(expected) && !told.contains("hush"), "{told}");
    }
}
