//! Measures what a fetch costs: requests a second, and time of this process a request.
//!
//! `measure_fetch URL [connections] [seconds] [threads]`, against a server on this machine. The target may hold `{}`, which becomes a
//! number that grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crawl::fetch::{FetchRequest, FetchSettings, Fetcher};
use url::Url;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| {
        let text = arguments.get(at);
        text.map_or(usual, |text| text.parse().expect("a number"))
    };
    let pattern = arguments.first().expect("which URL").clone();
    let (connections, seconds, threads) = (number(1, 32), number(2, 5), number(3, 1));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(
        pattern,
        connections,
        Duration::from_secs(seconds as u64),
    ));
}

async fn measure(pattern: String, connections: usize, time: Duration) {
    let fetcher = Fetcher::new(FetchSettings {
        allow_private: true,
        verify_certificates: false,
        connections_per_host_max: connections,
        idle_per_host_max: connections,
        ..FetchSettings::default()
    })
    .expect("the settings are right");
    let (count, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (begun, used) = (Instant::now(), used_seconds());
    let end = begun + time;
    let workers = (0..connections).map(|_| {
        let (fetcher, pattern) = (fetcher.clone(), pattern.clone());
        let (count, bytes) = (count.clone(), bytes.clone());
        tokio::spawn(async move {
            while Instant::now() < end {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let url = pattern.replace("{}", &number.to_string());
                let request = FetchRequest::new(Url::parse(&url).expect("a URL"));
                let fetched = fetcher.fetch(&request).await.expect("an answer");
                bytes.fetch_add(fetched.body.len() as u64, Ordering::Relaxed);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("no panic");
    }
    let count = count.load(Ordering::Relaxed) as f64;
    println!(
        "{:.0} requests/s, {:.1} µs of CPU a request (user {:.1}, system {:.1}), {:.0} bytes a page, {} connections opened",
        count / begun.elapsed().as_secs_f64(),
        (used_seconds().0 + used_seconds().1 - used.0 - used.1) * 1e6 / count,
        (used_seconds().0 - used.0) * 1e6 / count,
        (used_seconds().1 - used.1) * 1e6 / count,
        bytes.load(Ordering::Relaxed) as f64 / count,
        fetcher.connections_opened(),
    );
}

/// The time that this process has used so far, its own and that of the kernel for it.
fn used_seconds() -> (f64, f64) {
    const TICKS_A_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name of the process, in brackets, may hold anything.
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap_or(0.0) / TICKS_A_SECOND;
    (ticks(11), ticks(12))
}
