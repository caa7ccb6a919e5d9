//! The examples as they are, with another site in place of example.com.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hivewire_tests::crawl;
use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::site::Site;
use serde_json::Value;

use crate::archive::read;
use crate::{ONE_AT_A_TIME, OVER_WITHIN};

/// Runs an example that begins at this page.
fn run(hive: &Hive, example: &str, site: &Site, path: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join(format!("../examples/crawl/{example}/flow.toml"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let text = text
        .replace("https://example.com/", &site.url(path))
        .replace("example.com", &site.hosts()[0])
        .replace("allow_private = false", "allow_private = true");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("flow.toml");
    fs::write(&file, text)?;
    let file = file.to_str().context("a path in UTF-8")?;
    crawl::run_json(hive, &["run", file]).map(drop)
}

#[test]
fn the_site_is_crawled_and_stored() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(12).sitemap().start()?;
    let hive = Hive::start()?;
    run(&hive, "site", &site, "/")?;
    crawl::wait_until_over(&hive, "site", OVER_WITHIN)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    let stored = crawl::pages(&hive, "site")?;
    for page in site.clean_pages() {
        assert!(stored.contains_key(&format!("http://{page}")), "{page}");
    }
    Ok(())
}

#[test]
fn the_archive_has_all_of_it() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(12).start()?;
    let mut hive = Hive::start()?;
    run(&hive, "archive", &site, "/")?;
    crawl::wait_until_over(&hive, "archive", OVER_WITHIN)?;
    hive.terminate()?;
    let records = read(&hive.data().join("files/archives"))?;
    let urls: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| record["url"].as_str())
        .collect();
    for page in site.clean_pages() {
        assert!(urls.contains(format!("http://{page}").as_str()), "{page}");
    }
    Ok(())
}

#[test]
fn broken_links_are_listed_with_the_page_that_has_them() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(4).traps().start()?;
    let hive = Hive::start()?;
    run(&hive, "broken-links", &site, "/traps/gone/")?;
    let table = hive.data().join("files/broken-links.csv");
    let mut text = String::new();
    let from = site.url("/traps/gone/");
    let wanted = [("/traps/gone/404", "404"), ("/traps/gone/410", "410")];
    let is_written = wait_until(OVER_WITHIN, || {
        text = fs::read_to_string(&table).unwrap_or_default();
        wanted.iter().all(|(path, status)| {
            let mut lines = text.lines();
            lines.any(|line| {
                line.contains(&site.url(path)) && line.contains(&from) && line.contains(status)
            })
        })
    });
    ensure!(is_written, "{text}");
    assert!(!text.contains("/page/1"), "{text}");
    Ok(())
}

#[test]
fn prices_are_written_down() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(10).start()?;
    let hive = Hive::start()?;
    run(&hive, "prices", &site, "/")?;
    let file = hive.data().join("files/prices.jsonl");
    let mut text = String::new();
    let is_written = wait_until(OVER_WITHIN, || {
        text = fs::read_to_string(&file).unwrap_or_default();
        text.lines().count() >= 9
    });
    ensure!(is_written, "{text}; {}", hive.log());
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let number = record["name"]
            .as_str()
            .and_then(|name| name.strip_prefix("Page "));
        let number: f64 = number.context("a name")?.parse()?;
        assert_eq!(record["price"], number + 0.5, "{record}");
    }
    Ok(())
}
