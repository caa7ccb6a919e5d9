//! How much CPU time and disk a page takes in a store: text and body of a page of 10 KB, full-text index off unless told.
//!
//!     cargo run --release -p hivewire-crawl --example measure_store -- [pages=50000] [batch=128] [search] [page_bytes=4096]
//!         [at=FOLDER|postgres://…] [refusals=N for each page]

use std::time::Instant;

use bytes::Bytes;
use crawl::store::{PageRow, Place, Reader, RefusalRow, Settings, Store};

/// Words as often as in texts: few of them are many.
fn words(count: usize, random: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let rank = (1.0 / (random.f64() + 0.0002)) as u64;
        let length = 2 + rank % 8;
        let mut seed = fastrand::Rng::with_seed(rank);
        text.extend((0..length).map(|_| seed.lowercase()));
        text.push(' ');
    }
    text
}

fn page(number: usize, random: &mut fastrand::Rng) -> PageRow {
    let text = words(650, random);
    let mut body = String::from("<!doctype html><html><head><title>A page</title></head><body>");
    for (place, paragraph) in text.as_bytes().chunks(240).enumerate() {
        let paragraph = String::from_utf8_lossy(paragraph);
        let link = random.u32(..1_000_000);
        body.push_str(&format!(
            "<div class=\"content-block paragraph-{place}\"><p>{paragraph}</p><ul class=\"links\"><li><a href=\"/section/{link}/\
             page-{place}.html\" rel=\"bookmark\" title=\"link {link}\">more about it</a></li></ul></div>\n"
        ));
    }
    while body.len() < 10_000 {
        body.push_str("<footer class=\"site-footer\"><a href=\"/imprint\">imprint</a> all rights reserved</footer>\n");
    }
    PageRow {
        url: format!("https://host{}.example.com/section/{}/page-{number}.html", number % 50, number % 1_000),
        host: format!("host{}.example.com", number % 50),
        depth: 3,
        from: Some(format!("https://host{}.example.com/section/{}/", number % 50, number % 1_000)),
        status: 200,
        mime: Some("text/html".to_owned()),
        charset: Some("utf-8".to_owned()),
        size: body.len() as u64,
        fetched_at: 1_800_000_000_000 + number as i64,
        took_ms: 12,
        node: "node-1".to_owned(),
        title: Some(format!("Page {number} of the site")),
        language: Some("eng".to_owned()),
        description: Some("What can be read on this page, in a few words".to_owned()),
        hash: Some(format!("{:032x}", random.u128(..))),
        simhash: Some(format!("{:016x}", random.u64(..))),
        headers: Some(
            r#"{"content-type":"text/html; charset=utf-8","date":"Wed, 18 Nov 2026 11:15:24 GMT","server":"nginx","etag":"\"5f3c-abc\"","cache-control":"max-age=600","content-encoding":"gzip","vary":"accept-encoding"}"#
                .to_owned(),
        ),
        text: Some(text),
        body: Some(Bytes::from(body)),
        ..PageRow::default()
    }
}

fn refusal(number: usize) -> RefusalRow {
    RefusalRow {
        url: format!(
            "https://elsewhere{}.example/page-{number}.html",
            number % 1_000
        ),
        host: format!("elsewhere{}.example", number % 1_000),
        rule: "domain".to_owned(),
        reason: "no pattern of the domain filter fits".to_owned(),
        depth: 4,
        node: "node-1".to_owned(),
        ..RefusalRow::default()
    }
}

/// How long this thread was on a CPU.
fn cpu_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let mut found = arguments.iter().filter_map(|text| text.split_once('='));
        found
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.to_owned())
    };
    let number = |name, usual| value(name).map_or(Ok(usual), |text| text.parse::<usize>());
    let (pages, batch) = (number("pages", 50_000)?, number("batch", 128)?);
    let refusals = number("refusals", 0)?;
    let folder = tempfile::tempdir_in(".")?;
    let at = value("at").unwrap_or_else(|| folder.path().display().to_string());
    let place: Place = at.parse()?;
    if let (Some(bytes), Place::Folder(folder)) = (value("page_bytes"), &place) {
        // A file that has a page keeps the size of its pages.
        let connection = rusqlite::Connection::open(folder.join("crawl.db"))?;
        let sql = format!("PRAGMA page_size = {bytes}; PRAGMA journal_mode = WAL; VACUUM");
        connection.execute_batch(&sql)?;
    }
    let settings = Settings {
        search: arguments.iter().any(|text| text == "search"),
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut store = Store::open(&place, settings).await?;
        let mut random = fastrand::Rng::with_seed(7);
        let (mut cpu, mut wall, mut longest, mut bytes) = (0, 0, 0, 0);
        for first in (0..pages).step_by(batch) {
            let last = (first + batch).min(pages);
            let rows: Vec<PageRow> = (first..last).map(|number| page(number, &mut random)).collect();
            let refused: Vec<RefusalRow> = (first * refusals..last * refusals).map(refusal).collect();
            bytes += rows.iter().map(|row| row.size).sum::<u64>();
            let (cpu_before, wall_before) = (cpu_ns(), Instant::now());
            store.write(&rows, &refused).await?;
            cpu += cpu_ns() - cpu_before;
            let took = wall_before.elapsed().as_micros();
            wall += took;
            longest = longest.max(took);
        }
        let in_batch = wall / pages.div_ceil(batch) as u128;
        println!(
            "{pages} pages of {} bytes in batches of {batch}: CPU {:.1} µs a page, {:.1} µs a page in all; a batch {:.1} ms, the longest {:.1} ms",
            bytes / pages as u64,
            cpu as f64 / 1e3 / pages as f64,
            wall as f64 / pages as f64,
            in_batch as f64 / 1e3,
            longest as f64 / 1e3,
        );
        drop(store);
        if let Place::Folder(folder) = &place {
            let length = std::fs::metadata(folder.join("crawl.db"))?.len();
            println!("the file has {} bytes a page", length / pages as u64);
        }
        let begin = Instant::now();
        let mut reader = Reader::open(&place).await?;
        let counts = reader.counts().await?;
        println!("counts of {} pages: {:?}", counts.pages, begin.elapsed());
        Ok(())
    })
}
