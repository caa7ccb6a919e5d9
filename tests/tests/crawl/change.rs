//! A flow that changes while it crawls.

use std::time::Duration;

use anyhow::{Result, ensure};
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::site::{Site, Visit};
use serde_json::json;

use crate::{FLOW, ONE_AT_A_TIME, OVER_WITHIN};

const EFFECT_WITHIN: Duration = Duration::from_secs(1);

#[test]
fn a_tighter_filter_holds_for_everything_that_still_waits() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options()
        .pages(400)
        .hosts(3)
        .answer_delay(Duration::from_millis(20))
        .start()?;
    let hive = Hive::start()?;
    let url = site.url("/");
    let mut arguments = [
        &[url.as_str(), "--name", FLOW, "--connections", "8"],
        &LOCAL[..],
    ]
    .concat();
    for host in site.hosts() {
        arguments.extend(["--domain", host]);
    }
    let mut document = crawl::document(&hive, &arguments)?;
    crawl::apply(&hive, &document)?;
    let begun = wait_until(Duration::from_secs(20), || site.log().pages() > 150);
    ensure!(begun, "{}", hive.log());

    let kept = &site.hosts()[0];
    document["stages"]["domains"]["parameters"]["domains"] = json!([kept]);
    crawl::apply(&hive, &document)?;
    let applied = site.log().now();
    crawl::wait_until_over(&hive, FLOW, OVER_WITHIN)?;

    let is_outside = |visit: &&Visit| visit.host != *kept;
    let visits = site.log().visits();
    let late = visits
        .iter()
        .filter(is_outside)
        .filter(|visit| visit.started > applied + EFFECT_WITHIN);
    assert_eq!(late.count(), 0, "asked for outside of the filter");
    // The control: there was more to ask for, and it was being asked for.
    let missing = site.missing();
    assert!(
        missing.iter().any(|page| !page.starts_with(kept)),
        "too late"
    );
    let before = visits.iter().filter(is_outside);
    assert!(before.count() > 20, "too early");
    // The rest goes on.
    assert!(
        !missing.iter().any(|page| page.starts_with(kept)),
        "{missing:?}"
    );
    let after = visits.iter().filter(|visit| visit.started > applied);
    assert!(after.count() > 20, "nothing was left");
    let (rule, _) = crawl::refusal(&hive, FLOW, &format!("http://{}", outside(&missing, kept)))?;
    assert_eq!(rule, "domain");
    Ok(())
}

/// A page of another host that waited when the filter became tighter: one that many link to.
fn outside<'a>(missing: &'a [String], kept: &str) -> &'a str {
    let mut others = missing.iter().filter(|page| !page.starts_with(kept));
    others.next().map_or("", String::as_str)
}
