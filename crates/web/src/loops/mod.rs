//! Event loops that run handlers.
//!
//! This is the simplest thing that is correct: threads that share one queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What a loop runs.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// How loops are set up.
#[derive(Clone, Debug)]
pub struct LoopsConfig {
    /// How many loops there are.
    pub loops: usize,
    /// How many jobs may wait, in all.
    pub queued_max: usize,
    /// A job that runs for longer is a long one.
    pub long_after_ms: u64,
    /// How many long jobs may run at once, each on a thread of its own.
    pub long_max: usize,
    /// What names of threads begin with.
    pub name: String,
}

impl Default for LoopsConfig {
    fn default() -> Self {
        Self {
            loops: std::thread::available_parallelism().map_or(1, usize::from),
            queued_max: 10_000,
            long_after_ms: 2,
            long_max: 64,
            name: "loop".to_owned(),
        }
    }
}

/// The queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What loops did so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopNumbers {
    /// How many loops there are.
    pub loops: usize,
    /// How many jobs wait now.
    pub queued: usize,
    /// How many jobs are done.
    pub done: u64,
}

struct Queue {
    jobs: VecDeque<Job>,
    is_stopped: bool,
}

/// Threads that run jobs.
pub struct Loops {
    queue: Mutex<Queue>,
    changed: Condvar,
    done: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    config: LoopsConfig,
}

impl Loops {
    /// Starts the threads.
    pub fn start(config: LoopsConfig) -> Arc<Loops> {
        let loops = Arc::new(Loops {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                is_stopped: false,
            }),
            changed: Condvar::new(),
            done: AtomicU64::new(0),
            threads: Mutex::default(),
            config,
        });
        let threads = (0..loops.config.loops).map(|number| {
            let running = Arc::clone(&loops);
            std::thread::Builder::new()
                .name(format!("{}-{number}", loops.config.name))
                .spawn(move || running.run())
                .expect("a thread can be started")
        });
        *loops.threads.lock() = threads.collect();
        loops
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let job = loop {
                match queue.jobs.pop_front() {
                    Some(job) => break job,
                    None if queue.is_stopped => return,
                    None => self.changed.wait(&mut queue),
                }
            };
            drop(queue);
            let _ = catch_unwind(AssertUnwindSafe(job));
            self.done.fetch_add(1, Relaxed);
        }
    }

    /// Runs this as soon as a loop is free.
    pub fn submit(&self, _expected_ns: u64, job: Job) -> Result<(), (Full, Job)> {
        let mut queue = self.queue.lock();
        if queue.is_stopped || queue.jobs.len() >= self.config.queued_max {
            return Err((Full, job));
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// What happened so far.
    pub fn numbers(&self) -> LoopNumbers {
        LoopNumbers {
            loops: self.config.loops,
            queued: self.queue.lock().jobs.len(),
            done: self.done.load(Relaxed),
        }
    }

    /// Takes no more jobs and lets what runs and waits end. True if that was done in time.
    pub fn stop(&self, within: Duration) -> bool {
        self.queue.lock().is_stopped = true;
        self.changed.notify_all();
        let until = Instant::now() + within;
        let threads = self.threads.lock();
        while !threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}
