//! The queues of loops under loom: in every order of their steps (with a few interruptions of threads that could go on), no thread
//! sleeps while a job waits, no job is lost or run twice, and a loop has one driver.
//!
//! The source is the crate's own. Only what it stands on is loom's, or, for the controls, something that does not keep its promises:
//! fences that do nothing, and an exchange that is torn in two. With those, each scenario has to fail.

#![allow(dead_code, missing_docs)]

#[path = "../src/loops/bell.rs"]
mod bell;
#[path = "../src/loops/lane.rs"]
mod lane;
#[path = "../src/loops/queues.rs"]
mod queues;
#[path = "../src/loops/watch.rs"]
mod watch;

mod sync {
    use std::cell::Cell;

    pub(super) use loom::sync::MutexGuard;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// What is wrong with the primitives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Wrong {
        Nothing,
        Fences,
        Exchanges,
    }

    thread_local! {
        // Loom runs all threads of a scenario on the thread of its test.
        pub(super) static WRONG: Cell<Wrong> = const { Cell::new(Wrong::Nothing) };
    }

    pub(super) fn fence(order: Ordering) {
        if WRONG.get() != Wrong::Fences {
            loom::sync::atomic::fence(order);
        }
    }

    /// What nothing relies on needs no trying.
    #[derive(Debug, Default)]
    pub(super) struct Hint(std::sync::atomic::AtomicU64);

    impl Hint {
        pub(super) fn get(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        pub(super) fn set(&self, value: u64) {
            self.0.store(value, Ordering::Relaxed);
        }

        pub(super) fn raise(&self, by: u64) {
            self.set(self.get() + by);
        }

        pub(super) fn count_one(&self) {
            self.raise(1);
        }
    }

    pub(super) fn spin(_round: u32) {
        loom::thread::yield_now();
    }

    #[derive(Debug)]
    pub(super) struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(super) fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(super) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub(super) fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, order);
        }

        pub(super) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_add(value, order)
        }

        pub(super) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_sub(value, order)
        }

        pub(super) fn compare_exchange(
            &self,
            from: u64,
            to: u64,
            done: Ordering,
            not_done: Ordering,
        ) -> Result<u64, u64> {
            if WRONG.get() != Wrong::Exchanges {
                return self.0.compare_exchange(from, to, done, not_done);
            }
            let found = self.0.load(not_done);
            if found != from {
                return Err(found);
            }
            self.0.store(to, Ordering::Release);
            Ok(found)
        }
    }

    #[derive(Debug)]
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with it")
        }
    }

    #[derive(Debug)]
    pub(super) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(super) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("nobody panics with it")
        }

        pub(super) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

use std::process::Command;

use bell::Bell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use queues::{Found, Queues, Refusal, Rules};
use sync::{WRONG, Wrong};

/// Tries all orders with so many interruptions of a thread that could go on, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn check(interruptions_max: usize, scenario: fn()) {
    match std::env::var(WRONG_VARIABLE).as_deref() {
        Ok("Fences") => WRONG.set(Wrong::Fences),
        Ok("Exchanges") => WRONG.set(Wrong::Exchanges),
        _ => {}
    }
    let mut model = loom::model::Builder::new();
    // The environment may ask for more.
    model.preemption_bound = model.preemption_bound.or(Some(interruptions_max));
    model.max_branches = 10_000;
    model.check(scenario);
}

/// In a process of its own, since what goes wrong there may end it: the same with primitives that do not keep their promises has to fail
/// for one of these reasons.
fn control(test: &str, wrong: Wrong, reasons: &[&str]) {
    let this = std::env::current_exe().expect("a test has a file");
    let output = Command::new(this)
        .args([test, "--exact", "--nocapture"])
        .env(WRONG_VARIABLE, format!("{wrong:?}"))
        .output()
        .expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{test} finds nothing wrong");
    let is_expected = reasons.iter().any(|why| said.contains(why));
    assert!(is_expected, "{test} fails in another way: {said}");
}

/// What the control says to the process that it starts.
const WRONG_VARIABLE: &str = "HIVEWIRE_TEST_WRONG";

/// Queues whose jobs are numbers, and how often each was run.
struct Rig {
    queues: Queues<usize>,
    runs: Vec<AtomicUsize>,
    ended: AtomicUsize,
    /// How many threads drive the only lane.
    drivers: AtomicUsize,
}

impl Rig {
    fn new(lanes: usize, jobs: usize) -> Arc<Self> {
        let rules = Rules {
            lanes,
            queued_max: 8,
            hold_max_ns: 1_000_000,
            search_rounds: 0,
        };
        Arc::new(Self {
            queues: Queues::new(rules),
            runs: (0..jobs).map(|_| AtomicUsize::new(0)).collect(),
            ended: AtomicUsize::new(0),
            drivers: AtomicUsize::new(0),
        })
    }

    fn submit(&self, job: usize) {
        self.queues
            .submit(0, job, 0, || 0)
            .expect("there is room, and nobody stops");
    }

    /// The last job sends all home.
    fn run(&self, job: usize) {
        self.runs[job].fetch_add(1, Ordering::Relaxed);
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.runs.len() {
            self.queues.close();
        }
    }

    fn begin_and_run(&self, lane: usize, found: Found<usize>) -> bool {
        let run = self.queues.begin(lane, &found, 0);
        self.run(found.queued.job);
        self.queues.finish(lane, run, 0)
    }

    /// Drives a lane until all jobs have been run, or it is taken.
    fn drive(&self, lane: usize) {
        let mut taken = 0;
        while let Some(found) = self.queues.next(lane, &mut taken) {
            if !self.begin_and_run(lane, found) {
                return;
            }
        }
    }

    fn assert_each_ran_once(&self) {
        for runs in &self.runs {
            assert_eq!(runs.load(Ordering::Relaxed), 1);
        }
    }
}

fn spawn(rig: &Arc<Rig>, run: impl FnOnce(&Rig) + 'static) -> thread::JoinHandle<()> {
    let rig = rig.clone();
    thread::spawn(move || run(&rig))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

/// A thread goes to sleep while a job comes.
fn one_job_for_one_loop() {
    let rig = Rig::new(1, 1);
    let driver = spawn(&rig, |rig| rig.drive(0));
    rig.submit(0);
    join([driver]);
    rig.assert_each_ran_once();
}

/// Two submitters for one loop.
fn two_jobs_for_one_loop() {
    let rig = Rig::new(1, 2);
    let driver = spawn(&rig, |rig| rig.drive(0));
    let submitter = spawn(&rig, |rig| rig.submit(1));
    rig.submit(0);
    join([driver, submitter]);
    rig.assert_each_ran_once();
}

/// Jobs while one loop or both go to sleep. Each job stands for one that blocks until the other runs, so a second loop has to be awake for
/// the second job.
fn two_jobs_that_need_both_loops() {
    let rig = Rig::new(2, 2);
    let met = Arc::new([Bell::new(), Bell::new()]);
    let meet = |rig: &Rig, lane: usize, met: &[Bell; 2]| {
        let found = rig.queues.next(lane, &mut 0);
        let found = found.expect("nobody stops before both have run");
        let run = rig.queues.begin(lane, &found, 0);
        let job = found.queued.job;
        met[1 - job].ring();
        met[job].sleep();
        rig.runs[job].fetch_add(1, Ordering::Relaxed);
        rig.queues.finish(lane, run, 0);
    };
    let drivers = [0, 1].map(|lane| {
        let met = met.clone();
        spawn(&rig, move |rig| meet(rig, lane, &met))
    });
    rig.submit(0);
    rig.submit(1);
    join(drivers);
    rig.assert_each_ran_once();
}

/// A job submits another, and cannot end before it has: the other loop has to take it.
fn a_job_that_waits_for_another() {
    let rig = Rig::new(2, 2);
    let is_run = Arc::new(Bell::new());
    let drivers = [0, 1].map(|lane| {
        let is_run = is_run.clone();
        spawn(&rig, move |rig| {
            let found = rig.queues.next(lane, &mut 0);
            let found = found.expect("nobody stops");
            let run = rig.queues.begin(lane, &found, 0);
            let job = found.queued.job;
            match job {
                0 => {
                    rig.submit(1);
                    is_run.sleep();
                }
                _ => is_run.ring(),
            }
            rig.runs[job].fetch_add(1, Ordering::Relaxed);
            rig.queues.finish(lane, run, 0);
        })
    });
    rig.submit(0);
    join(drivers);
    rig.assert_each_ran_once();
}

/// The monitor takes a lane while its job ends; the next job is run by whoever has the lane.
fn a_lane_that_is_taken_while_its_job_ends() {
    let rig = Rig::new(1, 2);
    rig.submit(0);
    rig.submit(1);
    let monitor = spawn(&rig, |rig| {
        if let Some((run, _)) = rig.queues.running(0)
            && rig.queues.relieve(0, run)
        {
            drive_alone(rig);
        }
    });
    drive_alone(&rig);
    join([monitor]);
    rig.assert_each_ran_once();
}

/// Drives the only lane, and sees to it that nobody else does between two jobs.
fn drive_alone(rig: &Rig) {
    let mut taken = 0;
    loop {
        let others = rig.drivers.fetch_add(1, Ordering::Relaxed);
        assert_eq!(others, 0, "two threads drive one lane");
        let found = rig.queues.next(0, &mut taken);
        rig.drivers.fetch_sub(1, Ordering::Relaxed);
        let is_kept = found.is_some_and(|found| rig.begin_and_run(0, found));
        if !is_kept {
            return;
        }
    }
}

/// The monitor goes to sleep while a job begins that lasts until the monitor is awake.
fn a_monitor_that_goes_to_sleep() {
    let rig = Rig::new(1, 1);
    let has_looked = Arc::new(Bell::new());
    let looked = has_looked.clone();
    let monitor = spawn(&rig, move |rig| {
        let is_needed = || !rig.queues.is_idle();
        rig.queues.watch.sleep_unless(is_needed);
        looked.ring();
    });
    let driver = spawn(&rig, move |rig| {
        let found = rig.queues.next(0, &mut 0);
        let found = found.expect("nobody stops");
        rig.queues.begin(0, &found, 0);
        has_looked.sleep();
    });
    rig.submit(0);
    join([monitor, driver]);
}

/// A job is submitted while all is stopped: it is run, given back by the end, or refused, and only one of that.
fn a_job_while_all_stops() {
    let rig = Rig::new(1, 1);
    let driver = spawn(&rig, |rig| rig.drive(0));
    let stopper = spawn(&rig, |rig| {
        for job in rig.queues.close() {
            rig.runs[job].fetch_add(1, Ordering::Relaxed);
        }
    });
    if let Err((refusal, job)) = rig.queues.submit(0, 0, 0, || 0) {
        assert_eq!(refusal, Refusal::Sealed);
        rig.runs[job].fetch_add(1, Ordering::Relaxed);
    }
    join([driver, stopper]);
    rig.assert_each_ran_once();
    assert_eq!(rig.queues.queued(), 0);
}

/// Whoever sees that all has ended does not overlook a job that another one submitted.
fn an_end_that_is_seen() {
    let rig = Rig::new(1, 2);
    rig.submit(0);
    let driver = spawn(&rig, |rig| {
        let mut taken = 0;
        while let Some(found) = rig.queues.next(0, &mut taken) {
            let run = rig.queues.begin(0, &found, 0);
            let job = found.queued.job;
            if job == 0 {
                rig.submit(1);
            }
            rig.run(job);
            rig.queues.finish(0, run, 0);
        }
    });
    if rig.queues.progress(|| 0).is_all_ended() {
        assert_eq!(rig.ended.load(Ordering::Relaxed), 2);
    }
    join([driver]);
}

#[test]
fn one_loop_goes_to_sleep_while_a_job_comes() {
    check(5, one_job_for_one_loop);
}

#[test]
fn one_loop_goes_to_sleep_while_two_jobs_come() {
    check(2, two_jobs_for_one_loop);
}

#[test]
fn two_loops_go_to_sleep_while_jobs_come() {
    check(1, two_jobs_that_need_both_loops);
}

#[test]
fn another_loop_takes_what_a_job_submits() {
    check(1, a_job_that_waits_for_another);
}

#[test]
fn a_lane_has_one_driver() {
    check(3, a_lane_that_is_taken_while_its_job_ends);
}

#[test]
fn the_monitor_looks_while_a_job_runs() {
    check(2, a_monitor_that_goes_to_sleep);
}

#[test]
fn all_stops_while_a_job_comes() {
    check(2, a_job_while_all_stops);
}

#[test]
fn an_end_is_seen_only_when_it_is_there() {
    check(3, an_end_that_is_seen);
}

#[test]
fn control_without_fences_a_job_is_overlooked() {
    control(
        "one_loop_goes_to_sleep_while_a_job_comes",
        Wrong::Fences,
        &["deadlock"],
    );
    control(
        "two_loops_go_to_sleep_while_jobs_come",
        Wrong::Fences,
        &["deadlock"],
    );
    control(
        "another_loop_takes_what_a_job_submits",
        Wrong::Fences,
        &["deadlock"],
    );
    control(
        "the_monitor_looks_while_a_job_runs",
        Wrong::Fences,
        &["deadlock"],
    );
}

#[test]
fn control_with_torn_exchanges_a_lane_has_two_drivers() {
    control(
        "a_lane_has_one_driver",
        Wrong::Exchanges,
        &["two threads drive one lane", "deadlock"],
    );
}
