//! Whatever goes wrong on the web, all at once, beside pages that are as they should be.

use std::time::Duration;

use anyhow::Result;
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::site::traps::{JAPANESE, LATIN};
use hivewire_tests::site::{Site, Untrusted};
use serde_json::{Value, json};

use crate::{FLOW, ONE_AT_A_TIME};

const DEPTH_MAX: u32 = 12;
const OVER_WITHIN: Duration = Duration::from_secs(120);
/// Little enough to make a difference, and more than any clean page here has.
const BODY_BYTES_MAX: u32 = 4 << 20;

/// Traps with the rule that stops them.
const STOPPED: &[(&str, &str)] = &[
    ("/traps/redirect-loop/there", "redirect"),
    ("/traps/redirect-loop/itself", "redirect"),
    ("/traps/redirect-chain/3", "redirect"),
    ("/traps/redirect-chain/40", "redirect"),
    ("/traps/redirect-chain/29", "redirects"),
    ("/traps/redirect-endless/12", "redirects"),
    ("/traps/redirect-inwards", "redirect"),
    ("/traps/endless-body", "too-large"),
    ("/traps/bomb", "bomb"),
    ("/traps/huge", "too-large"),
    ("/traps/drip", "timeout"),
    ("/traps/slow-head", "timeout"),
    ("/traps/silent", "timeout"),
    ("/traps/cut", "broken-body"),
    ("/traps/chunks", "broken-body"),
    ("/traps/binary", "content"),
    ("/traps/broken", "status"),
];

/// Traps that are no reason not to have the page.
const FETCHED: &[&str] = &[
    "/traps/redirect-chain/0",
    "/traps/closing/1",
    "/traps/closing/8",
    "/traps/charset/latin-1",
    "/traps/charset/wrong",
    "/traps/charset/utf-16",
    "/traps/charset/shift-jis",
    "/traps/charset/unknown",
    "/traps/busy",
    "/traps/away",
    "/traps/base/below/right",
    "/traps/near/1",
];

/// Limits that are reached sooner than those that people want.
fn impatient(document: &mut Value) {
    for stage in ["robots", "download"] {
        let fetch = &mut document["stages"][stage]["parameters"]["fetch"];
        fetch["whole_timeout_ms"] = json!(3_000);
        fetch["first_byte_timeout_ms"] = json!(2_000);
        fetch["body_bytes_max"] = json!(BODY_BYTES_MAX);
    }
    let frontier = &mut document["stages"]["frontier"]["parameters"];
    frontier["tries_max"] = json!(5);
    frontier["retry_after"] = json!("300ms");
    frontier["pace"]["back_off_min"] = json!("100ms");
    frontier["pace"]["back_off_max"] = json!("1s");
    frontier["pace"]["delay_min"] = json!("10ms");
    frontier["pace"]["delay_max"] = json!("200ms");
}

#[test]
fn every_trap_is_told_and_everything_else_is_there() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options()
        .pages(60)
        .hosts(2)
        .traps()
        .close_every(7)
        .start()?;
    let untrusted = Untrusted::start()?;
    let hive = Hive::start()?;
    let (url, untrusted_url) = (site.url("/"), untrusted.url());
    let untrusted_host = untrusted.host();
    let depth = DEPTH_MAX.to_string();
    let mut arguments = [
        &[&url, &untrusted_url, "--name", FLOW, "--depth", &depth],
        &LOCAL[..],
    ]
    .concat();
    for host in site.hosts().iter().chain([&untrusted_host]) {
        arguments.extend(["--domain", host]);
    }
    let mut document = crawl::document(&hive, &arguments)?;
    impatient(&mut document);
    crawl::apply(&hive, &document)?;
    let over = crawl::wait_until_over(&hive, FLOW, OVER_WITHIN)?;
    eprintln!("{}", over["results"]);

    assert_eq!(site.missing(), Vec::<String>::new());
    let mut wrong = Vec::new();
    for (path, rule) in STOPPED {
        let why = crawl::why(&hive, FLOW, &site.url(path))?;
        if why["fate"] != "refused" || why["refusal"]["rule"] != *rule {
            wrong.push(format!("{path} should be stopped by {rule}: {why}"));
        }
    }
    for path in FETCHED {
        let why = crawl::why(&hive, FLOW, &site.url(path))?;
        if why["fate"] != "fetched" {
            wrong.push(format!("{path} should be there: {why}"));
        }
    }
    let why = crawl::why(&hive, FLOW, &untrusted_url)?;
    if why["refusal"]["rule"] != "tls" || untrusted.shown() == 0 {
        wrong.push(format!("nobody vouches for {untrusted_url}: {why}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    endless_ones_are_bounded(&site, &hive)?;
    documents_are_obeyed(&site);
    texts_are_readable(&site, &hive)?;
    memory_is_bounded(&hive)
}

fn endless_ones_are_bounded(site: &Site, hive: &Hive) -> Result<()> {
    let log = site.log();
    for (trap, most) in [
        ("/traps/calendar", 150),
        ("/traps/deep", DEPTH_MAX as usize),
        ("/traps/long", DEPTH_MAX as usize),
        // Five pages, once the ids are gone.
        ("/traps/session", 5),
        // Not one request more than a client makes who gives up.
        ("/traps/redirect-loop", 25),
        ("/traps/redirect-chain", 4 + 11),
        ("/traps/redirect-endless", 11),
    ] {
        let times = log.times_below(trap);
        assert!(
            (1..=most * site.hosts().len()).contains(&times),
            "{trap} was asked for {times} times"
        );
    }
    let is_too_deep = |month: u32| {
        let day = site.url(&format!("/traps/calendar/2027/{month}/1"));
        crawl::refusal(hive, FLOW, &day).is_ok_and(|(rule, _)| rule == "depth")
    };
    assert!((1..=12).any(is_too_deep), "no day was too far away");
    Ok(())
}

fn documents_are_obeyed(site: &Site) {
    let log = site.log();
    for never in [
        "/traps/nofollow/link",
        "/traps/meta/behind-nofollow",
        "/traps/meta/behind-header",
        "/traps/base/right",
    ] {
        assert_eq!(log.times(never), 0, "{never}");
    }
    for once in ["/traps/meta/behind-noindex", "/traps/base/below/right"] {
        assert_eq!(log.times(once), site.hosts().len(), "{once}");
    }
}

fn texts_are_readable(site: &Site, hive: &Hive) -> Result<()> {
    let stored = crawl::pages(hive, FLOW)?;
    for (path, text) in [
        ("/traps/charset/latin-1", LATIN),
        // It says that it is UTF-8 and is not, so it is read as browsers read it.
        (
            "/traps/charset/wrong",
            "K\u{fffd}se f\u{fffd}r \u{fffd}berm\u{fffd}tige",
        ),
        ("/traps/charset/utf-16", LATIN),
        ("/traps/charset/shift-jis", JAPANESE),
        ("/traps/charset/unknown", LATIN),
    ] {
        let page = &stored[&site.url(path)];
        assert_eq!(page["title"], text, "{page}");
    }
    Ok(())
}

/// Neither the bomb nor the endless body was ever in memory.
fn memory_is_bounded(hive: &Hive) -> Result<()> {
    let peak = hive.memory_bytes_peak()?;
    eprintln!("{} MiB at most", peak >> 20);
    assert!(peak < 300 << 20, "{} MiB", peak >> 20);
    Ok(())
}
