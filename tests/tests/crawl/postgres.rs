//! Pages in PostgreSQL instead of files.

use anyhow::Result;
use hivewire_bench::peers::postgres::Postgres;
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::site::Site;
use serde_json::Value;

use crate::{FLOW, ONE_AT_A_TIME};

#[test]
fn pages_are_stored_in_postgresql_and_found_there() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(60).start()?;
    let postgres = Postgres::start()?;
    let hive = Hive::start()?;
    let (url, store) = (site.url("/"), postgres.uri());
    let arguments = [
        &["crawl", &url, "--name", FLOW, "--search", "--store", &store],
        &LOCAL[..],
    ]
    .concat();
    crawl::run_json(&hive, &arguments)?;
    assert_eq!(site.missing(), Vec::<String>::new());
    let stored = crawl::pages(&hive, FLOW)?;
    let missing = site.clean_pages();
    let missing = missing
        .iter()
        .filter(|page| !stored.contains_key(&format!("http://{page}")));
    assert_eq!(missing.count(), 0, "fetched, but not stored");
    let text = stored[&site.url("/page/7")]["title"].as_str();
    assert_eq!(text, Some(&*format!("Page 7 of {}", site.hosts()[0])));
    // A price that one page has.
    let found = crawl::run_json(&hive, &["crawl", "search", "--name", FLOW, "\"7.50\""])?;
    let found = Value::from(found).to_string();
    assert!(found.contains(&site.url("/page/7")), "{found}");
    // Nothing is kept in files.
    assert!(!hive.data().join("files/crawls").exists());
    Ok(())
}
