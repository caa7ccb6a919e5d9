//! Crawls one site with the spider crate and prints how many pages it had, the seconds it took and the CPU seconds
//! it used.

use std::time::Instant;

use spider::tokio;
use spider::website::Website;

const TICKS_PER_SECOND: f64 = 100.0;

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).expect("the first page of a site");
    let mut website = Website::new(&url);
    website.with_respect_robots_txt(true).with_delay(0);
    let mut pages = website.subscribe(0);
    let counting = tokio::spawn(async move {
        let mut count = 0_u64;
        while let Ok(page) = pages.recv().await {
            count += u64::from(page.status_code.is_success());
        }
        count
    });
    let start = Instant::now();
    website.crawl().await;
    let seconds = start.elapsed().as_secs_f64();
    website.unsubscribe();
    let count = counting.await.expect("counting does not panic");
    println!("{count} {seconds} {}", processor_seconds());
}

/// What this process has used so far, all threads together.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it is there on Linux");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let used = after_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = used.filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}
