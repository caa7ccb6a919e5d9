use std::time::Duration;

use flows::Hold;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::rig::{emitted, message, turn_of};
use super::*;
use crate::visit::{Ended, Endings};

/// Serves some pages, each on a connection of its own, and waits with all of them until so many are asked for.
async fn site(at_once: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let all_here = Arc::new(tokio::sync::Barrier::new(at_once));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let all_here = all_here.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                all_here.wait().await;
                let head = String::from_utf8(head).unwrap();
                let _ = stream.write_all(answer(&head).as_bytes()).await;
            });
        }
    });
    address
}

fn answer(head: &str) -> String {
    let (status, headers, body) = match head.split(' ').nth(1).unwrap() {
        "/busy" => ("429 Too Many Requests", "Retry-After: 7\r\n", "later"),
        "/down" => ("503 Down", "", "down"),
        "/missing" => ("404 Not Found", "", "missing"),
        "/moved" => ("301 Moved", "Location: /page\r\n", ""),
        "/known" if head.contains("if-none-match: \"one\"") => ("304 Not Modified", "", ""),
        "/closed" => return String::new(),
        _ => (
            "200 OK",
            "Content-Type: text/html; charset=UTF-8\r\nX-Two: a\r\nX-Two: b\r\n",
            "<p>hello</p>",
        ),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

#[derive(Default)]
struct Heard(Mutex<Vec<Ended>>);

impl Endings for Heard {
    fn ended(&self, ended: Ended) {
        self.0.lock().push(ended);
    }
}

/// A downloader, and who hears of its visits.
struct Test {
    downloader: Downloader,
    heard: Arc<Heard>,
}

impl Test {
    fn new(mut parameters: Value) -> Self {
        parameters["fetch"]["allow_private"] = true.into();
        let parameters = serde_json::from_value(parameters).unwrap();
        let environment = Environment {
            node: "here".to_owned(),
            stage: StageAddress::new("crawl", "download").ok(),
            ..Environment::default()
        };
        Self {
            downloader: Downloader::new(parameters, &environment).unwrap(),
            heard: Arc::default(),
        }
    }

    fn request(&self, site: &str, path: &str, is_last_try: bool) -> Event {
        let data = json!({"url": format!("http://{site}{path}"), "host": site, "depth": 2, "from": "http://from.example/", "tries": 0, "etag": "\"one\""});
        let visit = Visit::begin(1, is_last_try, self.heard.clone());
        Event::parse(data.to_string().as_bytes())
            .unwrap()
            .held_by(Hold::new(visit))
    }

    async fn handle(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Value> {
        let messages: Vec<Incoming> = events.into_iter().map(message).collect();
        let mut turn = turn_of::<Downloader>();
        self.downloader.handle(&messages, &mut turn).await.unwrap();
        emitted(turn)
    }

    /// What comes out, and what the frontier hears.
    async fn fetch(&mut self, site: &str, path: &str, is_last_try: bool) -> (Vec<Value>, Outcome) {
        let request = self.request(site, path, is_last_try);
        let out = self.handle([request]).await;
        let ended = self.heard.0.lock().pop().unwrap();
        (out, ended.outcome.unwrap())
    }
}

#[tokio::test]
async fn a_page_comes_out_with_all_that_is_known() {
    let site = site(1).await;
    let (out, outcome) = Test::new(json!({})).fetch(&site, "/page", false).await;
    let [page] = &out[..] else { panic!("{out:?}") };
    assert_eq!(page[0], "out");
    let page = &page[1];
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(b"<p>hello</p>"));
    let url = format!("http://{site}/page");
    for (name, wanted) in [
        ("url", json!(url)),
        ("final_url", json!(url)),
        ("host", json!(site)),
        ("depth", json!(2)),
        ("from", json!("http://from.example/")),
        ("status", json!(200)),
        ("mime", json!("text/html")),
        ("charset", json!("utf-8")),
        ("size", json!(12)),
        ("node", json!("here")),
        ("hash", json!(hash)),
        ("body_base64", json!("PHA+aGVsbG88L3A+")),
    ] {
        assert_eq!(page[name], wanted, "{name}");
    }
    assert_eq!(page["headers"]["x-two"], "a, b");
    assert!(page["fetched_at"].as_u64().unwrap() > 1_500_000_000_000);
    assert_eq!((outcome.status, outcome.retry), (Some(200), false));
    assert!(outcome.took > Duration::ZERO && outcome.reason.is_empty());
}

#[tokio::test]
async fn what_may_work_later_is_left_to_the_frontier_until_the_last_try() {
    let site = site(1).await;
    let mut test = Test::new(json!({}));
    for (path, status, output) in [
        ("/busy", Some(429), "out"),
        ("/down", Some(503), "out"),
        ("/closed", None, "refused"),
    ] {
        let (out, outcome) = test.fetch(&site, path, false).await;
        assert!(out.is_empty(), "{path} {out:?}");
        assert_eq!((outcome.status, outcome.retry), (status, true), "{path}");
        assert!(!outcome.reason.is_empty());
        let wait = (path == "/busy").then_some(Duration::from_secs(7));
        assert_eq!(outcome.retry_after, wait);
        let (out, outcome) = test.fetch(&site, path, true).await;
        assert_eq!((out.len(), &out[0][0]), (1, &json!(output)), "{path}");
        assert_eq!((outcome.status, outcome.retry), (status, false), "{path}");
    }
    // What was answered for good is not asked for again.
    let (out, outcome) = test.fetch(&site, "/missing", false).await;
    assert_eq!(
        (&out[0][0], &out[0][1]["status"]),
        (&json!("out"), &json!(404))
    );
    assert!(!outcome.retry);
}

#[tokio::test]
async fn what_cannot_be_fetched_comes_out_as_refused() {
    let mut test = Test::new(json!({}));
    let data = json!({"urls": ["http://[broken", "ftp://a.example/"], "host": "a.example"});
    let event = Event::parse(data.to_string().as_bytes()).unwrap();
    let visit = Visit::begin(1, false, test.heard.clone());
    let mut out = test.handle([event.held_by(Hold::new(visit))]).await;
    out.sort_by_key(|row| row[1]["urls"][0].to_string());
    assert_eq!(out.len(), 2);
    for (row, url) in out.iter().zip(["ftp://a.example/", "http://[broken"]) {
        assert_eq!(
            (&row[0], &row[1]["rule"]),
            (&json!("refused"), &json!("address"))
        );
        assert_eq!(row[1]["urls"], json!([url]));
        assert_eq!(row[1]["host"], "a.example");
        assert!(row[1]["reason"].as_str().unwrap().contains(url), "{row}");
    }
}

#[tokio::test]
async fn redirects_come_out_as_urls_unless_they_are_followed() {
    let site = site(1).await;
    let (out, _) = Test::new(json!({})).fetch(&site, "/moved", false).await;
    assert_eq!(out.len(), 2, "{out:?}");
    assert_eq!(
        (&out[0][0], &out[1][0]),
        (&json!("redirects"), &json!("refused"))
    );
    assert_eq!(out[0][1]["urls"], json!([format!("http://{site}/page")]));
    assert_eq!(
        (&out[0][1]["depth"], &out[1][1]["rule"]),
        (&json!(2), &json!("redirect"))
    );
    let mut following = Test::new(json!({"follow_redirects": true}));
    let (out, _) = following.fetch(&site, "/moved", false).await;
    assert_eq!(out.len(), 1);
    assert_eq!(out[0][1]["url"], format!("http://{site}/moved"));
    assert_eq!(out[0][1]["final_url"], format!("http://{site}/page"));
}

#[tokio::test]
async fn what_is_known_already_is_not_sent_again() {
    let site = site(1).await;
    let (out, outcome) = Test::new(json!({})).fetch(&site, "/known", false).await;
    assert_eq!(
        (&out[0][1]["status"], &out[0][1]["size"]),
        (&json!(304), &json!(0))
    );
    assert_eq!(outcome.status, Some(304));
}

#[tokio::test]
async fn events_that_come_together_are_fetched_at_the_same_time() {
    // The site answers none of them before all are asked for.
    let site = site(20).await;
    let mut test = Test::new(json!({}));
    let requests: Vec<Event> = (0..20)
        .map(|number| test.request(&site, &format!("/{number}"), false))
        .collect();
    let out = test.handle(requests).await;
    assert_eq!(out.len(), 20);
    assert!(out.iter().all(|row| row[0] == "out"));
    assert_eq!(test.heard.0.lock().len(), 20);
}

#[tokio::test]
async fn a_stage_keeps_to_its_requests_per_minute() {
    let site = site(1).await;
    // Thirty requests a second: five of them take at least four thirtieths.
    let mut test = Test::new(json!({"requests_per_minute": 1_800}));
    let begun = Instant::now();
    let requests: Vec<Event> = (0..5)
        .map(|_| test.request(&site, "/page", false))
        .collect();
    assert_eq!(test.handle(requests).await.len(), 5);
    assert!(begun.elapsed() >= MINUTE * 4 / 1_800);
}

#[tokio::test]
async fn what_would_have_to_wait_long_is_left_to_the_frontier() {
    let site = site(1).await;
    let mut test = Test::new(json!({"requests_per_minute": 1}));
    let requests = [1, 2].map(|_| test.request(&site, "/page", false));
    assert_eq!(test.handle(requests).await.len(), 1);
    let heard = std::mem::take(&mut *test.heard.0.lock());
    let put_off: Vec<Duration> = heard.iter().filter_map(|ended| ended.put_off).collect();
    let [wait] = put_off[..] else {
        panic!("{heard:?}")
    };
    assert!((MINUTE / 2..=MINUTE).contains(&wait), "{wait:?}");
    assert_eq!(heard.len(), 2);
}

#[test]
fn wrong_parameters_are_named() {
    for (parameters, field) in [
        (json!({"requests_per_minute": 0}), "requests_per_minute"),
        (
            json!({"fetch": {"body_bytes_max": 0}}),
            "fetch.body_bytes_max",
        ),
        (json!({"fetch": {"proxy": "socks5://a:1"}}), "fetch.proxy"),
    ] {
        let parameters = serde_json::from_value(parameters).unwrap();
        let error = <Downloader as Plugin>::check(parameters).unwrap_err();
        assert_eq!(error.field(), field);
    }
}
