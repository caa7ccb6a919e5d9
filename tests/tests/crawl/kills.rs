//! A node that is killed while it crawls goes on by itself, has every page, and asks again only for what was under way.

use std::time::Duration;

use anyhow::{Result, ensure};
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::site::Site;
use hivewire_tests::soak;
use serde_json::{Value, json};

use crate::{FLOW, ONE_AT_A_TIME, OVER_WITHIN};

const KILLS: u64 = 5;
const PAGES: usize = 900;
/// So that a crawl lasts longer than it takes to kill it.
const ANSWER_DELAY: Duration = Duration::from_millis(15);
/// How long a page may take from its last byte until it is stored and its links are in a queue.
const SETTLES_WITHIN: Duration = Duration::from_millis(1_500);

struct Killed {
    site: Site,
    hive: Hive,
    /// When, as the log of the site has it.
    kills: Vec<Duration>,
}

/// Crawls a site as a document says and kills the node again and again.
fn kill_while_crawling(kills: u64, change: impl Fn(&mut Value)) -> Result<Killed> {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let site = Site::options()
        .pages(PAGES)
        .answer_delay(ANSWER_DELAY)
        .seed(seed)
        .start()?;
    let mut hive = Hive::start()?;
    let url = site.url("/");
    let arguments = [
        &[url.as_str(), "--name", FLOW, "--connections", "8"],
        &LOCAL[..],
    ]
    .concat();
    let mut document = crawl::document(&hive, &arguments)?;
    change(&mut document);
    crawl::apply(&hive, &document)?;
    let mut killed = Vec::new();
    for kill in 1..=kills {
        let before = site.log().pages();
        let more = rng.usize(20..100);
        let goes_on = wait_until(Duration::from_secs(20), || {
            site.log().pages() >= before + more || site.missing().is_empty()
        });
        ensure!(
            goes_on,
            "no page was fetched before kill {kill}: {}",
            hive.log()
        );
        hive.kill9();
        killed.push(site.log().now());
        hive.start_again()?;
    }
    Ok(Killed {
        site,
        hive,
        kills: killed,
    })
}

#[test]
fn every_page_is_there_after_many_kills() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let killed = kill_while_crawling(soak::times(KILLS), |_| ())?;
    crawl::wait_until_over(&killed.hive, FLOW, OVER_WITHIN)?;
    let Killed { site, hive, kills } = killed;
    assert_eq!(site.missing(), Vec::<String>::new());
    let again = crawl::repeated_without_need(site.log(), &kills, SETTLES_WITHIN);
    assert!(again.is_empty(), "{} for nothing: {again:#?}", again.len());
    let stored = crawl::pages(&hive, FLOW)?;
    let missing: Vec<String> = site
        .clean_pages()
        .into_iter()
        .filter(|page| !stored.contains_key(&format!("http://{page}")))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "fetched, but not stored");
    eprintln!("{} pages were asked for again", site.repeated().len());
    Ok(())
}

/// The control: a frontier that keeps nothing.
#[test]
fn control_a_frontier_in_memory_loses_pages() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let killed = kill_while_crawling(1, |document| {
        for stage in ["seen", "frontier"] {
            document["stages"][stage]["delivery"] = json!("at-most-once");
        }
    })?;
    let log = killed.site.log();
    // Nothing more comes.
    let mut pages = log.pages();
    while wait_until(Duration::from_secs(5), || log.pages() > pages) {
        pages = log.pages();
    }
    assert!(!killed.site.missing().is_empty(), "nothing is missing");
    Ok(())
}
