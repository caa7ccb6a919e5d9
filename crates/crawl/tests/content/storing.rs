//! The plug-ins that keep pages.

use std::path::Path;

use crawl::store::{Place, Reader, Why};
use crawl::warc::WarcReader;
use flows::Event;
use flows::plugins::Environment;
use serde_json::{Value, json};

use super::rig::{Rig, is_held, page, plugin};

fn environment(folder: &Path) -> Environment {
    Environment {
        folder: Some(folder.to_owned()),
        node: "node-7".to_owned(),
        ..Environment::default()
    }
}

fn number(number: u32) -> Event {
    let url = format!("https://a.example/{number}");
    let record = json!({
        "url": url, "final_url": url, "host": "a.example", "depth": 1, "from": "https://a.example/", "status": 200,
        "mime": "text/html", "size": 1_000, "fetched_at": 5_000 + number, "took_ms": 3, "title": format!("Page {number}"),
        "text": format!("word{number} in a text"), "simhash": "00000000000000aa", "fields": {"price": 7},
        "headers": {"content-type": "text/html", "content-encoding": "gzip"},
    });
    page(&record, format!("<p>{number}</p>"))
}

fn refused(fields: Value) -> Event {
    let mut record = json!({
        "host": "b.example", "rule": "domain", "reason": "no pattern fits", "from": "https://a.example/", "depth": 2, "at": 9,
    });
    for (name, value) in fields.as_object().unwrap() {
        record[name] = value.clone();
    }
    Event::parse(record.to_string().as_bytes()).unwrap()
}

async fn reader(folder: &Path) -> Reader {
    Reader::open(&Place::Folder(folder.to_owned()))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_what_was_refused_are_stored_before_they_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let parameters = json!({ "to": "crawls/a", "search": true });
    let mut rig = Rig::within(&environment, "page-store", parameters).await;
    let mut events: Vec<Event> = (0..30).map(number).collect();
    events.insert(
        3,
        refused(json!({ "urls": ["https://b.example/1", "https://b.example/2"] })),
    );
    events.insert(
        9,
        refused(json!({ "url": "https://b.example/1", "rule": "robots" })),
    );
    // A turn that is undone is written again, by another instance.
    rig.take_undone(&events).await.unwrap();
    rig.restart().await;
    rig.take(&events).await;

    let passed = rig.events("out");
    assert_eq!(passed.len(), 30);
    for (position, event) in passed.iter().enumerate() {
        assert!(is_held(event));
        assert_eq!(event.body().unwrap(), format!("<p>{position}</p>"));
    }
    let mut reader = reader(&folder.path().join("crawls/a")).await;
    let counts = reader.counts().await.unwrap();
    assert_eq!((counts.pages, counts.bytes), (30, 30_000));
    assert_eq!(
        counts.refusals.into_iter().collect::<Vec<_>>(),
        [("domain".to_owned(), 1), ("robots".to_owned(), 1)]
    );
    let stored = reader.page("https://a.example/7").await.unwrap().unwrap();
    assert_eq!(
        (stored.fetches, stored.fetched_at, stored.took_ms),
        (1, 5_007, 3)
    );
    assert_eq!(
        (stored.node.as_str(), stored.title.as_deref()),
        ("node-7", Some("Page 7"))
    );
    assert_eq!(stored.fields.as_deref(), Some(r#"{"price":7}"#));
    assert!(stored.headers.unwrap().contains("content-encoding"));
    let body = reader.body("https://a.example/7", 100).await.unwrap();
    assert_eq!(body.unwrap(), b"<p>7</p>");
    assert_eq!(reader.search("word7", 10).await.unwrap().len(), 1);
    match reader.why("https://b.example/1").await.unwrap() {
        Why::Refused(refusal) => {
            assert_eq!((refusal.rule.as_str(), refusal.at), ("robots", 9));
            assert_eq!((refusal.node.as_str(), refusal.depth), ("node-7", 2));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_workers_write_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let environment = environment.clone();
        workers.spawn(async move {
            let mut rig = Rig::within(&environment, "page-store", json!({ "to": "a" })).await;
            for batch in 0..5 {
                let first = worker * 100 + batch * 20;
                let events: Vec<Event> = (first..first + 20).map(number).collect();
                rig.take(&events).await;
            }
            rig.out.len()
        });
    }
    while let Some(passed) = workers.join_next().await {
        assert_eq!(passed.unwrap(), 100);
    }
    let counts = reader(&folder.path().join("a"))
        .await
        .counts()
        .await
        .unwrap();
    assert_eq!(counts.pages, 400);
}

#[tokio::test]
async fn what_was_refused_of_late_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = json!({ "to": "a" });
    let mut rig = Rig::within(&environment(folder.path()), "page-store", parameters).await;
    let url = "https://b.example/1";
    rig.take(&[
        refused(json!({ "url": url })),
        refused(json!({ "url": url, "at": 10 })),
    ])
    .await;
    rig.take(&[refused(json!({ "url": url, "at": 11 }))]).await;
    let mut reader = reader(&folder.path().join("a")).await;
    assert_eq!(reader.refusal(url).await.unwrap().unwrap().at, 9);
    // For another reason it is.
    rig.take(&[refused(json!({ "url": url, "at": 12, "rule": "robots" }))])
        .await;
    assert_eq!(reader.refusal(url).await.unwrap().unwrap().at, 12);
    assert!(rig.out.is_empty());
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_told_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let to = "postgres://me:tell-nobody@127.0.0.1:1/crawls";
    let mut rig = Rig::within(&environment, "page-store", json!({ "to": to })).await;
    let failure = rig.take_undone(&[number(1)]).await.unwrap_err();
    assert!(
        failure.reason.contains("postgres://me@127.0.0.1:1/crawls"),
        "{failure}"
    );
    assert!(!failure.reason.contains("tell-nobody"), "{failure}");

    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(
        folder.path().join("a/crawl.db"),
        "no database, whatever it says",
    )
    .unwrap();
    let mut rig = Rig::within(&environment, "page-store", json!({ "to": "a" })).await;
    let failure = rig.take_undone(&[number(1)]).await.unwrap_err();
    assert!(failure.reason.contains("damaged"), "{failure}");
    // Once it is moved away, it goes on.
    std::fs::remove_file(folder.path().join("a/crawl.db")).unwrap();
    rig.take(&[number(1)]).await;
}

#[test]
fn wrong_parameters_are_told() {
    for (id, parameters, field) in [
        ("page-store", json!({ "to": "../elsewhere" }), "to"),
        ("page-store", json!({ "to": "/etc" }), "to"),
        (
            "page-store",
            json!({ "to": "mysql://me:tell-nobody@host/a" }),
            "to",
        ),
        (
            "page-store",
            json!({ "to": "postgres://me:tell-nobody@host:port/a" }),
            "to",
        ),
        (
            "page-store",
            json!({ "to": "a", "timeout": "0s" }),
            "timeout",
        ),
        ("warc-writer", json!({ "folder": "../elsewhere" }), "folder"),
        (
            "warc-writer",
            json!({ "folder": "a", "prefix": "../a" }),
            "prefix",
        ),
        (
            "to-csv",
            json!({ "file": "../a.csv", "columns": { "a": "event.a" } }),
            "file",
        ),
        (
            "to-csv",
            json!({ "file": "a.csv", "columns": {} }),
            "columns",
        ),
        (
            "to-csv",
            json!({ "file": "a.csv", "columns": { "a": "event.a" }, "order": ["b"] }),
            "order",
        ),
        (
            "to-csv",
            json!({ "file": "a.csv", "columns": { "a": "event.a" }, "order": ["a", "a"] }),
            "order",
        ),
    ] {
        let error = plugin(id)
            .check(parameters.to_string().as_bytes())
            .unwrap_err();
        assert_eq!(error.field(), field, "{parameters}: {error}");
        assert!(!error.to_string().contains("tell-nobody"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_archived_before_they_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = json!({ "folder": "archives", "prefix": "site" });
    let mut rig = Rig::within(&environment(folder.path()), "warc-writer", parameters).await;
    let moved = json!({
        "url": "https://a.example/old", "final_url": "https://a.example/new", "status": 200, "host": "a.example", "headers": {},
    });
    let events = [
        number(1),
        number(2),
        page(&moved, "here"),
        refused(json!({ "url": "https://b.example/" })),
    ];
    rig.take(&events).await;
    assert_eq!(rig.events("out").len(), 3);
    assert!(
        rig.events("out")
            .iter()
            .all(|event| is_held(event) && event.body().is_some())
    );
    // The last worker that is gone finishes the file.
    drop(rig);
    let archives: Vec<_> = std::fs::read_dir(folder.path().join("archives"))
        .unwrap()
        .collect();
    let file = archives.into_iter().next().unwrap().unwrap().path();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("site-") && name.ends_with(".warc.gz"),
        "{name}"
    );
    let mut reader = WarcReader::open(&file).unwrap();
    let mut told = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let target = record.target().unwrap_or_default().to_owned();
        if let Some(http) = record.http() {
            assert_eq!(
                (http.status(), http.header("content-encoding")),
                (Some(200), None)
            );
            told.push(format!("{target} {}", String::from_utf8_lossy(http.body)));
        } else if record.kind() == "metadata" && target.ends_with("new") {
            assert_eq!(record.block, b"redirectedFrom: https://a.example/old\r\n");
        }
    }
    assert_eq!(
        told,
        [
            "https://a.example/1 <p>1</p>",
            "https://a.example/2 <p>2</p>",
            "https://a.example/new here"
        ]
    );
}

#[tokio::test]
async fn rows_of_tables_stand_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let columns = json!({ "title": "event.title", "link": "event.url", "none": "null", "list": "[1, 2]", "later": "event.fetched_at" });
    let parameters = json!({ "file": "out/a.csv", "columns": columns, "order": ["link", "title"] });
    let mut rig = Rig::within(&environment, "to-csv", parameters).await;
    let evil = json!({ "url": "https://a.example/", "title": "=cmd|' /C calc'!A0, \"so\"\nsaid", "fetched_at": -5 });
    rig.take(&[number(1)]).await;
    rig.take_undone(&[number(2)]).await.unwrap();
    rig.restart().await;
    rig.take(&[page(&evil, ""), number(3)]).await;
    let mut table = csv::Reader::from_path(folder.path().join("out/a.csv")).unwrap();
    assert_eq!(
        table.headers().unwrap(),
        vec!["link", "title", "later", "list", "none"]
    );
    let rows: Vec<Vec<String>> = table
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
        .collect();
    assert_eq!(
        rows,
        [
            vec!["https://a.example/1", "Page 1", "5001", "[1,2]", ""],
            vec![
                "https://a.example/",
                "'=cmd|' /C calc'!A0, \"so\"\nsaid",
                "-5",
                "[1,2]",
                ""
            ],
            vec!["https://a.example/3", "Page 3", "5003", "[1,2]", ""],
        ]
    );
}
