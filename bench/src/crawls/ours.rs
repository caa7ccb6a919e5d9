//! Our crawler, as people start it: a node and `hivewire crawl`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::Crawled;
use super::served::Served;
use crate::peers::hivewire::{Hivewire, find_binary};
use crate::peers::node::Node;
use crate::peers::program::output_of;
use crate::peers::rest::Request;
use crate::peers::{PeerError, Result, processor_time, write_file};

const PATIENCE: Duration = Duration::from_secs(600);
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(25);
/// The name of the flow.
pub const FLOW: &str = "crawl-bench";

/// How far a crawl is.
#[derive(Debug, Deserialize)]
pub struct Progress {
    /// Whether nothing is left to do.
    pub over: bool,
    /// Requests that were answered.
    pub fetched: u64,
    /// Requests that failed for good.
    pub failed: u64,
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// What was stored, if that was asked for.
    pub results: Option<Stored>,
    /// Its stages.
    pub stages: Vec<Stage>,
}

/// What was stored.
#[derive(Debug, Deserialize)]
pub struct Stored {
    /// How many pages.
    pub pages: u64,
}

/// A stage of a crawl.
#[derive(Debug, Deserialize)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// How many workers it has.
    pub workers: u32,
    /// Messages that wait for it.
    pub waiting: u64,
}

/// Some pages that were stored.
#[derive(Debug, Deserialize)]
struct PagesPart {
    pages: Vec<StoredPage>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StoredPage {
    node: String,
}

/// A node that is told to crawl, as clients see it.
#[derive(Debug, Clone)]
pub struct Server {
    http: SocketAddr,
    token: String,
}

impl Server {
    /// A node with a broker of its own.
    pub fn of(node: &Hivewire) -> Result<Self> {
        Ok(Self {
            http: node.http_address(),
            token: node.token()?,
        })
    }

    /// A node that shares a broker.
    pub fn of_node(node: &Node) -> Self {
        Self {
            http: node.http_address(),
            token: node.token().to_owned(),
        }
    }

    /// Runs `hivewire` to its end and gives what it printed.
    pub fn command(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(find_binary()?);
        command
            .args(arguments)
            .args(["--server", &format!("http://{}", self.http)])
            .env("HIVEWIRE_TOKEN", &self.token);
        output_of("hivewire", command, COMMAND_PATIENCE)
    }

    /// The flow document of a crawl without a delay.
    pub fn document(&self, urls: &[String], more: &[&str]) -> Result<Value> {
        let all = [&arguments(urls, more)[..], &["--print", "--json"]].concat();
        let text = self.command(&all)?;
        serde_json::from_str(&text).map_err(unreadable)
    }

    /// Starts such a crawl and does not wait for it.
    pub fn start(&self, urls: &[String], more: &[&str]) -> Result<()> {
        let all = [&arguments(urls, more)[..], &["--detach"]].concat();
        self.command(&all).map(drop)
    }

    /// Makes the flow what a document says.
    pub fn apply(&self, document: &Value) -> Result<()> {
        let file = tempfile::Builder::new().suffix(".json").tempfile();
        let file = file.map_err(|error| PeerError::system("make a file", error))?;
        write_file(file.path(), &document.to_string())?;
        let path = file.path().to_string_lossy();
        self.command(&["apply", "--yes", &path]).map(drop)
    }

    /// How far the crawl is.
    pub fn progress(&self, query: &str) -> Result<Progress> {
        let answer = self.get(&format!("crawls/{FLOW}{query}"))?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    /// How many pages each node has stored.
    pub fn pages_by_node(&self) -> Result<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        let mut after = String::new();
        loop {
            let answer = self.get(&format!("crawls/{FLOW}/pages?limit=1000{after}"))?;
            let part: PagesPart = serde_json::from_slice(&answer).map_err(unreadable)?;
            for page in part.pages {
                *counts.entry(page.node).or_default() += 1;
            }
            match part.next {
                Some(next) => after = format!("&after={}", encoded(&next)),
                None => return Ok(counts),
            }
        }
    }

    /// Waits until it is over, and gives the time from `began` until it was. A node that sees that nothing is left looks once
    /// more after a while before it says so; what counts is when it was asked.
    pub fn wait_until_over(
        &self,
        began: Instant,
        mut look: impl FnMut(&Progress),
    ) -> Result<Duration> {
        loop {
            let asked = began.elapsed();
            let now = self.progress("")?;
            look(&now);
            if now.over {
                return Ok(asked);
            }
            if asked > PATIENCE {
                return Err(PeerError::NotReady {
                    peer: "hivewire".to_owned(),
                    timeout_seconds: PATIENCE.as_secs(),
                    output: format!("the crawl is not over: {now:?}"),
                });
            }
            // Looking costs the nodes something, and a hundredth of the time is exact enough.
            std::thread::sleep(POLL.max(began.elapsed() / 100));
        }
    }

    fn get(&self, path: &str) -> Result<Vec<u8>> {
        Request::get(&format!("/api/v1/{path}"), Some(&self.token)).send(self.http)
    }
}

/// As a value of a query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn arguments<'a>(urls: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![
        "crawl",
        "--rate",
        "unlimited",
        "--allow-private",
        "--name",
        FLOW,
    ];
    all.extend(more);
    all.extend(urls.iter().map(String::as_str));
    all
}

fn unreadable(error: serde_json::Error) -> PeerError {
    PeerError::UnexpectedAnswer {
        peer: "hivewire".to_owned(),
        answer: error.to_string(),
    }
}

/// Crawls a site with a node of its own, obeying `robots.txt`, without a delay and without a full-text index; pages are
/// stored with their bodies and texts. The time goes from the command to the moment when everything is stored.
pub fn crawl(site: &Served) -> Result<Crawled> {
    let node = Hivewire::start()?;
    crawl_on(&node, site, |_| ())
}

/// The same on a node that runs, looked at while it does.
pub fn crawl_on(node: &Hivewire, site: &Served, look: impl FnMut(&Progress)) -> Result<Crawled> {
    let server = Server::of(node)?;
    let process = node.process_id().unwrap_or_default();
    let (used, began) = (processor_time(process)?, Instant::now());
    server.start(&site.urls(), &[])?;
    let elapsed = server.wait_until_over(began, look)?;
    let processor = processor_time(process)? - used;
    all_stored(&server, site, elapsed, processor)
}

/// Sees to it that every page is stored.
pub fn all_stored(
    server: &Server,
    site: &Served,
    elapsed: Duration,
    processor: Duration,
) -> Result<Crawled> {
    let stored = server.progress("?results=true")?.results;
    let pages = stored.map_or(0, |stored| stored.pages);
    let wanted = site.pages() * site.urls().len() as u64;
    if pages >= wanted {
        return Ok(Crawled {
            pages,
            elapsed,
            processor,
        });
    }
    Err(PeerError::UnexpectedAnswer {
        peer: "hivewire".to_owned(),
        answer: format!("it stored {pages} of {wanted} pages"),
    })
}
