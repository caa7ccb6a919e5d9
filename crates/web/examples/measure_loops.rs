//! Measures loops beside tokio's `spawn_blocking`: `cargo run --release -p hivewire-web --example measure_loops`.
//!
//! First what it costs to submit a job that does nothing, and to have it run. Then how long short jobs wait beside long ones, on two
//! cores. Both are measured in turn, some rounds each, and the median round is printed.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use web::loops::{Job, Loops, LoopsConfig};

const LOOPS: usize = 2;
const ROUNDS: usize = 5;
const EMPTY_JOBS: usize = 200_000;

const SHORT: Duration = Duration::from_micros(20);
const SHORT_A_SECOND: u32 = 90;
const LONG: Duration = Duration::from_millis(100);
const LONG_A_SECOND: u32 = 10;
const MIX_SECONDS: u32 = 6;

/// What runs jobs; gives a job back to be tried again if it is full.
trait Runs: Sync {
    fn run(&self, expected: Duration, job: Job) -> Result<(), Job>;
}

impl Runs for Loops {
    fn run(&self, expected: Duration, job: Job) -> Result<(), Job> {
        self.submit(expected.as_nanos() as u64, job)
            .map_err(|(_, job)| job)
    }
}

impl Runs for Runtime {
    fn run(&self, _: Duration, job: Job) -> Result<(), Job> {
        self.spawn_blocking(job);
        Ok(())
    }
}

fn main() {
    let loops = Loops::start(LoopsConfig {
        loops: LOOPS,
        ..LoopsConfig::default()
    });
    let tokio = runtime(512);
    let as_many = runtime(LOOPS);
    let contestants: [(&str, &dyn Runs); 3] = [
        ("loops", &*loops),
        ("spawn_blocking", &tokio),
        ("spawn_blocking, two threads", &as_many),
    ];
    for submitters in [1, 2] {
        measure_empty(&contestants, submitters);
    }
    measure_alone(&contestants);
    println!("{:?}", loops.numbers());
    let spin = calibrate();
    measure_mix(&contestants[..2], spin, "without telling", Duration::ZERO);
    measure_mix(
        &contestants[..1],
        spin,
        "told the mean",
        (LONG * LONG_A_SECOND + SHORT * SHORT_A_SECOND) / (LONG_A_SECOND + SHORT_A_SECOND),
    );
    println!("{:?}", loops.numbers());
    loops.stop(Duration::from_secs(10));
}

fn runtime(blocking_threads_max: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(LOOPS)
        .max_blocking_threads(blocking_threads_max)
        .enable_all()
        .build()
        .expect("the system gives threads")
}

fn measure_empty(contestants: &[(&str, &dyn Runs)], submitters: usize) {
    let mut results = vec![Vec::new(); contestants.len()];
    for _ in 0..ROUNDS {
        for ((_, runs), results) in contestants.iter().zip(&mut results) {
            results.push(empty(*runs, submitters));
        }
    }
    for ((name, _), results) in contestants.iter().zip(results) {
        let (submit_ns, all_ns) = (
            median(results.iter().map(|result| result.0)),
            median(results.iter().map(|result| result.1)),
        );
        println!(
            "{submitters} submitters, empty jobs: {submit_ns:>6.0} ns to submit, {all_ns:>6.0} ns until run: {name}"
        );
    }
}

/// Nanoseconds for each job: of the submitters, and until all have run.
fn empty(runs: &dyn Runs, submitters: usize) -> (f64, f64) {
    let done = Arc::new(AtomicUsize::new(0));
    let each = EMPTY_JOBS / submitters;
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..submitters {
            scope.spawn(|| {
                for _ in 0..each {
                    let done = done.clone();
                    let mut job: Job = Box::new(move || {
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                    while let Err(again) = runs.run(Duration::ZERO, job) {
                        job = again;
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let submitted = start.elapsed();
    while done.load(Ordering::Relaxed) < each * submitters {
        thread::yield_now();
    }
    let all = start.elapsed();
    (
        submitted.as_nanos() as f64 / EMPTY_JOBS as f64,
        all.as_nanos() as f64 / EMPTY_JOBS as f64,
    )
}

/// One job at a time, while all sleep.
fn measure_alone(contestants: &[(&str, &dyn Runs)]) {
    for (name, runs) in contestants {
        let mut waits = Vec::new();
        for _ in 0..300 {
            thread::sleep(Duration::from_millis(2));
            let (say, hear) = std::sync::mpsc::channel();
            let start = Instant::now();
            let job: Job = Box::new(move || {
                say.send(start.elapsed()).expect("somebody listens");
            });
            assert!(runs.run(SHORT, job).is_ok(), "there is room");
            waits.push(hear.recv().expect("it runs").as_nanos() as f64 / 1_000.0);
        }
        println!("a job alone begins after {:>6.1} µs: {name}", median(waits));
    }
}

/// How many rounds of computing take a microsecond of a processor.
fn calibrate() -> f64 {
    let best = (0..20).map(|_| {
        let start = Instant::now();
        compute(1_000_000);
        start.elapsed().as_nanos() as f64
    });
    1_000_000.0 / (best.fold(f64::MAX, f64::min) / 1_000.0)
}

fn compute(rounds: u64) {
    let mut value = 1_u64;
    for round in 0..rounds {
        value = black_box(
            value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(round),
        );
    }
    black_box(value);
}

fn measure_mix(contestants: &[(&str, &dyn Runs)], spin: f64, how: &str, expected: Duration) {
    let mut results: Vec<Vec<Mix>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for ((_, runs), results) in contestants.iter().zip(&mut results) {
            results.push(mix(*runs, spin, expected));
        }
    }
    for ((name, _), results) in contestants.iter().zip(results) {
        let of = |part: fn(&Mix) -> f64| median(results.iter().map(part));
        println!(
            "{SHORT_A_SECOND} short and {LONG_A_SECOND} long jobs a second, {how}: short p50 {:>6.2} ms, p99 {:>6.2} ms, most {:>6.2} ms; long p50 {:>6.1} ms: {name}",
            of(|mix| mix.short_p50),
            of(|mix| mix.short_p99),
            of(|mix| mix.short_most),
            of(|mix| mix.long_p50),
        );
    }
}

/// Milliseconds from when a job was due until it had ended.
struct Mix {
    short_p50: f64,
    short_p99: f64,
    short_most: f64,
    long_p50: f64,
}

/// An open loop: jobs come when they are due, at random but the same for all.
fn mix(runs: &dyn Runs, spin: f64, expected: Duration) -> Mix {
    let mut random = fastrand::Rng::with_seed(7);
    let all_a_second = SHORT_A_SECOND + LONG_A_SECOND;
    let count = all_a_second * MIX_SECONDS;
    let (say, hear) = std::sync::mpsc::channel();
    let start = Instant::now();
    let mut due = Duration::ZERO;
    for _ in 0..count {
        due += Duration::from_secs_f64(-random.f64().max(1e-9).ln() / f64::from(all_a_second));
        let is_long = random.u32(..all_a_second) < LONG_A_SECOND;
        let takes = if is_long { LONG } else { SHORT };
        let rounds = (takes.as_micros() as f64 * spin) as u64;
        thread::sleep(due.saturating_sub(start.elapsed()));
        let say = say.clone();
        let job: Job = Box::new(move || {
            compute(rounds);
            let took = start.elapsed().saturating_sub(due);
            say.send((is_long, took.as_secs_f64() * 1_000.0))
                .expect("somebody listens");
        });
        assert!(runs.run(expected, job).is_ok(), "there is room");
    }
    drop(say);
    let (long, short): (Vec<_>, Vec<_>) = hear.iter().partition(|(is_long, _)| *is_long);
    let short = sorted(short.into_iter().map(|(_, took)| took));
    let long = sorted(long.into_iter().map(|(_, took)| took));
    Mix {
        short_p50: short[short.len() / 2],
        short_p99: short[short.len() * 99 / 100],
        short_most: short[short.len() - 1],
        long_p50: long[long.len() / 2],
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}
