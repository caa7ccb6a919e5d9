//! `hivewire crawl` on the real binary, against a small site on this machine.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use common::{Hive, binary, stderr, stdout};
use serde_json::{Value, json};

/// A site that counts what it is asked for.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Site {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let noted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let noted = noted.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &noted));
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self, path: &str) -> u32 {
        self.asked
            .lock()
            .unwrap()
            .get(path)
            .copied()
            .unwrap_or_default()
    }
}

fn serve(stream: TcpStream, asked: &Mutex<BTreeMap<String, u32>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or_default() == 0 {
            return;
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if header.trim().is_empty() {
                break;
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
        let (status, kind, body) = page(&path);
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A start page, ten pages that link to each other and to what is not there, and one that robots must not see.
fn page(path: &str) -> (&'static str, &'static str, String) {
    let html = "text/html; charset=utf-8";
    match path {
        "/robots.txt" => (
            "200 OK",
            "text/plain",
            "User-agent: *\nDisallow: /private\n".to_owned(),
        ),
        "/" => {
            let links: String = (1..=10)
                .map(|n| format!("<a href='/p{n}'>{n}</a> "))
                .collect();
            let more = "<a href='/private/a'>p</a> <a href='/none'>n</a> <a href='https://elsewhere.example/'>e</a>";
            (
                "200 OK",
                html,
                format!("<title>Start</title><p>All about honey {links}{more}"),
            )
        }
        _ => match path.strip_prefix("/p").and_then(|n| n.parse::<u32>().ok()) {
            Some(n) => (
                "200 OK",
                html,
                format!(
                    "<title>Page {n}</title><p>Page {n} tells of bees and wax. <a href='/p{}'>next</a>",
                    n % 10 + 1
                ),
            ),
            None => ("404 Not Found", html, "<title>No</title>".to_owned()),
        },
    }
}

fn succeeded(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        stdout(output),
        stderr(output)
    );
    stdout(output)
}

/// Crawls the site, and gives the lines of JSON.
fn crawl(hive: &Hive, site: &Site, more: &[&str]) -> Vec<Value> {
    let url = site.url("/");
    let mut arguments = vec![
        "crawl",
        &url,
        "--name",
        "site",
        "--allow-private",
        "--rate",
        "unlimited",
        "--json",
    ];
    arguments.extend(more);
    let text = succeeded(&hive.run(&arguments));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_site_is_crawled_to_its_end_and_can_be_looked_at() {
    let (hive, site) = (Hive::start(), Site::start());
    let lines = crawl(&hive, &site, &["--search"]);
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!(summary["results"]["pages"], 11, "{summary}");
    assert!(
        summary["results"]["refused"]["robots"].as_u64() >= Some(1),
        "{summary}"
    );
    assert!(
        lines.iter().any(|line| line["progress"].is_object()),
        "{lines:?}"
    );
    assert_eq!((site.asked("/p1"), site.asked("/private/a")), (1, 0));

    let pages =
        succeeded(&hive.run(&["crawl", "pages", "--text", "/p", "--order", "url", "--json"]));
    assert_eq!(pages.lines().count(), 10);
    let shown = succeeded(&hive.run(&["crawl", "pages", "--limit", "3"]));
    assert_eq!(shown.lines().count(), 5, "{shown}");
    let found = succeeded(&hive.run(&["crawl", "search", "honey", "--name", "site"]));
    assert!(found.contains(&site.url("/")), "{found}");
    assert_eq!(succeeded(&hive.run(&["crawl", "search", "hornets"])), "");

    let csv = succeeded(&hive.run(&["crawl", "export", "--format", "csv"]));
    assert_eq!(csv.lines().count(), 12, "{csv}");
    assert!(csv.starts_with("url,"), "{csv}");
    let refused = succeeded(&hive.run(&["crawl", "export", "--what", "refused"]));
    assert!(
        refused.lines().any(|line| line.contains("/private/a")),
        "{refused}"
    );

    let list = succeeded(&hive.run(&["crawl", "list"]));
    assert!(list.contains("site") && list.contains("running"), "{list}");
    let show = succeeded(&hive.run(&["crawl", "show"]));
    assert!(show.starts_with("site is over: "), "{show}");
}

#[test]
fn why_says_what_became_of_a_url() {
    let (hive, site) = (Hive::start(), Site::start());
    crawl(&hive, &site, &[]);
    let why = |url: &str| hive.json(&["crawl", "why", url]);
    let fetched = why(&site.url("/p3#top"));
    assert_eq!(
        (&fetched["fate"], &fetched["page"]["status"]),
        (&json!("fetched"), &json!(200))
    );
    let refused = why(&site.url("/private/a"));
    assert_eq!(refused["fate"], "refused");
    let refusal = &refused["refusal"];
    assert_eq!(
        (&refusal["rule"], &refusal["from"]),
        (&json!("robots"), &json!(site.url("/")))
    );
    assert!(
        refusal["reason"].as_str().unwrap().contains("/private"),
        "{refusal}"
    );
    assert_eq!(
        why("https://elsewhere.example/")["refusal"]["rule"],
        "domain"
    );
    assert_eq!(why(&site.url("/none"))["refusal"]["rule"], "status");
    let unknown = why("https://other.example/x");
    assert_eq!(
        (&unknown["fate"], &unknown["forecast"]["rule"]),
        (&json!("unknown"), &json!("domain"))
    );
    let text = succeeded(&hive.run(&["crawl", "why", &site.url("/p1")]));
    assert!(
        text.starts_with("site: it was fetched with the status 200"),
        "{text}"
    );
}

#[test]
fn a_crawl_goes_on_and_fetches_nothing_twice() {
    let (mut hive, site) = (Hive::start(), Site::start());
    let lines = crawl(&hive, &site, &["--pages", "3"]);
    assert_eq!(
        lines.last().unwrap()["summary"]["results"]["pages"],
        3,
        "{lines:?}"
    );
    hive.restart();
    let lines = crawl(&hive, &site, &[]);
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!(summary["results"]["pages"], 11, "{summary}");
    let twice: Vec<String> = {
        let asked = site.asked.lock().unwrap();
        let pages = asked.iter().filter(|(path, _)| *path != "/robots.txt");
        pages
            .filter(|(_, times)| **times > 1)
            .map(|(path, _)| path.clone())
            .collect()
    };
    assert!(twice.is_empty(), "{twice:?}");
    // Nothing is left, so it is over at once.
    let lines = crawl(&hive, &site, &["--remove"]);
    assert_eq!(lines.last().unwrap()["summary"]["fetched"], 0);
    let list = hive.json(&["crawl", "list"]);
    assert_eq!(list["crawls"][0]["runs"], false, "{list}");
    assert_eq!(
        hive.json(&["crawl", "why", &site.url("/p1")])["fate"],
        "fetched"
    );
}

#[test]
fn a_crawl_without_a_single_page_has_failed() {
    let hive = Hive::start();
    // Not without leave: this machine is no public place.
    let site = Site::start();
    let url = site.url("/");
    let output = hive.run(&["crawl", &url, "--rate", "unlimited"]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(site.asked("/"), 0);
}

#[test]
fn the_document_can_be_printed_without_a_node_and_the_examples_are_sound() {
    let folder = tempfile::tempdir().unwrap();
    let print = |arguments: &[&str]| {
        let mut command = binary();
        let output = command
            .current_dir(&folder)
            .args(arguments)
            .output()
            .unwrap();
        succeeded(&output)
    };
    let document = print(&[
        "crawl",
        "example.com",
        "--depth",
        "2",
        "--rate",
        "10/min",
        "--print",
    ]);
    assert!(
        document.contains("delay = \"6s\"") && document.contains("crawl-example-com"),
        "{document}"
    );
    let file = folder.path().join("crawl.toml");
    std::fs::write(&file, &document).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crawl");
    let mut files: Vec<_> = std::fs::read_dir(examples)
        .unwrap()
        .map(|example| example.unwrap().path().join("flow.toml"))
        .collect();
    assert!(files.len() >= 4);
    files.push(file);
    for file in files {
        let checked = print(&[
            "check",
            file.to_str().unwrap(),
            "--server",
            "http://127.0.0.1:1",
        ]);
        assert!(
            checked.contains("is sound") && !checked.contains("warning"),
            "{checked}"
        );
    }
    let wrong = binary()
        .args(["crawl", "example.com", "--rate", "fast", "--print"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("10/min"), "{}", stderr(&wrong));
}
