//! What it costs to take and release locks that are free, and to hand one over to a request that waits.
//!
//!     cargo run --release -p hivewire-web --example measure_locks -- [rounds=5000000] [repeats=7]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use web::locks::{LockId, Locks, LocksBuilder, Mode, Plan, Want};

fn number(name: &str, default: u64) -> u64 {
    let argument = std::env::args().find_map(|argument| {
        let value = argument.strip_prefix(name)?.strip_prefix('=')?;
        value.parse().ok()
    });
    argument.unwrap_or(default)
}

fn want(lock: LockId, mode: Mode) -> Want {
    let key = None;
    Want { lock, mode, key }
}

fn plan(wants: impl IntoIterator<Item = Want>) -> Plan {
    Plan::new(wants).expect("no state is wanted twice")
}

/// What is measured, and its times in nanoseconds for each round.
struct Case<'a> {
    name: &'static str,
    rounds: u64,
    run: Box<dyn Fn(u64) + 'a>,
    times: Vec<f64>,
}

impl<'a> Case<'a> {
    fn new(name: &'static str, rounds: u64, run: impl Fn(u64) + 'a) -> Self {
        let (run, times) = (Box::new(run), Vec::new());
        Self {
            name,
            rounds,
            run,
            times,
        }
    }

    fn measure(&mut self) {
        let started = Instant::now();
        (self.run)(self.rounds);
        let spent = started.elapsed().as_nanos();
        self.times.push(spent as f64 / self.rounds as f64);
    }

    fn report(mut self) {
        self.times.sort_by(f64::total_cmp);
        let (median, lowest) = (self.times[self.times.len() / 2], self.times[0]);
        println!("{median:8.1} {lowest:8.1}  {}", self.name);
    }
}

fn take_and_release(locks: &Arc<Locks>, plan: &Plan, rounds: u64) {
    for _ in 0..rounds {
        let taken = locks.try_take(black_box(plan));
        drop(black_box(taken.expect("nobody else takes it")));
    }
}

/// Each round parks a request behind the holder and hands over to it.
fn hand_over(locks: &Arc<Locks>, plan: &Plan, rounds: u64) {
    let told = Arc::new(AtomicU64::new(0));
    for _ in 0..rounds {
        let taken = locks.try_take(plan).expect("nobody else takes it");
        let told = told.clone();
        let count = move |_taken| {
            told.fetch_add(1, Relaxed);
        };
        let parked = locks.take_or_park(plan, count);
        drop(taken);
        drop(parked.expect("nobody else waits"));
    }
    assert_eq!(told.load(Relaxed), rounds);
}

/// Several threads that take the same locks in the same mode and release them at once, and try again if they are not free.
fn together(locks: &Arc<Locks>, plan: &Plan, threads: u64, rounds: u64) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut left = rounds / threads;
                while left > 0 {
                    left -= u64::from(locks.try_take(black_box(plan)).is_some());
                }
            });
        }
    });
}

fn main() {
    let rounds = number("rounds", 5_000_000);
    let repeats = number("repeats", 7);
    let mut builder = LocksBuilder::new();
    let [first, second, third] = ["first", "second", "third"].map(|name| builder.add(name));
    let locks = builder.build(16);
    let key = |mode, key| Want {
        key: Some(key),
        ..want(third, mode)
    };

    let [one, two, three] = [1, 2, 3].map(|count| {
        let written = [first, second, third].into_iter().take(count);
        plan(written.map(|lock| want(lock, Mode::Write)))
    });
    let two_read = plan([want(first, Mode::Read), want(second, Mode::Read)]);
    let [one_key, two_keys] =
        [7..8, 7..9].map(|keys| plan(keys.map(|number| key(Mode::Write, number))));
    let nothing = plan([]);
    let locks = &locks;
    let alone = |name, plan| {
        Case::new(name, rounds, move |rounds| {
            take_and_release(locks, plan, rounds)
        })
    };
    let wants = [want(first, Mode::Write), want(second, Mode::Write)];
    let mut cases = [
        Case::new(
            "two parking_lot mutexes, for comparison",
            rounds,
            parking_lot_pair,
        ),
        Case::new(
            "two counts of references, up and down, for comparison",
            rounds,
            two_counts,
        ),
        alone("nothing", &nothing),
        alone("one free lock, written", &one),
        alone("two free locks, written", &two),
        alone("two free locks, read", &two_read),
        alone("three free locks, written", &three),
        alone("one free key, written", &one_key),
        alone("two free keys of one state, written", &two_keys),
        Case::new(
            "two locks, read by two threads at a time",
            rounds,
            |rounds| together(locks, &two_read, 2, rounds),
        ),
        Case::new("making a plan of two", rounds / 5, |rounds| {
            (0..rounds).for_each(|_| drop(black_box(plan(black_box(wants)))));
        }),
        Case::new(
            "two locks taken, a request parked behind, told, released",
            rounds / 10,
            |rounds| {
                hand_over(locks, &two, rounds);
            },
        ),
    ];
    for _ in 0..repeats {
        cases.iter_mut().for_each(Case::measure);
    }
    println!("ns for each round: median and lowest of {repeats} runs");
    cases.into_iter().for_each(Case::report);
    let numbers = locks.numbers(first);
    println!(
        "{} taken at once, {} parked; held: {} measured or estimated, half of them under {} ns",
        numbers.taken_at_once,
        numbers.parked,
        numbers.holding.count(),
        numbers.holding.quantile_ns(0.5).unwrap_or_default(),
    );
}

fn parking_lot_pair(rounds: u64) {
    let mutexes = [parking_lot::Mutex::new(0), parking_lot::Mutex::new(0)];
    for _ in 0..rounds {
        let first = black_box(&mutexes[0]).lock();
        let second = black_box(&mutexes[1]).lock();
        drop(black_box((first, second)));
    }
}

fn two_counts(rounds: u64) {
    let counted = [Arc::new(0), Arc::new(0)];
    for _ in 0..rounds {
        drop(black_box(black_box(&counted).clone()));
    }
}
