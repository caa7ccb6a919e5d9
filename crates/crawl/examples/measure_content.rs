//! How fast links and text are taken from pages of usual size, on one core.
//!
//! `cargo run --release -p hivewire-crawl --example measure_content`

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crawl::links::{Found, Rules, extract};
use crawl::{charset, simhash, text};
use lol_html::{HtmlRewriter, Settings, element};

/// A page of about these many bytes with about 25 links.
fn page(number: usize, bytes: usize) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page {number}</title>\n\
         <meta name=\"description\" content=\"A page with words &amp; links\">\n\
         <link rel=\"canonical\" href=\"https://www.example.com/pages/{number}\">\n\
         <link rel=\"stylesheet\" href=\"/assets/site-4f2a.css\">\n\
         <script>window.settings = {{\"a\": 1, \"b\": \"<a href='no'>\"}}; for (var i = 0; i < 10; i++) {{ load(i); }}</script>\n\
         </head>\n<body class=\"page page--article\">\n<!-- the head of the page -->\n<nav class=\"menu\"><ul>\n"
    );
    for item in 0..8 {
        page += &format!(
            "  <li class=\"menu__item\"><a class=\"menu__link\" href=\"/section-{item}/\">Section {item}</a></li>\n"
        );
    }
    page += "</ul></nav>\n<main><article>\n<h1>What the page is about</h1>\n";
    let words = "Workers pull from their queue as they ask, so that nothing is lost when one of them is replaced, and what waits is \
        bounded &mdash; also when <em>many</em> come at once. ";
    let mut link = 0;
    while page.len() < bytes - 300 {
        page += &format!(
            "<p id=\"p{link}\" class=\"text\">{words}{words}<a href=\"/articles/{number}/part-{link}?from=page&amp;at={link}\" title=\"More\">more \
             of it</a>. {words}</p>\n<img src=\"/images/{link}.jpg\" alt=\"A picture\" width=\"320\" height=\"200\" loading=\"lazy\">\n"
        );
        link += 1;
    }
    page += "</article></main>\n<footer><p>Some rights <a rel=\"nofollow\" href=\"https://other.example/rights\">reserved</a></p></footer>\n</body>\n</html>\n";
    page
}

/// Megabytes in a second, of the best of several rounds.
fn measure(name: &str, pages: &[String], mut work: impl FnMut(&str) -> usize) {
    let bytes: usize = pages.iter().map(String::len).sum();
    let (mut best, mut found) = (Duration::MAX, 0);
    for _ in 0..15 {
        let started = Instant::now();
        found = pages.iter().map(|page| work(page)).sum();
        best = best.min(started.elapsed());
    }
    let rate = bytes as f64 / best.as_secs_f64() / 1e6;
    let each = best.as_secs_f64() * 1e6 / pages.len() as f64;
    println!(
        "{name:<34} {rate:>8.0} MB/s {each:>8.1} µs a page {:>8.1} found a page",
        found as f64 / pages.len() as f64
    );
}

fn with_lol_html(page: &str) -> usize {
    let count = Cell::new(0);
    let selector = "a[href], area[href], link[href], iframe[src]";
    let settings = Settings::new().append_element_content_handler(element!(selector, |element| {
        let address = element
            .get_attribute("href")
            .or_else(|| element.get_attribute("src"));
        count.set(count.get() + usize::from(black_box(address).is_some()));
        Ok(())
    }));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| ());
    let written = rewriter
        .write(page.as_bytes())
        .and_then(|()| rewriter.end());
    if let Err(error) = written {
        println!("lol_html: {error}");
    }
    count.get()
}

fn main() {
    for kilobytes in [7, 12, 100] {
        let pages: Vec<_> = (0..300)
            .map(|number| page(number, kilobytes * 1_000))
            .collect();
        println!("{kilobytes} KB");
        let (rules, mut found) = (Rules::default(), Found::default());
        measure("  links", &pages, |page| {
            extract(page.as_bytes(), &rules, &mut found);
            black_box(&found).links().len()
        });
        measure("  links with lol_html", &pages, with_lol_html);
        let rules = text::Rules::default();
        measure("  text", &pages, |page| {
            text::read(page.as_bytes(), &rules).text.len()
        });
        let texts: Vec<_> = pages
            .iter()
            .map(|page| text::read(page.as_bytes(), &rules).text)
            .collect();
        measure("  simhash of the text", &texts, |text| {
            usize::from(black_box(simhash::of_text(text)) != 0)
        });
        measure("  decoding", &pages, |page| {
            charset::decode(page.as_bytes(), None, None).text.len()
        });
    }
}
