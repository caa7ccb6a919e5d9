//! Nodes that share a crawl, and die while they do.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use hivewire_tests::crawl;
use hivewire_tests::hive::Hive;
use hivewire_tests::nodes::node;
use hivewire_tests::poll::wait_until;
use hivewire_tests::site::{Site, Visit};

use crate::politeness::rude;
use crate::{FLOW, ONE_AT_A_TIME, OVER_WITHIN};

const NAMES: [&str; 3] = ["a", "b", "c"];
const DELAY: Duration = Duration::from_millis(333);
const SETTLES_WITHIN: Duration = Duration::from_millis(1_500);

#[test]
fn nodes_that_die_lose_no_page_and_hurry_no_host() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(45).hosts(24).start()?;
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(node(name, &bus).start()?);
    }
    let url = site.url("/");
    let mut arguments = vec![
        "crawl",
        "--detach",
        &url,
        "--name",
        FLOW,
        "--allow-private",
        "--rate",
        "3/s",
    ];
    for host in site.hosts() {
        arguments.extend(["--domain", host]);
    }
    crawl::run_json(&nodes[0], &arguments)?;
    let mut kills = Vec::new();
    for victim in [1, 2] {
        let before = site.log().pages();
        let goes_on = wait_until(Duration::from_secs(30), || {
            site.log().pages() > before + 150
        });
        ensure!(goes_on, "before {}: {}", NAMES[victim], nodes[0].log());
        nodes[victim].kill9();
        kills.push(site.log().now());
        let before = site.log().pages();
        let goes_on = wait_until(Duration::from_secs(30), || {
            site.log().pages() > before + 100
        });
        ensure!(goes_on, "after {}: {}", NAMES[victim], nodes[0].log());
        nodes[victim].start_again()?;
    }
    crawl::wait_until_over(&nodes[0], FLOW, OVER_WITHIN)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    let again = crawl::repeated_without_need(site.log(), &kills, SETTLES_WITHIN);
    // A node that gets no time for seconds is taken for dead, and what it had under way comes again: of each host the one page that
    // was asked for last.
    let visits = site.log().visits();
    let needless: Vec<&(Visit, Visit)> = again
        .iter()
        .filter(|(before, visit)| {
            visits.iter().any(|other| {
                other.is_page()
                    && (&other.host, other.path == before.path) == (&before.host, false)
                    && before.started < other.started
                    && other.started < visit.started
            })
        })
        .collect();
    assert!(needless.is_empty(), "for nothing: {needless:#?}");
    assert_eq!(rude(site.log(), DELAY), Vec::<String>::new());
    let stored = crawl::pages(&nodes[0], FLOW)?;
    let mut by_node = BTreeMap::new();
    for page in stored.values() {
        *by_node.entry(page["node"].to_string()).or_insert(0) += 1;
    }
    assert_eq!(by_node.len(), NAMES.len(), "{by_node:?}");
    let missing = site.clean_pages();
    let missing = missing
        .iter()
        .filter(|page| !stored.contains_key(&format!("http://{page}")));
    assert_eq!(missing.count(), 0, "fetched, but not stored");
    Ok(())
}
