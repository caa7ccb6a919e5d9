//! Serves plain text through `edge` or through `axum::serve`, to compare them with wrk:
//! `measure_edge edge 8001` or `measure_edge axum 8002`. With `wrk` as the only argument it does all of
//! it itself: runs of both in turn, and the medians. The processor time of a request is the steadier
//! figure where the machine has other things to do.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use web::edge::{EdgeLimits, serve};

const ROUNDS: usize = 7;
const SECONDS: &str = "3s";
const CONNECTIONS: &str = "64";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wrk"] => compare(),
        [server, port] => run(server, port.parse().expect("a port")),
        _ => panic!("say `wrk`, or `edge` or `axum` and a port"),
    }
}

/// Runs one of both servers for ever.
fn run(server: &str, port: u16) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let router = Router::new().route("/", get(async || "Hello, World!"));
        let address = ("127.0.0.1", port);
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .expect("the port is free");
        if server == "axum" {
            axum::serve(listener, router).await.expect("it never ends");
            return;
        }
        let limits = EdgeLimits {
            requests_per_connection_max: u64::MAX,
            ..EdgeLimits::default()
        };
        let serving = serve(listener, router, limits, std::future::pending());
        serving.ended().await;
    });
}

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs both servers in turn under wrk and prints the medians.
fn compare() {
    let servers = [("axum", "18431"), ("edge", "18432")];
    let program = std::env::current_exe().expect("this program has a path");
    let started = servers.map(|(server, port)| {
        let mut command = Command::new(&program);
        Started(
            command
                .args([server, port])
                .spawn()
                .expect("it starts again"),
        )
    });
    std::thread::sleep(Duration::from_millis(500));
    for (name, more) in [("browser-like headers", true), ("few headers", false)] {
        let mut rates: [Vec<f64>; 2] = Default::default();
        let mut costs: [Vec<f64>; 2] = Default::default();
        for round in 0..ROUNDS {
            for turn in 0..2 {
                // Who comes second finds another machine, so they take turns at that too.
                let which = (turn + round) % 2;
                let before = processor_seconds(&started[which]);
                let (rate, requests) = wrk(servers[which].1, more);
                let seconds = processor_seconds(&started[which]) - before;
                rates[which].push(rate);
                costs[which].push(seconds * 1e6 / requests);
            }
        }
        println!("{name}, medians of {ROUNDS}:");
        show("requests a second", &rates);
        show("processor time of a request, in microseconds", &costs);
    }
}

fn show(what: &str, figures: &[Vec<f64>; 2]) {
    let [axum, edge] = figures.each_ref().map(|figures| median(figures));
    println!(
        "  {what}: axum {axum:.2}, edge {edge:.2}, {:.3} times",
        edge / axum
    );
    println!("    axum {:.2?}\n    edge {:.2?}", figures[0], figures[1]);
}

/// The processor time that a server has taken so far.
fn processor_seconds(server: &Started) -> f64 {
    let path = format!("/proc/{}/stat", server.0.id());
    let text = std::fs::read_to_string(path).expect("it runs");
    let (_, fields) = text.rsplit_once(')').expect("its name stands in brackets");
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().expect("a number"))
        .sum::<f64>()
        / 100.0
}

/// What browsers send along.
const HEADERS: [&str; 6] = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-US,en;q=0.5",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Cookie: session=0123456789abcdef0123456789abcdef",
    "Upgrade-Insecure-Requests: 1",
];

/// Requests a second, as wrk measures them, and how many there were.
fn wrk(port: &str, more: bool) -> (f64, f64) {
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", CONNECTIONS, "-d", SECONDS]);
    for header in HEADERS.iter().filter(|_| more) {
        command.args(["-H", header]);
    }
    let output = command
        .arg(format!("http://127.0.0.1:{port}/"))
        .stderr(Stdio::inherit())
        .output()
        .expect("wrk is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let count = text
        .lines()
        .find_map(|line| line.split_once(" requests in "));
    let number = |text: &str| text.trim().parse().expect("wrk prints numbers");
    (
        number(rate.expect("wrk prints a rate")),
        number(count.expect("wrk prints a count").0),
    )
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
