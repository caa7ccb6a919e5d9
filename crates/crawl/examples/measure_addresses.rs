//! Measures how many addresses one core normalises in a second: `cargo run --release -p hivewire-crawl --example measure_addresses`.

use std::hint::black_box;
use std::time::Instant;

use crawl::address::{AddressBuffer, Normaliser, NormaliserRules};
use url::Url;

/// Links as they stand on a usual page.
const LINKS: &[&str] = &[
    "/",
    "/about",
    "/news/2024/05/17/a-rather-long-title-of-an-article-as-blogs-have-them.html",
    "article-42.html",
    "../products/shoes/red-running-shoe-44?size=44&colour=red",
    "./impressum",
    "?page=3&sort=price",
    "#content",
    "https://www.example.com/shop/category/books/page/7",
    "https://www.example.com/shop/item?id=12345&ref=list",
    "https://news.example.org/world/europe/story-123456789.html#comments",
    "https://cdn.example.net/assets/img/logo.png",
    "http://other.example.co.uk/path/to/page?utm_source=feed&utm_medium=rss&id=7",
    "//static.example.com/main.css",
    "/search?q=hello%20world&lang=en",
    "/wiki/Caf%C3%A9_%28place%29",
    "/~ann/notes/index.html",
    "/de/bücher",
    "login;jsessionid=0A1B2C3D?next=%2Fhome",
    "https://Example.com:443/Mixed/Case",
];

/// Short enough that some of them are not interrupted on a busy machine.
const ROUND: usize = 10_000;

fn main() {
    let normaliser =
        Normaliser::new(NormaliserRules::default()).expect("the usual rules are right");
    let base =
        Url::parse("https://www.example.com/shop/list/today.html?page=2").expect("it is a URL");
    let mut buffer = AddressBuffer::default();
    for link in LINKS {
        let rate = measure(500_000, |_| {
            let address = normaliser.normalise_into(Some(&base), link, &mut buffer);
            black_box(address.map_or(0, |address| address.fingerprint()))
        });
        println!("{rate:>12.0} a second: {link}");
    }
    let mixed = measure(5_000_000, |index| {
        let link = LINKS[index % LINKS.len()];
        let address = normaliser.normalise_into(Some(&base), link, &mut buffer);
        black_box(address.map_or(0, |address| address.fingerprint()))
    });
    println!("{mixed:>12.0} a second: all of them in turn, with fingerprint");
    let owned = measure(5_000_000, |index| {
        let address = normaliser.normalise(Some(&base), LINKS[index % LINKS.len()]);
        black_box(address.map_or(0, |address| address.fingerprint()))
    });
    println!("{owned:>12.0} a second: all of them in turn, each an address of its own");
    let by_crate = measure(3_000_000, |index| {
        let url = base.join(LINKS[index % LINKS.len()]);
        black_box(url.map_or(0, |url| url.as_str().len() as u128))
    });
    println!("{by_crate:>12.0} a second: only resolved, by the crate url");
}

/// The best of some rounds: whatever else the machine does makes a round slower, never faster.
fn measure(times: usize, mut normalise: impl FnMut(usize) -> u128) -> f64 {
    let mut best: f64 = 0.0;
    for _ in 0..times / ROUND {
        let start = Instant::now();
        for index in 0..ROUND {
            normalise(black_box(index));
        }
        best = best.max(ROUND as f64 / start.elapsed().as_secs_f64());
    }
    best
}
