//! The threads of the loops: who drives which lane, and how one takes the place of another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;

use super::desk::Desk;
use super::lane::Word;
use super::monitor;
use super::niceness::ThreadId;
use super::numbers::Tally;
use super::queues::{Queues, Rules};
use super::{Job, LoopNumbers, LoopsConfig};

/// How often a thread looks for work once more before it sleeps: some microseconds, which is about what waking it would take.
const SEARCH_ROUNDS: u32 = 16;

/// A spare thread that nobody needed for so long ends.
const SPARE_KEPT: Duration = Duration::from_secs(10);

/// Milliseconds that are longer than any job.
const LONG_AFTER_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The threads of the loops, and all that they share.
pub(super) struct Crew {
    pub(super) config: LoopsConfig,
    pub(super) long_after_ns: u64,
    pub(super) queues: Queues<Job>,
    pub(super) clock: Clock,
    pub(super) tally: Tally,
    desk: Desk,
    /// Who drives each lane. Locked while a lane is taken from its thread, so that this thread can find out what was done to it.
    drivers: Box<[Mutex<Option<Arc<Driver>>>]>,
    named: AtomicU64,
}

/// A thread that drives a lane, or did when its job became long.
#[derive(Debug)]
struct Driver {
    id: ThreadId,
    is_nicer: AtomicBool,
}

/// Nanoseconds since some time.
#[derive(Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Crew {
    pub(super) fn start(mut config: LoopsConfig) -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if config.loops == 0 {
            config.loops = cores;
        }
        config.queued_max = config.queued_max.max(1);
        config.long_after_ms = config.long_after_ms.clamp(1, LONG_AFTER_MS_MAX);
        let crew = Arc::new(Self::new(config, cores));
        for lane in 0..crew.config.loops {
            crew.reserve_spare().expect("the system gives a thread");
            crew.desk.give(lane);
        }
        crew.start_thread("monitor", monitor::watch)
            .expect("the system gives a thread");
        crew
    }

    fn new(config: LoopsConfig, cores: usize) -> Self {
        let long_after_ns = config.long_after_ms * 1_000_000;
        let rules = Rules {
            lanes: config.loops,
            queued_max: config.queued_max,
            hold_max_ns: match config.long_max {
                0 => u64::MAX,
                _ => long_after_ns + 1_000_000,
            },
            // On a single core nothing comes while one looks.
            search_rounds: if cores > 1 { SEARCH_ROUNDS } else { 0 },
        };
        Self {
            long_after_ns,
            queues: Queues::new(rules),
            clock: Clock(Instant::now()),
            tally: Tally::default(),
            desk: Desk::new(SPARE_KEPT),
            drivers: (0..config.loops).map(|_| Mutex::new(None)).collect(),
            named: AtomicU64::new(0),
            config,
        }
    }

    /// Sees to it that a thread waits for a lane, and for no other than is given next.
    fn reserve_spare(self: &Arc<Self>) -> io::Result<()> {
        if self.desk.reserve() {
            return Ok(());
        }
        self.desk.expect_reserved();
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let started = self.start_thread(&number.to_string(), serve);
        started.inspect_err(|_| self.desk.expect_one_less())
    }

    fn start_thread(self: &Arc<Self>, name: &str, run: fn(&Arc<Self>)) -> io::Result<()> {
        let crew = self.clone();
        self.tally.thread_started();
        let started = thread::Builder::new()
            .name(format!("{}-{name}", self.config.name))
            .spawn(move || {
                run(&crew);
                crew.tally.thread_ended();
            });
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                self.tally.thread_ended();
                Err(error)
            }
        }
    }

    /// Gives the lane to another thread, unless the job has ended meanwhile or there is none.
    pub(super) fn relieve(self: &Arc<Self>, lane: usize, run: Word) {
        if !self.tally.long_begun(self.config.long_max) {
            self.tally.long_refused();
            return;
        }
        if let Err(error) = self.reserve_spare() {
            self.tally.long_withdrawn();
            self.tally.long_refused();
            tracing::warn!(%error, "a loop is held up by a long job, and the system gives no other thread");
            return;
        }
        let driver = self.drivers[lane].lock();
        if !self.queues.relieve(lane, run) {
            self.tally.long_withdrawn();
            self.desk.release();
            return;
        }
        self.tally.long_confirmed();
        if let Some(driver) = &*driver {
            // The thread cannot have ended: it has yet to lock what is locked here.
            let is_nicer = driver.id.make_nicer();
            driver.is_nicer.store(is_nicer, Ordering::Relaxed);
        }
        drop(driver);
        self.desk.give(lane);
    }

    /// The calling thread ran a job for so long that its lane was taken. True if it was made nicer.
    fn end_long(&self, lane: usize, driver: &Driver, busy_ns: u64) -> bool {
        // Only after the one who took it is done with it.
        drop(self.drivers[lane].lock());
        self.tally.long_ended(busy_ns);
        driver.is_nicer.load(Ordering::Relaxed)
    }

    /// Runs jobs of this lane until all is closed or the lane is taken. True if the thread may serve on.
    fn drive(&self, lane: usize, driver: &Arc<Driver>) -> bool {
        *self.drivers[lane].lock() = Some(driver.clone());
        let mut taken = 0;
        let mut before_ended_ns = None;
        while let Some(found) = self.queues.next(lane, &mut taken) {
            let started_ns = match before_ended_ns {
                // The clock need not be read twice.
                Some(ended_ns) if !found.searched => ended_ns,
                _ => self.clock.now_ns(),
            };
            let run = self.queues.begin(lane, &found, started_ns);
            self.run(found.queued.job);
            let ended_ns = self.clock.now_ns();
            before_ended_ns = Some(ended_ns);
            let busy_ns = ended_ns.saturating_sub(started_ns);
            if !self.queues.finish(lane, run, busy_ns) {
                return !self.end_long(lane, driver, busy_ns);
            }
        }
        false
    }

    fn run(&self, job: Job) {
        if let Err(why) = catch_unwind(AssertUnwindSafe(job)) {
            self.tally.panicked();
            tracing::error!(why = said(&*why), "a job panicked");
            drop_quietly(why);
        }
    }

    /// Whether all that was taken in has ended or was dropped.
    pub(super) fn is_all_ended(&self) -> bool {
        let elsewhere = || self.tally.long_done() + self.tally.all_dropped();
        self.queues.progress(elsewhere).is_all_ended()
    }

    /// Takes no more jobs, drops those that wait, and sends the threads home.
    pub(super) fn close(&self) {
        let left = self.queues.close();
        self.desk.close();
        self.tally.dropped(left.len());
        left.into_iter().for_each(drop_quietly);
    }

    pub(super) fn numbers(&self) -> LoopNumbers {
        let mut numbers = self.tally.numbers();
        for counts in self.queues.counts(self.clock.now_ns()) {
            numbers.done += counts.done;
            numbers.stolen += counts.stolen;
            numbers.busy_ns += counts.busy_ns;
        }
        LoopNumbers {
            loops: self.config.loops,
            queued: self.queues.queued(),
            submitted: self.queues.progress(|| 0).accepted,
            woken: self.queues.woken(),
            ..numbers
        }
    }
}

/// The life of a thread: it drives one lane after another, as they are given to it.
fn serve(crew: &Arc<Crew>) {
    let driver = Arc::new(Driver {
        id: ThreadId::current(),
        is_nicer: AtomicBool::new(false),
    });
    while let Some(lane) = crew.desk.wait() {
        let may_serve_on = crew.drive(lane, &driver);
        if !may_serve_on || !crew.desk.rejoin(crew.config.loops) {
            return;
        }
    }
}

/// What somebody said when he panicked.
fn said(why: &(dyn std::any::Any + Send)) -> &str {
    let text = why.downcast_ref::<&str>().copied();
    text.or_else(|| why.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("nothing that can be shown")
}

/// Dropping what belongs to others may panic too. What comes of that is not dropped any more.
fn drop_quietly<T>(value: T) {
    if let Err(why) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(why);
    }
}
