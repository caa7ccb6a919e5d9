//! The service that `hivewire-bench` compares with the same ones of others: `bench/peers/services/src/lib.rs` lists its routes.
//!
//!     cargo run --release -p hivewire-web --example bench_service -- --listen 127.0.0.1:8080 --workers 2

#![allow(elided_lifetimes_in_paths)]

#[path = "../../../examples/services/fibonacci/fibonacci.rs"]
#[allow(dead_code)]
mod fibonacci;
#[path = "../../../examples/services/scimark/kernels.rs"]
#[allow(dead_code)]
mod kernels;

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;

use fibonacci::fibonacci_in_rounds;
use kernels::{Kernel, digits};
use serde::Deserialize;
use tokio::net::TcpListener;
use web::{Path, Problem, Query, Read, Service, Settings, Then, Write};

/// Larger numbers would take minutes.
const NUMBER_MAX: u32 = 45;
/// Then the cache begins anew.
const ENTRIES_MAX: usize = 1_000_000;

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    rounds: u32,
    #[serde(default)]
    seed: u32,
}

#[derive(Default)]
struct Cache {
    numbers: HashMap<(u32, u32), u64>,
    results: HashMap<(Kernel, u32), f64>,
    stored: u64,
}

impl Cache {
    fn store_number(&mut self, key: (u32, u32), number: u64) {
        if self.numbers.len() >= ENTRIES_MAX {
            self.numbers.clear();
        }
        self.numbers.insert(key, number);
        self.stored += 1;
    }

    fn store_result(&mut self, key: (Kernel, u32), result: f64) {
        if self.results.len() >= ENTRIES_MAX {
            self.results.clear();
        }
        self.results.insert(key, result);
        self.stored += 1;
    }
}

type Answer = Result<String, Problem>;

fn plain() -> &'static str {
    "Hello, World!"
}

fn fibonacci(Path(n): Path<u32>, Query(wanted): Query<Wanted>) -> String {
    fibonacci_in_rounds(n.min(NUMBER_MAX), wanted.rounds).to_string()
}

fn cached_fibonacci(
    cache: Read<Cache>,
    Path(n): Path<u32>,
    Query(wanted): Query<Wanted>,
) -> Then<String> {
    let key = (n.min(NUMBER_MAX), wanted.seed);
    if let Some(number) = cache.numbers.get(&key) {
        return Then::now(number.to_string());
    }
    cache
        .compute(key, move || {
            fibonacci_in_rounds(key.0, wanted.rounds).to_string()
        })
        .commit(move |cache: &mut Cache, number: &String| {
            cache.store_number(key, number.parse().expect("it was written just now"));
        })
}

fn named(name: &str) -> Result<Kernel, Problem> {
    Kernel::named(name).ok_or_else(|| Problem::new(404, "There is no such kernel"))
}

fn free(Path(name): Path<String>, Query(wanted): Query<Wanted>) -> Answer {
    Ok(digits(named(&name)?.run(wanted.seed)))
}

fn shared(cache: Read<Cache>, Path(name): Path<String>, Query(wanted): Query<Wanted>) -> Answer {
    let kernel = named(&name)?;
    black_box(cache.results.get(&(kernel, wanted.seed)));
    Ok(digits(kernel.run(wanted.seed)))
}

fn exclusive(
    mut cache: Write<Cache>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let kernel = named(&name)?;
    let result = kernel.run(wanted.seed);
    cache.store_result((kernel, wanted.seed), result);
    Ok(digits(result))
}

/// Requests for the same result that come meanwhile wait for this one, so fewer results are stored than requests answered.
fn then_store(
    cache: Read<Cache>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Then<String> {
    let kernel = match named(&name) {
        Ok(kernel) => kernel,
        Err(problem) => return Then::reply(problem),
    };
    let key = (kernel, wanted.seed);
    cache
        .compute(key, move || digits(kernel.run(wanted.seed)))
        .commit(move |cache: &mut Cache, result: &String| {
            let bits = u64::from_str_radix(result, 16).expect("it was written just now");
            cache.store_result(key, f64::from_bits(bits));
        })
}

fn stored(cache: Read<Cache>) -> String {
    cache.stored.to_string()
}

fn service() -> Service {
    Service::new()
        .share(Cache::default())
        .get("/plain", plain)
        .get("/fib/{n}", fibonacci)
        .get("/cached/fib/{n}", cached_fibonacci)
        .get("/scimark/{kernel}", free)
        .get("/sf1/{kernel}", shared)
        .post("/sf1/{kernel}", exclusive)
        .get("/sf2/{kernel}", free)
        .post("/sf2/{kernel}", exclusive)
        .post("/then/{kernel}", then_store)
        .get("/stored", stored)
}

fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let listen = option("--listen").unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let workers: usize = option("--workers").map_or(Ok(2), |count| count.parse())?;
    let settings = Settings {
        loops: workers,
        ..Settings::default()
    };
    let running = service().settings(settings).build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        running.serve(TcpListener::bind(listen).await?).await?;
        Ok(())
    })
}
