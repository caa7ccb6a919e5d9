//! Threads that run handlers.
//!
//! [`Loops`] are event loops: each has a queue of its own and a thread that drives it, one for each core as a rule. A job goes to the loop
//! where it is expected to begin first, and a loop without work takes it from the others, so no job waits while a loop is free.
//!
//! # Jobs may be long
//! A job may compute for long, or block. A monitor notices when a loop has run one job for longer than
//! [`long_after_ms`](LoopsConfig::long_after_ms) and gives the loop, with its queue, to another thread. The thread that runs the job is a
//! *long* one from then on: on Linux it becomes nicer, so that short jobs go before it, and it ends with its job, since only privileged
//! threads can take niceness back. There are at most [`long_max`](LoopsConfig::long_max) of them; beyond that jobs wait in
//! the queues, and the loops that are still free take them from there.
//!
//! What a long thread starts inherits its niceness: a job should not be the first user of a lazily made pool of threads.
//!
//! # In which order
//! Each queue is first in, first out. A loop serves its own queue, but every sixteenth job it takes from another's if there is one, so a job
//! in the queue of a loop that is stuck is begun after at most 16 jobs for each other queue, wherever a loop is free at times. There is no
//! order between jobs of different queues.
//!
//! # What it costs
//! No thread is woken for nothing. A thread that finds no job looks for a moment and then sleeps; to submit wakes one only if some sleep and
//! all others have something to do. The monitor sleeps while there is nothing to do, and otherwise looks once every
//! millisecond at most.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! use web::loops::{Loops, LoopsConfig};
//!
//! let loops = Loops::start(LoopsConfig::default());
//! let (say, hear) = mpsc::channel();
//! let job = Box::new(move || say.send(6 * 7).expect("somebody listens"));
//! loops.submit(1_000, job).map_err(|(full, _)| full)?;
//! assert_eq!(hear.recv(), Ok(42));
//! assert!(loops.stop(Duration::from_secs(10)));
//! # Ok::<(), web::loops::Full>(())
//! ```
//!
//! What it deliberately does not do: it has no timers, gives no results back, and knows nothing of requests and locks.

mod bell;
mod crew;
mod desk;
mod lane;
mod monitor;
mod niceness;
mod numbers;
mod queues;
#[cfg(test)]
mod queues_tests;
mod sync;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crew::Crew;
pub use numbers::LoopNumbers;
use queues::Refusal;

/// What loops run.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// How long one can wait for loops to stop; more is taken to be this.
const STOP_WITHIN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often it is looked whether all has ended, while loops stop.
const STOP_LOOK: Duration = Duration::from_millis(1);

/// How many loops there are, and within which bounds they work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopsConfig {
    /// How many jobs run at once, apart from long ones; 0 is one for each core.
    pub loops: usize,
    /// How many jobs may wait in all queues together.
    pub queued_max: usize,
    /// After how many milliseconds a job is long: another thread takes the place of the one that runs it. At least 1.
    pub long_after_ms: u64,
    /// How many long jobs may run besides the loops; 0 means that no thread is ever replaced.
    pub long_max: usize,
    /// What the names of the threads begin with.
    pub name: String,
}

impl Default for LoopsConfig {
    fn default() -> Self {
        Self {
            loops: 0,
            queued_max: 10_000,
            long_after_ms: 2,
            long_max: 64,
            name: "loop".to_owned(),
        }
    }
}

/// Why a job was not taken. The job comes back with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// As many jobs wait as may wait.
    #[error("{queued_max} jobs wait for a loop, which is the limit; try again later")]
    Queues {
        /// The limit.
        queued_max: usize,
    },
    /// The loops were stopped.
    #[error("the loops were stopped and take no more jobs")]
    Stopped,
}

/// Event loops that run jobs.
///
/// They stop when this is dropped: jobs that wait are dropped, and those that run end by themselves.
pub struct Loops {
    crew: Arc<Crew>,
}

impl Loops {
    /// Starts the threads.
    ///
    /// # Panics
    /// If the system refuses a thread, as [`std::thread::spawn`] does.
    pub fn start(config: LoopsConfig) -> Arc<Self> {
        let crew = Crew::start(config);
        Arc::new(Self { crew })
    }

    /// Gives a job to the loop where it is expected to begin first. `expected_ns` is for how long the job is expected to run, 0 if nobody
    /// knows; it only serves to choose well. Never blocks.
    ///
    /// A job that is refused comes back, with the reason.
    pub fn submit(&self, expected_ns: u64, job: Job) -> Result<(), (Full, Job)> {
        let crew = &self.crew;
        let first = fastrand::usize(..crew.queues.lanes());
        let submitted = crew
            .queues
            .submit(expected_ns, job, first, || crew.clock.now_ns());
        submitted.map_err(|(refusal, job)| {
            crew.tally.refused();
            let full = match refusal {
                Refusal::Full => Full::Queues {
                    queued_max: crew.config.queued_max,
                },
                Refusal::Sealed => Full::Stopped,
            };
            (full, job)
        })
    }

    /// What the loops do and have done.
    pub fn numbers(&self) -> LoopNumbers {
        self.crew.numbers()
    }

    /// Lets what was submitted end for so long, then takes no more jobs, drops those that wait, and sends the threads home. True if all jobs
    /// have ended in time.
    ///
    /// Jobs are taken until then, because those that run may need others to end; so stop what brings new ones first. A job that still
    /// runs when time is up is left to itself, and its thread ends with it.
    pub fn stop(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within.min(STOP_WITHIN_MAX);
        poll_until(deadline, || self.crew.is_all_ended());
        self.crew.queues.seal();
        // What was submitted in between may still end.
        let is_ended = poll_until(deadline, || self.crew.is_all_ended());
        self.crew.close();
        poll_until(deadline, || self.crew.numbers().threads == 0);
        is_ended && self.crew.numbers().dropped == 0
    }
}

/// Looks at least once; false if the deadline came first.
fn poll_until(deadline: Instant, is_so: impl Fn() -> bool) -> bool {
    loop {
        if is_so() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(STOP_LOOK));
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.crew.close();
    }
}

impl fmt::Debug for Loops {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Loops")
            .field("config", &self.crew.config)
            .field("numbers", &self.numbers())
            .finish()
    }
}
