//! Fibonacci numbers with a cache: light and heavy ones side by side.
//!
//! ```sh
//! cargo run --release --example fibonacci
//! curl localhost:8080/fib/40
//! curl localhost:8080/fib/20    # does not wait for the heavy one
//! ```

#![allow(elided_lifetimes_in_paths)]

use std::collections::HashMap;
use std::error::Error;

use tokio::net::TcpListener;
use web::{Json, Path, Problem, Read, Running, Service, Then, Write};

type Cache = HashMap<u32, u64>;

/// Larger numbers would take hours.
const N_MAX: u32 = 50;

/// The service computes a number without a lock, then puts it into the cache. Who asks for it meanwhile waits for that.
fn fib(cache: Read<Cache>, Path(n): Path<u32>) -> Then<u64> {
    if n > N_MAX {
        let problem = Problem::new(400, "The number is too large");
        return Then::reply(
            problem
                .field("n")
                .detail(format!("at most {N_MAX} is computed")),
        );
    }
    if let Some(value) = cache.get(&n) {
        return Then::now(*value);
    }
    cache
        .compute(n, move || fibonacci(n))
        .commit(move |cache: &mut Cache, value: &u64| {
            cache.insert(n, *value);
        })
}

/// The same without a cache: a stateless handler that takes long.
fn plain(Path(n): Path<u32>) -> Result<String, Problem> {
    match n > N_MAX {
        true => Err(Problem::new(400, "The number is too large").field("n")),
        false => Ok(fibonacci(n).to_string()),
    }
}

/// What was computed so far.
fn list(cache: Read<Cache>) -> Json<Vec<(u32, u64)>> {
    let mut all: Vec<(u32, u64)> = cache.iter().map(|(n, value)| (*n, *value)).collect();
    all.sort_unstable();
    Json(all)
}

fn clear(mut cache: Write<Cache>) {
    cache.clear();
}

/// The slow way, as computing has to take a while here.
fn fibonacci(n: u32) -> u64 {
    match n {
        0 | 1 => u64::from(n),
        _ => fibonacci(n - 1) + fibonacci(n - 2),
    }
}

/// The service, before it runs.
pub fn service() -> Service {
    Service::new()
        .share(Cache::new())
        .get("/fib/{n}", fib)
        .get("/plain/{n}", plain)
        .get("/cache", list)
        .delete("/cache", clear)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let running: Running = service().build()?;
    println!("{}", running.explain());
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:8080".to_owned());
    running.serve(TcpListener::bind(address).await?).await?;
    Ok(())
}
