//! How long hosts are left alone between two requests, by what they have seen themselves.

use std::time::Duration;

use anyhow::Result;
use hivewire_tests::crawl;
use hivewire_tests::hive::Hive;
use hivewire_tests::site::{Log, Site};

use crate::{FLOW, ONE_AT_A_TIME};

const DELAY: Duration = Duration::from_millis(250);
/// Hosts that were asked too soon or too often at a time. When a request is sent is not when it is read: a busy machine may take
/// as much as half from a delay.
pub(crate) fn rude(log: &Log, delay: Duration) -> Vec<String> {
    let told = |host: String| {
        let closest = log.closest_two_requests(&host);
        let at_once = log.most_at_once(&host);
        let is_rude = closest.is_some_and(|gap| gap < delay / 2) || at_once > 1;
        is_rude.then(|| format!("{host}: {closest:?} between two requests, {at_once} at a time"))
    };
    log.hosts().into_iter().filter_map(told).collect()
}

fn crawl_all(site: &Site, rate: &str) -> Result<()> {
    let hive = Hive::start()?;
    let url = site.url("/");
    let mut arguments = vec![
        "crawl",
        &url,
        "--name",
        FLOW,
        "--allow-private",
        "--rate",
        rate,
    ];
    for host in site.hosts() {
        arguments.extend(["--domain", host]);
    }
    crawl::run_json(&hive, &arguments)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    Ok(())
}

fn site() -> Result<Site> {
    Ok(Site::options().pages(16).hosts(6).start()?)
}

#[test]
fn each_host_is_left_alone_for_as_long_as_it_was_told() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = site()?;
    crawl_all(&site, "4/s")?;
    assert_eq!(rude(site.log(), DELAY), Vec::<String>::new());
    // Hosts do not wait for each other.
    let first = &site.log().visits()[0];
    let last = site.log().visits().last().map(|visit| visit.started);
    let one_after_another = DELAY * site.clean_pages().len() as u32;
    let took = last.unwrap_or_default() - first.started;
    assert!(took < one_after_another / 2, "it took {took:?}");
    Ok(())
}

#[test]
fn a_site_that_asks_for_more_time_gets_it() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options()
        .pages(8)
        .hosts(2)
        .crawl_delay(DELAY)
        .start()?;
    crawl_all(&site, "unlimited")?;
    assert_eq!(rude(site.log(), DELAY), Vec::<String>::new());
    Ok(())
}

#[test]
fn control_without_a_rate_hosts_are_asked_at_once() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = site()?;
    crawl_all(&site, "unlimited")?;
    assert!(!rude(site.log(), DELAY).is_empty());
    Ok(())
}
