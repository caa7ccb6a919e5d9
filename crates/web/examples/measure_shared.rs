//! What the shared structures cost, beside what one would take otherwise, by one thread and by two at the same time.
//!
//! `cargo run --release -p hivewire-web --example measure_shared`
//!
//! Each figure is the median of several rounds, in which all take turns. Figures of two threads are worth something only if two threads
//! that have nothing in common take about as long as one; the last line says how long they did.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::thread;
use std::time::Instant;

use web::shared::{Counter, Keyed, Log, Lru, Map, Set};

const ROUNDS: usize = 5;
/// Enough for some ten milliseconds: in less, two threads may not meet at all.
const STEPS: u64 = 1_500_000;
const KEYS: u64 = 10_000;

/// What one step does, with a random key.
type Step<'a> = Box<dyn Fn(u64) + Sync + 'a>;

/// Nanoseconds a step, as the slowest of the threads took them.
fn time(threads: u64, step: &Step<'_>) -> f64 {
    let start = Barrier::new(threads as usize);
    let run = |thread: u64| {
        let mut random = fastrand::Rng::with_seed(thread);
        start.wait();
        let started = Instant::now();
        (0..STEPS).for_each(|_| step(random.u64(..KEYS)));
        started.elapsed().as_nanos() as f64 / STEPS as f64
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times
            .map(|time| time.expect("no panic"))
            .fold(0.0, f64::max)
    })
}

/// Takes what a step gave, so that it is not left out.
fn seen<R>(result: R) {
    black_box(result);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure(steps: &[(&str, Step<'_>)]) {
    let mut times = vec![(Vec::new(), Vec::new()); steps.len()];
    for _ in 0..ROUNDS {
        for ((_, step), times) in steps.iter().zip(&mut times) {
            times.0.push(time(1, step));
            times.1.push(time(2, step));
        }
    }
    println!(
        "{:<44} {:>10} {:>12}",
        "ns a step", "one thread", "each of two"
    );
    for ((name, _), (one, two)) in steps.iter().zip(times) {
        println!("{name:<44} {:>10.0} {:>12.0}", median(one), median(two));
    }
}

fn main() {
    let plain: RwLock<HashMap<u64, u64>> = RwLock::new((0..KEYS).map(|key| (key, key)).collect());
    let map: Map<u64, u64> = (0..KEYS).map(|key| (key, key)).collect();
    let plain_set: RwLock<HashSet<u64>> = RwLock::new((0..KEYS).collect());
    let set: Set<u64> = (0..KEYS).collect();
    let (atomic, counter) = (AtomicI64::new(0), Counter::new());
    let (plain_log, log) = (Mutex::new(Vec::new()), Log::new(1_000));
    let mut lru = Lru::new(KEYS as usize / 2);
    (0..KEYS).for_each(|key| {
        lru.insert(key, key);
    });
    let read = || plain.read().expect("no panic");
    let write = || plain.write().expect("no panic");
    measure(&[
        (
            "RwLock<HashMap>: get",
            Box::new(|key| seen(read().get(&key).copied())),
        ),
        ("Map: get", Box::new(|key| seen(map.get(&key)))),
        (
            "Map: get by entry",
            Box::new(|key| seen(map.entry(&key).get().as_deref().copied())),
        ),
        (
            "RwLock<HashMap>: insert",
            Box::new(|key| seen(write().insert(key, key))),
        ),
        (
            "Map: insert",
            Box::new(|key| seen(map.concurrently().insert(key, key))),
        ),
        (
            "Map: insert by entry",
            Box::new(|key| seen(map.entry(&key).insert(key))),
        ),
        (
            "RwLock<HashMap>: remove, insert",
            Box::new(|key| {
                write().remove(&key);
                write().insert(key, key);
            }),
        ),
        (
            "Map: remove, insert",
            Box::new(|key| {
                map.concurrently().remove(&key);
                map.concurrently().insert(key, key);
            }),
        ),
        (
            "RwLock<HashMap>: 9 get, 1 insert",
            Box::new(|key| match key % 10 {
                0 => seen(write().insert(key, key)),
                _ => seen(read().get(&key).copied()),
            }),
        ),
        (
            "Map: 9 get, 1 insert",
            Box::new(|key| match key % 10 {
                0 => seen(map.concurrently().insert(key, key)),
                _ => seen(map.get(&key)),
            }),
        ),
        (
            "RwLock<HashMap>: update of one key",
            Box::new(|_| {
                if let Some(value) = write().get_mut(&1) {
                    *value += 1;
                }
            }),
        ),
        (
            "Map: update of one key",
            Box::new(|_| {
                map.concurrently().update(&1, |value| *value += 1);
            }),
        ),
        (
            "RwLock<HashSet>: contains",
            Box::new(|key| {
                black_box(plain_set.read().expect("no panic").contains(&key));
            }),
        ),
        (
            "Set: contains",
            Box::new(|key| {
                black_box(set.contains(&key));
            }),
        ),
        (
            "AtomicI64: add",
            Box::new(|_| {
                atomic.fetch_add(1, Ordering::Relaxed);
            }),
        ),
        ("Counter: add", Box::new(|_| counter.add(1))),
        (
            "Counter: value",
            Box::new(|_| {
                black_box(counter.value());
            }),
        ),
        (
            "Mutex<Vec>: push, emptied at 1,000",
            Box::new(|key| {
                let mut plain_log = plain_log.lock().expect("no panic");
                if plain_log.len() >= 1_000 {
                    plain_log.clear();
                }
                plain_log.push(key);
            }),
        ),
        (
            "Log: push",
            Box::new(|key| {
                log.push(key);
            }),
        ),
        (
            "Log: read of the latest",
            Box::new(|_| {
                black_box(log.latest(1));
            }),
        ),
        (
            "Lru: get, half of them found",
            Box::new(|key| {
                black_box(lru.get(&key));
            }),
        ),
        (
            "Lru: insert",
            Box::new(|key| {
                black_box(lru.concurrently().insert(key, key));
            }),
        ),
        (
            "nothing in common: 100 numbers",
            Box::new(|key| {
                black_box((0..100).fold(key, |hash, _| hash.wrapping_mul(31) ^ hash >> 7));
            }),
        ),
    ]);
}
