//! What a request costs between the router and the response, beside plain axum: `cargo run --release --example measure_service`.

#![allow(elided_lifetimes_in_paths)]

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing;
use tower::Service as _;
use web::{Read, Service, Then, Write};

const REQUESTS: u32 = 200_000;
const ROUNDS: usize = 5;

struct Count(u64);

fn hello() -> &'static str {
    "Hello, World!"
}

fn read(_: Read<Count>) -> &'static str {
    "Hello, World!"
}

fn write(mut count: Write<Count>) -> &'static str {
    count.0 += 1;
    "Hello, World!"
}

fn then(count: Read<Count>) -> Then<&'static str> {
    match count.0 {
        u64::MAX => count.compute(1, || "never").commit(|_: &mut Count, _| ()),
        _ => Then::now("Hello, World!"),
    }
}

async fn ns_per_request(router: &Router, path: &str) -> u128 {
    let mut service = router.clone();
    let begun = Instant::now();
    for _ in 0..REQUESTS {
        let request = Request::builder()
            .uri(path)
            .body(Body::empty())
            .expect("a request");
        let answer = service.call(request).await.expect("an answer");
        assert!(answer.status().is_success());
    }
    begun.elapsed().as_nanos() / u128::from(REQUESTS)
}

#[tokio::main]
async fn main() {
    let service = Service::new()
        .share(Count(0))
        .get("/hello", hello)
        .get("/read", read);
    let running = service
        .get("/write", write)
        .get("/then", then)
        .build()
        .expect("a service");
    let ours = running.router();
    let axum = Router::new().route("/hello", routing::get(|| async { "Hello, World!" }));
    let measured = [
        ("axum", &axum, "/hello"),
        ("stateless", &ours, "/hello"),
        ("Read", &ours, "/read"),
        ("Write", &ours, "/write"),
        ("Then", &ours, "/then"),
    ];
    for round in 0..=ROUNDS {
        for (name, router, path) in measured {
            let ns = ns_per_request(router, path).await;
            // The first round shows the service that its routes are short.
            if round > 0 {
                println!("round {round}: {name:9} {ns:>6} ns");
            }
        }
    }
    println!("{}", running.explain());
}
