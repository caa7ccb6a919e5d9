//! A crawl that knows very many URLs already.
//!
//! They come as links of pages do, as messages to the stage that knows which URLs were seen. From there they go to the
//! frontier, which hands them out, and a filter behind it stops them: every one of them was seen, waited, and was dealt with. Then
//! sites are crawled by the same flow.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Crawled;
use super::ours::{FLOW, Server, all_stored};
use super::served::Served;
use crate::peers::hivewire::Hivewire;
use crate::peers::{PeerError, Result, processor_time, resident_bytes};

/// URLs are of so many hosts.
const HOSTS: u64 = 10_000;
/// URLs of one message, all of one host.
const MESSAGE_URLS: u64 = 200;
/// Messages that are sent at once.
const BATCH_MESSAGES: u64 = 20;
/// No more than these may wait for the stage, so that what is measured is not how long a queue can be.
const WAITING_MAX: u64 = 2_000;
const LEARNING_PATIENCE: Duration = Duration::from_secs(3_600);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Hosts below this are refused.
const DOMAIN: &str = "known.invalid";

/// A node that has learned URLs, and a flow that can crawl sites besides.
#[derive(Debug)]
pub struct Known {
    node: Hivewire,
    server: Server,
    document: Value,
    seeds: u32,
    /// How many URLs it knows.
    pub urls: u64,
    /// How long it took to learn them.
    pub learned_in: Duration,
}

impl Known {
    /// Lets a node learn so many URLs.
    pub fn learn(urls: u64) -> Result<Self> {
        let node = Hivewire::start()?;
        let server = Server::of(&node)?;
        let nowhere = format!("http://{DOMAIN}/");
        let mut document = server.document(&[nowhere], &[])?;
        let domains = &mut document["stages"]["domains"];
        domains["parameters"] = json!({ "deny": [format!("*{DOMAIN}*")] });
        // Nobody reads ten million refusals.
        domains["outputs"] = json!({ "out": domains["outputs"]["out"].clone() });
        server.apply(&document)?;
        let mut known = Self {
            node,
            server,
            document,
            seeds: 0,
            urls,
            learned_in: Duration::ZERO,
        };
        let began = Instant::now();
        known.send_all()?;
        known.learned_in = known.server.wait_until_over(began, |_| ())?;
        Ok(known)
    }

    fn send_all(&self) -> Result<()> {
        let (began, batch) = (Instant::now(), MESSAGE_URLS * BATCH_MESSAGES);
        for first in (0..self.urls).step_by(batch as usize) {
            while self.waiting()? > WAITING_MAX {
                if began.elapsed() > LEARNING_PATIENCE {
                    return Err(late("learn URLs"));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            let messages = (first..self.urls.min(first + batch)).step_by(MESSAGE_URLS as usize);
            let messages: Vec<Value> = messages
                .map(|first| json!({ "body": message(first) }))
                .collect();
            let body = json!({ "messages": messages }).to_string();
            self.node
                .post(&format!("messages/{FLOW}%2Fseen"), body.as_bytes())?;
        }
        Ok(())
    }

    /// Messages that wait for the stage that knows which URLs were seen.
    fn waiting(&self) -> Result<u64> {
        let stages = self.server.progress("?hosts=1")?.stages;
        let seen = stages.into_iter().find(|stage| stage.stage == "seen");
        Ok(seen.map_or(0, |stage| stage.waiting))
    }

    /// Crawls a site that it does not know.
    pub fn crawl(&mut self, site: &Served) -> Result<Crawled> {
        let process = self.node.process_id().unwrap_or_default();
        let stored = self.stored()?;
        let (used, began) = (processor_time(process)?, Instant::now());
        self.begin(site)?;
        let elapsed = self.server.wait_until_over(began, |_| ())?;
        let processor = processor_time(process)? - used;
        let all = all_stored(&self.server, site, elapsed, processor)?;
        let pages = all.pages - stored;
        Ok(Crawled { pages, ..all })
    }

    /// Stops the node in good order while it crawls a site, and gives the time from its next start until it crawls again.
    pub fn resume(&mut self, site: &Served) -> Result<Duration> {
        let before = self.server.progress("")?.fetched;
        self.begin(site)?;
        self.wait_for_more_than(before + site.pages() / 10)?;
        self.node.stop()?;
        let began = Instant::now();
        self.node.restart()?;
        let fetched = self.server.progress("")?.fetched;
        self.wait_for_more_than(fetched)?;
        let resumed = began.elapsed();
        self.server.wait_until_over(began, |_| ())?;
        Ok(resumed)
    }

    /// The most memory that the node has held since its start, bytes.
    pub fn resident_bytes_max(&self) -> Result<u64> {
        Ok(resident_bytes(self.node.process_id().unwrap_or_default())?.peak)
    }

    /// Adds a seed to the flow.
    fn begin(&mut self, site: &Served) -> Result<()> {
        self.seeds += 1;
        let stages = &mut self.document["stages"];
        let mut seed = stages["seed"].clone();
        seed["parameters"] = json!({ "urls": site.urls() });
        stages[format!("seed-{}", self.seeds)] = seed;
        self.server.apply(&self.document)
    }

    fn stored(&self) -> Result<u64> {
        let results = self.server.progress("?results=true")?.results;
        Ok(results.map_or(0, |stored| stored.pages))
    }

    fn wait_for_more_than(&self, fetched: u64) -> Result<()> {
        let began = Instant::now();
        while self.server.progress("")?.fetched <= fetched {
            if began.elapsed() > LEARNING_PATIENCE {
                return Err(late("crawl"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

fn late(what: &str) -> PeerError {
    PeerError::NotReady {
        peer: format!("hivewire, which was to {what},"),
        timeout_seconds: LEARNING_PATIENCE.as_secs(),
        output: String::new(),
    }
}

/// URLs from this number on, all of one host, as an event.
fn message(first: u64) -> String {
    let host = format!("h{}.{DOMAIN}", first / MESSAGE_URLS % HOSTS);
    let mut text =
        format!("{{\"host\":\"{host}\",\"depth\":1,\"from\":\"http://{host}/\",\"urls\":[");
    for number in first..first + MESSAGE_URLS {
        let comma = if number > first { "," } else { "" };
        let _ = write!(
            text,
            "{comma}\"http://{host}/articles/{}/page-{number}.html\"",
            number % 97
        );
    }
    text.push_str("]}");
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_urls_differ_and_belong_to_their_host() {
        let mut all = HashSet::new();
        for first in (0..10_000).step_by(MESSAGE_URLS as usize) {
            let event: Value = serde_json::from_str(&message(first)).expect("it is JSON");
            let host = event["host"].as_str().expect("a host").to_owned();
            for url in event["urls"].as_array().expect("a list") {
                let url = url.as_str().expect("a URL");
                assert!(url.starts_with(&format!("http://{host}/")), "{url}");
                assert!(all.insert(url.to_owned()), "{url}");
            }
        }
        assert_eq!(all.len(), 10_000);
    }
}
