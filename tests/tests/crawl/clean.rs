//! A site without traps.

use anyhow::{Context, Result};
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::site::{Site, graph};

use crate::{FLOW, ONE_AT_A_TIME};

#[test]
fn every_page_is_fetched_once_and_stored_and_nothing_that_is_closed() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(150).hosts(2).start()?;
    let hive = Hive::start()?;
    let (first, second) = (site.url("/"), site.hosts()[1].clone());
    let arguments = [&["crawl", &first, "--name", FLOW], &LOCAL[..]].concat();
    let arguments = [
        &arguments[..],
        &["--domain", &site.hosts()[0], "--domain", &second],
    ]
    .concat();
    let said = crawl::run_json(&hive, &arguments)?;
    let wanted = site.clean_pages();

    assert_eq!(site.missing(), Vec::<String>::new());
    assert_eq!(site.repeated(), Vec::<String>::new());
    let closed = site.log().times_below(graph::CLOSED) - site.log().times(graph::OPENED);
    assert_eq!(closed, 0, "what robots.txt closes was asked for");
    for host in site.hosts() {
        let asked = site.log().visits();
        let robots = asked
            .iter()
            .filter(|visit| visit.host == *host && !visit.is_page());
        assert_eq!(robots.count(), 1, "robots.txt of {host}");
    }

    let summary = &said.last().context("a summary")?["summary"];
    assert_eq!(summary["results"]["pages"], wanted.len(), "{summary}");
    assert_eq!(
        summary["results"]["statuses"]["200"],
        wanted.len(),
        "{summary}"
    );
    assert_eq!(summary["failed"], 0, "{summary}");
    let stored = crawl::pages(&hive, FLOW)?;
    assert_eq!(stored.len(), wanted.len());
    for page in &wanted {
        let row = stored
            .get(&format!("http://{page}"))
            .context(page.clone())?;
        assert_eq!(row["status"], 200, "{row}");
    }
    let page = &stored[&site.url("/page/17")];
    assert_eq!(page["title"], format!("Page 17 of {}", site.hosts()[0]));

    let closed = site.url(&format!("{}0", graph::CLOSED));
    let linked = closed_link(&site, &hive)?.unwrap_or(closed);
    let (rule, reason) = crawl::refusal(&hive, FLOW, &linked)?;
    assert_eq!(rule, "robots", "{reason}");
    assert!(reason.contains(graph::CLOSED), "{reason}");
    let fetched = crawl::why(&hive, FLOW, &site.url("/page/17"))?;
    assert_eq!(fetched["fate"], "fetched", "{fetched}");
    let unknown = crawl::why(&hive, FLOW, &site.url("/page/100000"))?;
    assert_eq!(unknown["fate"], "unknown", "{unknown}");
    Ok(())
}

/// One of the pages behind a link that robots.txt closes.
fn closed_link(site: &Site, hive: &Hive) -> Result<Option<String>> {
    for number in 0..150 {
        let url = site.url(&format!("{}{number}", graph::CLOSED));
        if crawl::why(hive, FLOW, &url)?["fate"] == "refused" {
            return Ok(Some(url));
        }
    }
    Ok(None)
}

#[test]
fn a_crawl_that_finds_nothing_fails_and_one_with_a_budget_keeps_to_it() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(100).start()?;
    let hive = Hive::start()?;
    let url = site.url("/");
    let few = [
        &["crawl", &url, "--name", FLOW, "--pages", "20"],
        &LOCAL[..],
    ]
    .concat();
    crawl::run_json(&hive, &few)?;
    let fetched = site.log().pages();
    assert!((20..=20).contains(&fetched), "{fetched} pages");
    // The same command goes on with the rest, and asks for nothing again.
    let all = [&["crawl", &url, "--name", FLOW], &LOCAL[..]].concat();
    crawl::run_json(&hive, &all)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    assert_eq!(site.repeated(), Vec::<String>::new());

    let gone = site.url("/page/100000");
    let nothing = [
        &["crawl", &gone, "--name", "crawl-nothing", "--depth", "1"],
        &LOCAL[..],
    ]
    .concat();
    let output = crawl::run(&hive, &nothing)?;
    assert!(output.status.success(), "an answer is an answer, also 404");
    drop(site);
    let nobody = [&["crawl", &url, "--name", "crawl-nobody"], &LOCAL[..]].concat();
    let output = crawl::run(&hive, &nobody)?;
    assert_eq!(output.status.code(), Some(1), "nobody answers");
    Ok(())
}
