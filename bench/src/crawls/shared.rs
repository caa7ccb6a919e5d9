//! A crawl that one node has, or two share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Crawled;
use super::ours::{Server, all_stored};
use super::served::Served;
use crate::nodes::Result;
use crate::nodes::cluster::Cluster;
use crate::peers::PeerError;

/// How many connections each node has.
const CONNECTIONS: &str = "32";
const NAMES: [&str; 2] = ["a", "b"];

/// How it went.
#[derive(Debug)]
pub struct Shared {
    /// All nodes together.
    pub crawled: Crawled,
    /// How many pages each node had.
    pub by_node: BTreeMap<String, u64>,
}

impl Shared {
    /// How many hundredths of all pages lie between the node with most and the one with least.
    pub fn difference(&self) -> f64 {
        let all: u64 = self.by_node.values().sum();
        let most = self.by_node.values().max().copied().unwrap_or_default();
        let least = self.by_node.values().min().copied().unwrap_or_default();
        100.0 * (most - least) as f64 / all.max(1) as f64
    }
}

/// Crawls all hosts of a site with so many nodes, one or two, and a broker in a process of its own.
pub fn crawl(site: &Served, nodes: usize) -> Result<Shared> {
    let cluster = Cluster::start(&NAMES[..nodes])?;
    let server = Server::of_node(&cluster.nodes[0]);
    // Nodes that have just joined listen for a while before they take their share.
    server.apply(&json!({ "flow": "joined", "stages": {
        "seen": { "plugin": "seen-urls", "delivery": "state-once", "key": "json:/host" },
    }}))?;
    cluster.wait_until_shared("joined/seen", nodes)?;
    let mut by_node = BTreeMap::new();
    let crawled = site.crawled_by("hivewire", |site| {
        let began = Instant::now();
        server.start(&site.urls(), &["--connections", CONNECTIONS])?;
        let elapsed = server.wait_until_over(began, |_| ())?;
        by_node = server.pages_by_node()?;
        all_stored(&server, site, elapsed, Duration::ZERO)
    })?;
    if by_node.len() != nodes {
        let answer = format!("{nodes} nodes were there, and {by_node:?} crawled");
        return Err(PeerError::UnexpectedAnswer {
            peer: "hivewire".to_owned(),
            answer,
        }
        .into());
    }
    Ok(Shared { crawled, by_node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_a_share_of_all() {
        let shared = Shared {
            crawled: Crawled {
                pages: 100,
                elapsed: Duration::from_secs(1),
                processor: Duration::ZERO,
            },
            by_node: BTreeMap::from([("a".to_owned(), 53), ("b".to_owned(), 47)]),
        };
        assert_eq!(shared.difference(), 6.0);
    }
}
