//! One loop, without its thread: a queue, and what is run now.

use std::collections::VecDeque;

use super::bell::Bell;
use super::sync::{AtomicU64, AtomicUsize, Hint, Mutex, Ordering};

/// What the thread of a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is between two jobs, or has only just been given the lane. It looks into all queues before it sleeps.
    Looking,
    /// It runs a job. Only now can the lane be taken from it.
    Running,
    /// It found nothing and looks once more, for a short time. Nobody has to be woken for a new job.
    Searching,
    /// It sleeps, or is about to, and must be woken.
    Asleep,
}

/// The state of a lane and the number of its run, in one word, so that a thread that ends a job and the monitor that takes the
/// lane from it cannot both succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    fn new(run: u64, state: State) -> Self {
        Self(run << 2 | state as u64)
    }

    pub(super) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Looking,
            1 => State::Running,
            2 => State::Searching,
            _ => State::Asleep,
        }
    }

    pub(super) fn with(self, state: State) -> Self {
        Self::new(self.0 >> 2, state)
    }

    pub(super) fn next(self, state: State) -> Self {
        Self::new((self.0 >> 2) + 1, state)
    }
}

/// A job that waits, and for how long it is expected to hold its lane.
#[derive(Debug)]
pub(super) struct Queued<J> {
    pub(super) hold_ns: u64,
    pub(super) job: J,
}

#[derive(Debug)]
struct Queue<J> {
    jobs: VecDeque<Queued<J>>,
    pushed: u64,
    /// Nothing may be put in any more. It stands beside the jobs, so that none slips in behind the one who empties the queue.
    is_sealed: bool,
}

/// One loop. A thread drives it, and if it runs one job for too long another thread takes its place; the queue stays where it is.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lane<J> {
    word: AtomicU64,
    started_ns: Hint,
    hold_ns: Hint,
    queue: Mutex<Queue<J>>,
    /// The rest is written only by the one who holds the queue …
    length: AtomicUsize,
    queued_ns: Hint,
    pushed: AtomicU64,
    stolen: Hint,
    /// … or only by the thread that drives the lane.
    done: AtomicU64,
    busy_ns: Hint,
    pub(super) bell: Bell,
}

impl<J> Lane<J> {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::new(0, State::Looking).0),
            started_ns: Hint::default(),
            hold_ns: Hint::default(),
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                pushed: 0,
                is_sealed: false,
            }),
            length: AtomicUsize::new(0),
            queued_ns: Hint::default(),
            pushed: AtomicU64::new(0),
            stolen: Hint::default(),
            done: AtomicU64::new(0),
            busy_ns: Hint::default(),
            bell: Bell::new(),
        }
    }

    pub(super) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    pub(super) fn state(&self) -> State {
        self.word().state()
    }

    /// Only for the thread that drives the lane, and not while it runs a job.
    pub(super) fn set(&self, state: State) -> Word {
        let word = self.word().with(state);
        self.word.store(word.0, Ordering::Release);
        word
    }

    pub(super) fn change(&self, from: Word, to: Word) -> bool {
        let changed = self
            .word
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok()
    }

    /// A run begins. What is known of it is written before the word that publishes it.
    pub(super) fn begin(&self, hold_ns: u64, now_ns: u64) -> Word {
        self.started_ns.set(now_ns);
        self.hold_ns.set(hold_ns);
        let word = self.word().next(State::Running);
        self.word.store(word.0, Ordering::Release);
        word
    }

    pub(super) fn started_ns(&self) -> u64 {
        self.started_ns.get()
    }

    /// The thread that drives the lane has ended a job.
    pub(super) fn count_done(&self, busy_ns: u64) {
        self.busy_ns.raise(busy_ns);
        let done = self.done.load(Ordering::Relaxed) + 1;
        // Whoever sees this job as done sees also what it submitted.
        self.done.store(done, Ordering::Release);
    }

    /// The job comes back if the queue is sealed.
    pub(super) fn push(&self, queued: Queued<J>) -> Result<(), J> {
        let mut queue = self.queue.lock();
        if queue.is_sealed {
            return Err(queued.job);
        }
        self.queued_ns.raise(queued.hold_ns);
        queue.jobs.push_back(queued);
        self.length.store(queue.jobs.len(), Ordering::Relaxed);
        queue.pushed += 1;
        self.pushed.store(queue.pushed, Ordering::Release);
        Ok(())
    }

    /// The job that has waited longest.
    pub(super) fn pop(&self, steals: bool) -> Option<Queued<J>> {
        // A guess at first: an empty queue is not worth its lock. Whoever must know looks again after a fence.
        if self.is_empty() {
            return None;
        }
        let mut queue = self.queue.lock();
        let queued = queue.jobs.pop_front()?;
        self.length.store(queue.jobs.len(), Ordering::Relaxed);
        self.queued_ns.set(self.queued_ns.get() - queued.hold_ns);
        if steals {
            self.stolen.raise(1);
        }
        Some(queued)
    }

    /// Nothing more can be put in.
    pub(super) fn seal(&self) {
        self.queue.lock().is_sealed = true;
    }

    /// Gives back all that waits.
    pub(super) fn empty(&self) -> VecDeque<Queued<J>> {
        let mut queue = self.queue.lock();
        self.length.store(0, Ordering::Relaxed);
        self.queued_ns.set(0);
        std::mem::take(&mut queue.jobs)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// In how many nanoseconds a job that is queued now would begin, as far as one can tell. Nothing holds a lane for longer than
    /// `hold_max_ns`, because then another thread takes it.
    pub(super) fn free_in_ns(&self, now_ns: u64, hold_max_ns: u64) -> u64 {
        let runs_for_ns = match self.state() {
            State::Running => {
                let elapsed_ns = now_ns.saturating_sub(self.started_ns());
                remaining_ns(elapsed_ns, self.hold_ns.get(), hold_max_ns)
            }
            _ => 0,
        };
        runs_for_ns.saturating_add(self.queued_ns.get())
    }

    pub(super) fn counts(&self, now_ns: u64) -> LaneCounts {
        let runs_for_ns = match self.state() {
            State::Running => now_ns.saturating_sub(self.started_ns()),
            _ => 0,
        };
        LaneCounts {
            done: self.done(),
            stolen: self.stolen.get(),
            busy_ns: self.busy_ns.get() + runs_for_ns,
        }
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    pub(super) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }
}

/// What one lane has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneCounts {
    pub(super) done: u64,
    pub(super) stolen: u64,
    pub(super) busy_ns: u64,
}

/// How much longer a job holds its lane that has run for so long. What runs for longer than it was expected to is taken to be half
/// done.
pub(super) fn remaining_ns(elapsed_ns: u64, expected_ns: u64, hold_max_ns: u64) -> u64 {
    let guess_ns = match expected_ns > elapsed_ns {
        true => expected_ns - elapsed_ns,
        false => elapsed_ns,
    };
    match hold_max_ns > elapsed_ns {
        true => guess_ns.min(hold_max_ns - elapsed_ns),
        // Nobody could take the lane over: it is stuck, the longer the worse.
        false => guess_ns,
    }
}
