//! The control: handlers that are as they should be.

use std::collections::HashMap;
use web::{Carried, Json, Path, Read, Service, Then, Tick, Write, next_tick};

type Cache = HashMap<u32, u64>;

fn lookup(cache: Read<Cache>, Path(n): Path<u32>) -> Option<String> {
    cache.get(&n).map(u64::to_string)
}

fn text(cache: Read<Cache>, n: Path<u32>) -> String {
    lookup(cache, n).unwrap_or_default()
}

fn store(mut cache: Write<Cache>, Path(n): Path<u32>, Json(value): Json<u64>) {
    cache.insert(n, value);
}

fn fib(cache: Read<Cache>, Path(n): Path<u32>) -> Then<u64> {
    cache.compute(n, || 1).commit(|_: &mut Cache, _| ())
}

async fn later(Path(n): Path<u32>) -> String {
    n.to_string()
}

async fn first(Path(n): Path<u32>) -> Tick<u32> {
    Tick::next(n)
}

fn second(Carried(n): Carried<u32>, mut cache: Write<Cache>) {
    cache.insert(n, 1);
}

fn main() {
    let service = Service::new().share(Cache::new());
    let service = service.get("/{n}", text).put("/{n}", store).get("/fib/{n}", fib).get("/later/{n}", later);
    let service = service.post("/both/{n}", next_tick(first, second));
    println!("{}", service.get("/closure", |cache: Read<Cache>| cache.len().to_string()).explain());
}
