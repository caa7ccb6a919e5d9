//! What is done with each page, in this process and on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crawl::address::{AddressBuffer, Normaliser, NormaliserRules};
use crawl::links::{Found, Rules, extract};
use url::Url;

use super::site::page;
use crate::workers::{Result, WorkerError, refused};

/// Pages that are looked at in turn.
const PAGES: u64 = 1_000;

/// Links as they stand on pages: relative ones, whole ones, and such as have to be written in another way.
const LINKS: &[&str] = &[
    "/",
    "/about",
    "/news/2026/05/17/a-rather-long-title-of-an-article-as-many-have-them.html",
    "article-42.html",
    "../products/shoes/red-running-shoe-44?size=44&colour=red",
    "?page=3&sort=price",
    "https://www.example.com/shop/category/books/page/7",
    "https://news.example.org/world/europe/story-123456789.html#comments",
    "http://other.example.co.uk/path/to/page?utm_source=feed&utm_medium=rss&id=7",
    "//static.example.com/main.css",
    "/search?q=hello%20world&lang=en",
    "/wiki/Caf%c3%a9_(place)",
    "/de/bücher",
    "login;jsessionid=0A1B2C3D?next=%2Fhome",
    "https://Example.com:443/Mixed/Case",
];

/// How links were taken from pages.
#[derive(Debug, Clone, Copy)]
pub struct Extracted {
    /// Bytes of all pages.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Takes all links from so many pages of a site.
pub fn links(count: u32) -> Result<Extracted> {
    let pages: Vec<String> = (0..PAGES).map(|number| page(number, PAGES)).collect();
    let expected: Vec<usize> = pages
        .iter()
        .map(|page| page.matches("<a ").count())
        .collect();
    let (rules, mut found) = (Rules::default(), Found::default());
    let (mut bytes, mut wrong) = (0, 0);
    let began = Instant::now();
    for number in (0..pages.len()).cycle().take(count as usize) {
        extract(pages[number].as_bytes(), &rules, &mut found);
        let anchors = found
            .links()
            .filter(|link| !black_box(link.address).is_empty())
            .count();
        bytes += pages[number].len() as u64;
        wrong += u32::from(anchors < expected[number]);
    }
    let elapsed = began.elapsed();
    match wrong {
        0 => Ok(Extracted { bytes, elapsed }),
        wrong => Err(WorkerError::Wrong {
            wrong,
            messages: count,
        }),
    }
}

/// Writes so many links as addresses and takes their fingerprints.
pub fn addresses(count: u32) -> Result<Duration> {
    let normaliser =
        Normaliser::new(NormaliserRules::default()).map_err(refused("make a normaliser"))?;
    let base = Url::parse("https://www.example.com/shop/list/today.html?page=2");
    let base = base.map_err(refused("read a URL"))?;
    let mut buffer = AddressBuffer::default();
    let mut wrong = 0;
    let began = Instant::now();
    for link in LINKS.iter().cycle().take(count as usize) {
        match normaliser.normalise_into(Some(&base), black_box(link), &mut buffer) {
            Ok(address) => drop(black_box(address.fingerprint())),
            Err(_) => wrong += 1,
        }
    }
    let elapsed = began.elapsed();
    match wrong {
        0 => Ok(elapsed),
        wrong => Err(WorkerError::Wrong {
            wrong,
            messages: count,
        }),
    }
}
