//! Scrapy, in a process of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Crawled;
use super::served::Served;
use crate::peers::program::output_of;
use crate::peers::{PeerError, Result};

/// It has about a hundred pages a second.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// As many as ours.
const CONNECTIONS: &str = "32";

/// Crawls the first host of a site.
pub fn crawl(site: &Served) -> Result<Crawled> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = bench.parent().unwrap_or(bench);
    let mut command = Command::new(root.join(".tools/venv/bin/python"));
    command
        .arg(bench.join("src/crawls/scrapy/spider.py"))
        .arg(&site.urls()[0])
        .arg(CONNECTIONS);
    let text = output_of("Scrapy", command, PATIENCE)?;
    Crawled::read(&text).ok_or_else(|| PeerError::UnexpectedAnswer {
        peer: "Scrapy".to_owned(),
        answer: text,
    })
}
