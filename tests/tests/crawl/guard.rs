//! Addresses where nobody from outside belongs.

use anyhow::Result;
use hivewire_tests::crawl;
use hivewire_tests::hive::Hive;
use hivewire_tests::site::Site;
use serde_json::json;

use crate::{FLOW, ONE_AT_A_TIME, OVER_WITHIN};

#[test]
fn nothing_on_this_machine_is_asked_for_unless_that_is_allowed() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(10).start()?;
    let hive = Hive::start()?;
    let url = site.url("/");
    let arguments = ["crawl", &url, "--name", FLOW, "--rate", "unlimited"];
    let output = crawl::run(&hive, &arguments)?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(site.log().visits(), []);
    let (rule, reason) = crawl::refusal(&hive, FLOW, &url)?;
    assert_eq!(rule, "private", "{reason}");
    // The control: it is there for those who are allowed.
    let allowed = [
        "crawl",
        &url,
        "--name",
        "crawl-allowed",
        "--rate",
        "unlimited",
        "--allow-private",
    ];
    crawl::run_json(&hive, &allowed)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    Ok(())
}

/// One address is allowed, and a page there links and redirects to many others, in disguise and not.
#[test]
fn pages_do_not_lead_inside() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    // The second host is where links in disguise lead to.
    let site = Site::options().pages(2).hosts(2).traps().start()?;
    let hive = Hive::start()?;
    let url = site.url("/traps/private/");
    let mut document = crawl::document(&hive, &[&url, "--name", FLOW, "--rate", "unlimited"])?;
    for stage in ["robots", "download"] {
        document["stages"][stage]["parameters"]["fetch"] =
            json!({ "private_allowed": ["127.0.0.1"] });
    }
    document["stages"]["seed"]["parameters"]["urls"] = json!([
        url,
        site.url("/traps/redirect-inwards"),
        site.url("/traps/redirect-away")
    ]);
    document["stages"]["domains"]["parameters"]["domains"] = json!([]);
    // A name that nobody knows may be one that nobody can look up for the moment.
    document["stages"]["robots"]["parameters"]["again_after"] = json!("100ms");
    let frontier = &mut document["stages"]["frontier"]["parameters"];
    frontier["retry_after"] = json!("100ms");
    frontier["pace"]["back_off_min"] = json!("100ms");
    frontier["pace"]["back_off_max"] = json!("200ms");
    crawl::apply(&hive, &document)?;
    crawl::wait_until_over(&hive, FLOW, OVER_WITHIN)?;
    for visit in site.log().visits() {
        assert!(
            visit.host.starts_with("127.0.0.1:") || visit.host.starts_with("localhost:"),
            "{visit:?}"
        );
    }
    let port = site.hosts()[0].rsplit(':').next().unwrap_or_default();
    for inside in [
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        format!("http://127.0.0.2:{port}/traps/private/loopback"),
        format!("http://[::1]:{port}/traps/private/six"),
        format!("http://0.0.0.0:{port}/traps/private/zero"),
        format!("http://{}/page/1", site.hosts()[1]),
    ] {
        let (rule, reason) = crawl::refusal(&hive, FLOW, &inside)?;
        assert_eq!(rule, "private", "{inside}: {reason}");
    }
    Ok(())
}
