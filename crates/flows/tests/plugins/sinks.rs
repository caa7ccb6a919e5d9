//! Plug-ins that meet the world outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flows::plugins::{Answer, Http, Metric, MetricKind, MetricSpec, Metrics, Request};
use kernel::{Destination, Message, Name, StageAddress};
use parking_lot::Mutex;
use serde_json::json;

use super::rig::{Rig, built_in, outside, run};
use super::samples::{environment, environment_with_bus};

#[test]
fn what_was_undone_does_not_stay_in_a_file() {
    run(async {
        let environment = environment();
        let path = environment
            .folder
            .clone()
            .unwrap()
            .join("output/once.jsonl");
        let parameters = r#"{"file": "output/once.jsonl", "file_bytes_max": 60, "files_max": 100}"#;
        let mut rig = built_in(&environment, "to-file", parameters).await;
        for n in 0..40 {
            let message = [outside(&json!({ "number": n }))];
            rig.undone(&message).await;
            if n % 3 == 0 {
                rig.crash().await;
            }
            rig.handle(&message).await.unwrap();
        }
        let mut lines = Vec::new();
        for number in 1.. {
            match std::fs::read_to_string(path.with_file_name(format!("once.jsonl.{number}"))) {
                Ok(text) => lines.extend(text.lines().map(str::to_owned)),
                Err(_) => break,
            }
        }
        lines.extend(
            std::fs::read_to_string(&path)
                .unwrap()
                .lines()
                .map(str::to_owned),
        );
        let expected: Vec<String> = (0..40).map(|n| format!("{{\"number\":{n}}}")).collect();
        assert_eq!(lines, expected);
    });
}

#[test]
fn two_workers_do_not_write_one_file() {
    run(async {
        let parameters = r#"{"file": "output/two.jsonl"}"#;
        let environment = environment();
        let mut one = built_in(&environment, "to-file", parameters).await;
        let mut two = built_in(&environment, "to-file", parameters).await;
        one.handle(&[outside(&json!(1))]).await.unwrap();
        let failure = two.handle(&[outside(&json!(2))]).await.unwrap_err();
        assert!(failure.reason.contains("one worker"), "{failure}");
    });
}

#[test]
fn files_outside_the_folder_are_refused() {
    let file_lines = flows::plugins::find("file-lines")
        .unwrap()
        .code(&environment());
    for file in ["/etc/passwd", "../x", "a/../../x", "", ".."] {
        let parameters = json!({ "file": file }).to_string();
        let failure = run(Rig::new(file_lines.clone(), &parameters))
            .err()
            .unwrap();
        assert!(
            failure.reason.contains("folder of flows"),
            "{file}: {failure}"
        );
    }
}

#[test]
fn a_file_is_followed_and_long_lines_are_told() {
    run(async {
        let environment = environment();
        let path = environment.folder.clone().unwrap().join("followed.txt");
        std::fs::write(&path, format!("one\n{}\ntw", "x".repeat(100))).unwrap();
        let mut rig = built_in(
            &environment,
            "file-lines",
            r#"{"file": "followed.txt", "follow": true, "line_bytes_max": 50}"#,
        )
        .await;
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out"), [json!({ "line": 1, "text": "one" })]);
        assert_eq!(rig.at("refused")[0]["line"], 2);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("o\nthree\n");
        std::fs::write(&path, text).unwrap();
        rig.provide().await.unwrap();
        assert_eq!(
            rig.at("out")[1..],
            [
                json!({ "line": 3, "text": "two" }),
                json!({ "line": 4, "text": "three" })
            ]
        );
        std::fs::write(&path, "anew\n").unwrap();
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out")[3], json!({ "line": 1, "text": "anew" }));
    });
}

#[test]
fn a_queue_is_acknowledged_after_the_commit() {
    run(async {
        let environment = environment_with_bus();
        let bus = environment.bus.clone().unwrap();
        let queue = Destination::Queue(Name::new("orders.new").unwrap());
        let second = Duration::from_secs(1);
        let mut messages: Vec<Message> = (0..10).map(|n| Message::new(n.to_string())).collect();
        bus.publish(&queue, &mut messages, second).await.unwrap();
        let code = flows::plugins::find("from-queue")
            .unwrap()
            .code(&environment);
        let mut rig = Rig::new(code, r#"{"queue": "orders.new"}"#).await.unwrap();
        // What is not committed is emitted again, and nothing was acknowledged.
        rig.provide_undone().await;
        rig.provide().await.unwrap();
        let expected: Vec<_> = (0..10).map(|n| json!(n)).collect();
        assert_eq!(rig.at("out"), expected);
        // The turn after the commit acknowledges: another subscriber gets nothing once this one is gone.
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out"), expected);
        drop(rig);
        let other = bus.subscribe(&queue, 10, second).await.unwrap();
        assert!(
            other
                .next_batch(10, Duration::from_millis(50))
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn a_queue_gives_back_what_was_not_committed() {
    run(async {
        let environment = environment_with_bus();
        let bus = environment.bus.clone().unwrap();
        let queue = Destination::Queue(Name::new("orders.new").unwrap());
        let second = Duration::from_secs(1);
        bus.publish(&queue, &mut vec![Message::new("1")], second)
            .await
            .unwrap();
        let code = flows::plugins::find("from-queue")
            .unwrap()
            .code(&environment);
        let mut rig = Rig::new(code, r#"{"queue": "orders.new"}"#).await.unwrap();
        rig.provide_undone().await;
        drop(rig);
        let other = bus.subscribe(&queue, 10, second).await.unwrap();
        assert_eq!(other.next_batch(10, second).await.unwrap().len(), 1);
    });
}

/// Answers with what it is told, and keeps what it was asked.
#[derive(Default)]
struct FakeHttp {
    answers: Mutex<Vec<Result<Answer, String>>>,
    asked: Mutex<Vec<Request>>,
}

#[async_trait]
impl Http for FakeHttp {
    async fn ask(&self, request: Request) -> Result<Answer, String> {
        self.asked.lock().push(request);
        self.answers.lock().remove(0)
    }
}

fn answer(status: u16, etag: Option<&str>, body: &'static str) -> Result<Answer, String> {
    let etag = etag.map(|etag| ("etag".to_owned(), etag.to_owned()));
    Ok(Answer {
        status,
        headers: etag.into_iter().collect(),
        body: body.into(),
    })
}

#[test]
fn events_are_posted_and_a_refusal_fails_the_turn() {
    run(async {
        let http = Arc::new(FakeHttp::default());
        *http.answers.lock() = vec![
            answer(204, None, ""),
            answer(500, None, "no room"),
            Err("no route".to_owned()),
        ];
        let mut environment = environment();
        environment.http = Some(http.clone());
        let parameters = r#"{"url": "https://example.com/hook", "headers": {"x-a": "b"}}"#;
        let mut rig = built_in(&environment, "to-http", parameters).await;
        rig.handle(&[outside(&json!({ "b": 1, "a": 2 }))])
            .await
            .unwrap();
        let failure = rig.handle(&[outside(&json!(1))]).await.unwrap_err();
        assert!(failure.reason.contains("500: no room"), "{failure}");
        let failure = rig.handle(&[outside(&json!(1))]).await.unwrap_err();
        assert!(failure.reason.contains("no route"), "{failure}");
        let asked = http.asked.lock();
        assert_eq!(
            (asked[0].method, &asked[0].body[..]),
            ("POST", &br#"{"a":2,"b":1}"#[..])
        );
        let names: Vec<&str> = asked[0]
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["content-type", "idempotency-key", "x-a"]);
        assert_eq!(
            asked[1].headers, asked[2].headers,
            "what is tried again has the same key"
        );
    });
}

#[test]
fn a_server_is_asked_and_what_did_not_change_comes_once() {
    run(async {
        let http = Arc::new(FakeHttp::default());
        *http.answers.lock() = vec![
            answer(200, Some("one"), "[1, 2]"),
            answer(304, None, ""),
            answer(200, None, "[1, 2]"),
            Err("no route".to_owned()),
            answer(200, None, "plain"),
        ];
        let mut environment = environment();
        environment.http = Some(http.clone());
        let parameters = r#"{"url": "http://example.com/", "every": "10s", "each": true}"#;
        let mut rig = built_in(&environment, "from-http", parameters).await;
        for _ in 0..5 {
            rig.provide().await.unwrap();
            // Too early, also for another instance: nothing is asked.
            rig.crash().await;
            rig.provide().await.unwrap();
            rig.advance(Duration::from_secs(10)).await;
        }
        assert_eq!(rig.at("out"), [json!(1), json!(2), json!("plain")]);
        assert_eq!(rig.at("refused")[0]["reason"], "no route");
        let asked = http.asked.lock();
        assert_eq!(asked.len(), 5);
        assert_eq!(
            asked[1].headers,
            [("if-none-match".to_owned(), "one".to_owned())]
        );
    });
}

#[test]
fn rows_are_written_and_those_with_a_key_once() {
    run(async {
        let environment = environment();
        let parameters = r#"{"file": "o/s.db", "table": "latest", "key": ["sensor"],
            "columns": {"sensor": "event.s", "celsius": "event.c", "all": "event"}}"#;
        let mut rig = built_in(&environment, "to-sqlite", parameters).await;
        let batch = [
            json!({ "s": "a", "c": 1 }),
            json!({ "s": "b", "c": 2.5 }),
            json!({ "s": "a", "c": null }),
        ];
        let batch: Vec<_> = batch.iter().map(outside).collect();
        rig.undone(&batch).await;
        rig.handle(&batch).await.unwrap();
        let database =
            rusqlite::Connection::open(environment.folder.unwrap().join("o/s.db")).unwrap();
        let mut rows = database
            .prepare("SELECT sensor, celsius, \"all\" FROM latest ORDER BY sensor")
            .unwrap();
        let rows = rows
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let rows: Vec<(String, Option<f64>, String)> = rows.map(Result::unwrap).collect();
        assert_eq!(
            rows,
            [
                ("a".to_owned(), None, r#"{"c":null,"s":"a"}"#.to_owned()),
                ("b".to_owned(), Some(2.5), r#"{"c":2.5,"s":"b"}"#.to_owned()),
            ]
        );
        let to_sqlite = flows::plugins::find("to-sqlite").unwrap();
        let bad = br#"{"file": "x", "table": "a\"; DROP TABLE b; --", "columns": {"a": "1"}}"#;
        assert_eq!(to_sqlite.check(bad).unwrap_err().field(), "table");
    });
}

/// A stage, and what it declared.
type Declared = (String, MetricSpec);

/// The values of labels, and what was recorded under them.
type Recorded = (Vec<String>, f64);

#[derive(Clone, Default)]
struct FakeMetrics {
    declared: Arc<Mutex<Vec<Declared>>>,
    recorded: Arc<Mutex<Vec<Recorded>>>,
    shown: Arc<AtomicBool>,
}

impl Metric for FakeMetrics {
    fn record(&self, labels: &[String], value: f64) {
        self.recorded.lock().push((labels.to_vec(), value));
    }

    fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }
}

impl Metrics for FakeMetrics {
    fn declare(&self, stage: &StageAddress, spec: &MetricSpec) -> Result<Arc<dyn Metric>, String> {
        self.declared.lock().push((stage.to_string(), spec.clone()));
        self.shown.store(true, Ordering::Relaxed);
        Ok(Arc::new(self.clone()))
    }
}

#[test]
fn a_metric_is_declared_once_and_again_when_it_is_no_longer_shown() {
    run(async {
        let metrics = FakeMetrics::default();
        let mut environment = environment();
        environment.metrics = Some(Arc::new(metrics.clone()));
        let parameters = r#"{"metric": "sales", "help": "Sales.", "kind": "counter", "value": "event.v",
            "labels": {"shop": "event.s"}, "series_max": 2}"#;
        let mut rig = built_in(&environment, "to-prometheus", parameters).await;
        let expected = MetricSpec {
            name: "sales".to_owned(),
            help: "Sales.".to_owned(),
            kind: MetricKind::Counter,
            labels: vec!["shop".to_owned()],
            series_max: 2,
        };
        for (shop, value) in [("a", 1.0), ("b", 2.0)] {
            let event = outside(&json!({ "s": shop, "v": value }));
            rig.handle(&[event]).await.unwrap();
        }
        let declared = ("test/stage".to_owned(), expected);
        assert_eq!(*metrics.declared.lock(), vec![declared.clone()]);
        metrics.shown.store(false, Ordering::Relaxed);
        let event = outside(&json!({ "s": "a", "v": 4 }));
        rig.handle(&[event]).await.unwrap();
        assert_eq!(*metrics.declared.lock(), [declared.clone(), declared]);
        let recorded = [("a", 1.0), ("b", 2.0), ("a", 4.0)];
        let recorded = recorded.map(|(shop, value)| (vec![shop.to_owned()], value));
        assert_eq!(*metrics.recorded.lock(), recorded);
        let event = outside(&json!({ "s": "a", "v": -1 }));
        let failure = rig.handle(&[event]).await.unwrap_err();
        assert!(failure.reason.contains("only grows"), "{failure}");
    });
}
