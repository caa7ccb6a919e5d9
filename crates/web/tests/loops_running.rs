//! Loops with real threads: every job runs once, long ones hold nobody up, panics end no loop, and all comes to an end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use web::loops::{Full, Job, Loops, LoopsConfig};

/// So long it may take on a very busy machine; nothing here is expected to come near it.
const PATIENCE: Duration = Duration::from_secs(60);

fn loops(loops: usize, long_max: usize) -> Arc<Loops> {
    Loops::start(LoopsConfig {
        loops,
        long_max,
        queued_max: 100_000,
        ..LoopsConfig::default()
    })
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn submit(loops: &Loops, job: impl FnOnce() + Send + 'static) {
    let submitted = loops.submit(0, Box::new(job));
    assert!(submitted.is_ok(), "there is room");
}

/// What jobs wait for.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().expect("nobody panics") = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.0.lock().expect("nobody panics");
        let waited = self
            .0
            .1
            .wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open);
        drop(waited.expect("nobody panics"));
    }
}

/// Jobs that were lost or run twice, by number.
fn wrong_counts(runs: &[AtomicUsize]) -> BTreeMap<usize, usize> {
    let runs = runs.iter().map(|runs| runs.load(Ordering::Relaxed));
    runs.enumerate().filter(|&(_, runs)| runs != 1).collect()
}

fn counters(count: usize) -> Arc<Vec<AtomicUsize>> {
    Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect())
}

#[test]
fn every_job_runs_once_also_while_loops_change_their_threads() {
    const SUBMITTERS: usize = 3;
    const EACH: usize = 2_000;
    let loops = Loops::start(LoopsConfig {
        loops: 3,
        queued_max: SUBMITTERS * EACH,
        long_after_ms: 1,
        ..LoopsConfig::default()
    });
    let runs = counters(SUBMITTERS * EACH);
    thread::scope(|scope| {
        for submitter in 0..SUBMITTERS {
            let (loops, runs) = (&loops, &runs);
            scope.spawn(move || {
                for index in submitter * EACH..(submitter + 1) * EACH {
                    let runs = runs.clone();
                    submit(loops, move || {
                        // Some become long, some end just when they would.
                        if index % 97 == 0 {
                            thread::sleep(Duration::from_micros(index as u64 % 5 * 700));
                        }
                        runs[index].fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert!(loops.stop(PATIENCE));
    assert_eq!(wrong_counts(&runs), BTreeMap::new());
    let numbers = loops.numbers();
    assert_eq!(numbers.done, (SUBMITTERS * EACH) as u64);
    assert_eq!(
        (numbers.long_now, numbers.queued, numbers.threads),
        (0, 0, 0)
    );
}

#[test]
fn control_a_lost_and_a_doubled_job_are_found() {
    let runs = counters(3);
    runs[0].store(1, Ordering::Relaxed);
    runs[2].store(2, Ordering::Relaxed);
    assert_eq!(wrong_counts(&runs), BTreeMap::from([(1, 0), (2, 2)]));
}

/// Whether short jobs run while more jobs block than there are loops.
fn short_ones_run_beside_long_ones(long_max: usize) -> bool {
    let loops = loops(2, long_max);
    let (gate, blocked) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..5 {
        let (gate, blocked) = (gate.clone(), blocked.clone());
        submit(&loops, move || {
            blocked.fetch_add(1, Ordering::Relaxed);
            gate.pass();
        });
    }
    let blocked_most = if long_max == 0 { 2 } else { 5 };
    until("jobs block", || {
        blocked.load(Ordering::Relaxed) == blocked_most
    });
    let (say, hear) = mpsc::channel();
    submit(&loops, move || say.send(()).expect("somebody listens"));
    // Where no thread is replaced the short job cannot run before the gate is open, however long one waits.
    let patience = match long_max {
        0 => Duration::from_millis(50),
        _ => PATIENCE,
    };
    let is_run = hear.recv_timeout(patience).is_ok();
    gate.open();
    assert!(loops.stop(PATIENCE));
    assert_eq!(loops.numbers().done, 6);
    is_run
}

#[test]
fn jobs_that_block_hold_up_nobody() {
    assert!(short_ones_run_beside_long_ones(64));
    assert!(!short_ones_run_beside_long_ones(0), "the control");
}

#[test]
fn there_are_only_so_many_long_threads_and_they_go_away() {
    let loops = loops(1, 2);
    let gate = Gate::default();
    for _ in 0..4 {
        let gate = gate.clone();
        submit(&loops, move || gate.pass());
    }
    until("two are long", || loops.numbers().long_now == 2);
    until("a third would be", || loops.numbers().long_refused > 0);
    let numbers = loops.numbers();
    assert_eq!(
        (numbers.long_now, numbers.long_so_far, numbers.queued),
        (2, 2, 1)
    );
    // One loop, two long ones, the monitor.
    assert_eq!(numbers.threads, 4);
    gate.open();
    until("all end", || loops.numbers().done == 4);
    // The loop, the monitor, and one spare at most.
    until("threads go", || loops.numbers().threads <= 3);
    assert_eq!(loops.numbers().long_now, 0);
}

#[test]
fn too_many_jobs_are_refused_and_come_back() {
    let loops = Loops::start(LoopsConfig {
        loops: 1,
        queued_max: 2,
        long_max: 0,
        ..LoopsConfig::default()
    });
    let gate = Gate::default();
    let passer = gate.clone();
    submit(&loops, move || passer.pass());
    until("it runs", || loops.numbers().queued == 0);
    submit(&loops, || {});
    submit(&loops, || {});
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let job: Job = Box::new(move || runs.store(true, Ordering::Relaxed));
    let (full, job) = loops.submit(0, job).expect_err("there is no room");
    assert_eq!(full, Full::Queues { queued_max: 2 });
    assert_eq!(loops.numbers().refused, 1);
    gate.open();
    until("there is room", || loops.numbers().queued == 0);
    assert!(loops.submit(0, job).is_ok());
    until("it ran", || ran.load(Ordering::Relaxed));
}

#[test]
fn a_panic_ends_its_job_only() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("even what was thrown panics");
        }
    }
    let loops = loops(1, 0);
    submit(&loops, || panic!("on purpose"));
    submit(&loops, || std::panic::panic_any(PanicsWhenDropped));
    submit(&loops, || {});
    until("all ended", || loops.numbers().done == 3);
    assert_eq!(loops.numbers().panicked, 2);
    assert!(loops.stop(PATIENCE));
}

#[test]
fn stopping_lets_end_what_was_submitted_and_what_that_submits() {
    let loops = loops(2, 64);
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let (inner, ended) = (loops.clone(), ended.clone());
        submit(&loops, move || {
            let count = ended.clone();
            submit(&inner, move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert!(loops.stop(PATIENCE));
    assert_eq!(ended.load(Ordering::Relaxed), 200);
    let (full, _) = loops
        .submit(0, Box::new(|| {}))
        .expect_err("it has stopped");
    assert_eq!(full, Full::Stopped);
    assert!(loops.stop(PATIENCE), "a second time");
}

#[test]
fn stopping_does_not_wait_for_what_never_ends_and_drops_what_waits() {
    struct SaysWhenDropped(Arc<AtomicUsize>);
    impl Drop for SaysWhenDropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let loops = loops(1, 0);
    let gate = Gate::default();
    let passer = gate.clone();
    submit(&loops, move || passer.pass());
    until("it runs", || loops.numbers().queued == 0);
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let says = SaysWhenDropped(dropped.clone());
        submit(&loops, move || drop(says));
    }
    assert!(!loops.stop(Duration::from_millis(20)));
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert_eq!(loops.numbers().dropped, 3);
    assert_eq!(loops.numbers().done, 0, "they were dropped, not run");
    gate.open();
    until("the thread ends", || loops.numbers().threads == 0);
}

#[test]
fn a_job_may_stop_the_loops_that_run_it() {
    let loops = loops(2, 64);
    let (say, hear) = mpsc::channel();
    let inner = loops.clone();
    submit(&loops, move || {
        let is_all_ended = inner.stop(Duration::from_millis(20));
        say.send(is_all_ended).expect("somebody listens");
    });
    assert_eq!(hear.recv_timeout(PATIENCE), Ok(false), "it runs itself");
    until("all threads end", || loops.numbers().threads == 0);
}

#[test]
fn a_job_is_run_dropped_or_given_back_while_all_stops() {
    for round in 0..50 {
        let loops = loops(2, 64);
        let (ran, given_back) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let ran = ran.clone();
                        let job = Box::new(move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                        if loops.submit(0, job).is_err() {
                            given_back.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            loops.stop(Duration::from_micros(round * 20));
        });
        until("the rest ends", || loops.numbers().threads == 0);
        let dropped = loops.numbers().dropped as usize;
        let all = ran.load(Ordering::Relaxed) + given_back.load(Ordering::Relaxed) + dropped;
        assert_eq!(all, 400);
    }
}

#[test]
fn loops_that_nobody_has_any_more_end() {
    let ended = Arc::new(AtomicBool::new(false));
    let loops = loops(2, 64);
    let (gate, says) = (Gate::default(), ended.clone());
    let passer = gate.clone();
    submit(&loops, move || {
        passer.pass();
        says.store(true, Ordering::Relaxed);
    });
    until("it runs", || loops.numbers().queued == 0);
    drop(loops);
    gate.open();
    until("what ran has ended", || ended.load(Ordering::Relaxed));
}

#[cfg(target_os = "linux")]
mod niceness {
    use super::*;

    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).expect("anybody may ask")
    }

    /// How much nicer a thread has become that runs a job until it is long, and a thread that takes its place.
    fn nicer_by(long_max: usize) -> (i32, i32) {
        let usual = niceness();
        let loops = loops(1, long_max);
        let (say, hear) = mpsc::channel();
        let inner = loops.clone();
        submit(&loops, move || {
            until("it is long, or never will be", || {
                let numbers = inner.numbers();
                numbers.long_so_far + numbers.long_refused > 0
                    && (long_max == 0 || niceness() != usual)
            });
            say.send(niceness()).expect("somebody listens");
        });
        let long = hear.recv_timeout(PATIENCE).expect("it ends");
        let (say, hear) = mpsc::channel();
        submit(&loops, move || {
            say.send(niceness()).expect("somebody listens")
        });
        let short = hear.recv_timeout(PATIENCE).expect("it runs");
        (long - usual, short - usual)
    }

    /// No thread is nicer.
    const MOST: i32 = 19;

    #[test]
    fn a_long_thread_is_nicer_and_the_next_is_not() {
        if niceness() == MOST {
            eprintln!("the test itself is as nice as can be: no thread could be nicer");
            return;
        }
        let (long, short) = nicer_by(64);
        assert!(long > 0);
        assert_eq!(short, 0);
        assert_eq!(nicer_by(0), (0, 0), "the control");
    }
}
