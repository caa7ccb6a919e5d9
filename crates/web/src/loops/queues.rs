//! The queues of all loops: who takes which job, who sleeps, who is woken. No thread is made and no clock is read here.
//!
//! # Why no job is forgotten
//! A thread that goes to sleep first says so (the count, then the state of its lane), and then looks into all queues once more. Whoever
//! submits first puts the job in, and then looks who sleeps. Between the two steps of each stands a fence, so at least one of them sees
//! the other: the thread finds the job, or the submitter finds the sleeper.
//!
//! A submitter that finds a thread searching wakes nobody. The last thread that ends its search with a job therefore looks whether
//! there is another job, again with a fence between its saying so and its look, and wakes the next one if so.

use super::lane::{Lane, LaneCounts, Queued, State, Word};
use super::sync::{AtomicBool, AtomicU64, AtomicUsize, Hint, Ordering, fence, spin};
use super::watch::Watch;

/// The share of [`Queues::idle`] that counts threads that search; those that sleep are counted below it.
const SEARCHING: u64 = 1 << 32;
const ASLEEP: u64 = 1;

/// Every so many jobs a thread looks into another's queue first. Otherwise a queue whose thread is stuck could wait for ever while all
/// others have enough to do.
const OTHERS_FIRST_EVERY: u32 = 16;

/// At so many lanes a submitter looks if all are busy.
const LOOKED_AT_MAX: usize = 8;

/// What is expected of a job is never less, so that jobs of which nothing is known count too …
const HOLD_MIN_NS: u64 = 1_000;
/// … and never more, so that sums do not overflow.
const HOLD_LIMIT_NS: u64 = 1 << 31;

/// How queues behave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) lanes: usize,
    pub(super) queued_max: usize,
    /// After so long another thread takes the lane.
    pub(super) hold_max_ns: u64,
    /// How often a thread looks for work once more before it sleeps.
    pub(super) search_rounds: u32,
}

/// Why a job is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Sealed,
}

/// A job that a thread has found and must run now.
#[derive(Debug)]
pub(super) struct Found<J> {
    pub(super) queued: Queued<J>,
    /// The thread had nothing to do before.
    pub(super) searched: bool,
}

/// The queues of all loops.
#[derive(Debug)]
pub(super) struct Queues<J> {
    rules: Rules,
    lanes: Box<[Lane<J>]>,
    /// How many lanes search, and how many sleep: see [`SEARCHING`].
    idle: AtomicU64,
    queued: AtomicUsize,
    woken: Hint,
    is_closed: AtomicBool,
    pub(super) watch: Watch,
}

impl<J> Queues<J> {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            lanes: (0..rules.lanes).map(|_| Lane::new()).collect(),
            idle: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            woken: Hint::default(),
            is_closed: AtomicBool::new(false),
            watch: Watch::new(),
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Puts a job where it is expected to begin first, and wakes a thread if that is needed. The lanes are looked at from `first` on.
    pub(super) fn submit(
        &self,
        expected_ns: u64,
        job: J,
        first: usize,
        now_ns: impl FnOnce() -> u64,
    ) -> Result<(), (Refusal, J)> {
        if !self.reserve() {
            return Err((Refusal::Full, job));
        }
        let index = self.choose(first, now_ns);
        let hold_ns = self.hold_ns(expected_ns);
        if let Err(job) = self.lanes[index].push(Queued { hold_ns, job }) {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            return Err((Refusal::Sealed, job));
        }
        fence(Ordering::SeqCst);
        if self.lanes[index].state() == State::Asleep {
            // If that fails somebody else has woken it, and it will look.
            self.wake(index);
        } else {
            self.wake_one();
        }
        Ok(())
    }

    fn reserve(&self) -> bool {
        let one_more = |queued| (queued < self.rules.queued_max).then_some(queued + 1);
        self.queued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// For how long this job keeps others of its lane waiting.
    fn hold_ns(&self, expected_ns: u64) -> u64 {
        let most_ns = self.rules.hold_max_ns.clamp(HOLD_MIN_NS, HOLD_LIMIT_NS);
        expected_ns.clamp(HOLD_MIN_NS, most_ns)
    }

    /// Where a job would begin first: where a thread looks for one, else where one sleeps, else where least waits.
    fn choose(&self, first: usize, now_ns: impl FnOnce() -> u64) -> usize {
        if self.lanes.len() == 1 {
            return 0;
        }
        if self.idle.load(Ordering::Relaxed) != 0
            && let Some(index) = self.idle_lane(first)
        {
            return index;
        }
        let now_ns = now_ns();
        self.from(first)
            .take(LOOKED_AT_MAX)
            .min_by_key(|&index| self.lanes[index].free_in_ns(now_ns, self.rules.hold_max_ns))
            .unwrap_or(0)
    }

    fn idle_lane(&self, first: usize) -> Option<usize> {
        let mut asleep = None;
        for index in self.from(first) {
            let lane = &self.lanes[index];
            match lane.state() {
                State::Searching if lane.is_empty() => return Some(index),
                State::Asleep if asleep.is_none() => asleep = Some(index),
                _ => {}
            }
        }
        asleep
    }

    /// All lanes, beginning with this one.
    fn from(&self, first: usize) -> impl Iterator<Item = usize> + use<J> {
        let count = self.lanes.len();
        (0..count).map(move |step| (first + step) % count)
    }

    /// Wakes a thread if some sleep and none searches. A fence must lie between this and what was done before.
    fn wake_one(&self) {
        let idle = self.idle.load(Ordering::Relaxed);
        if idle >= SEARCHING || idle == 0 {
            return;
        }
        for index in 0..self.lanes.len() {
            if self.lanes[index].state() == State::Asleep && self.wake(index) {
                return;
            }
        }
    }

    fn wake(&self, index: usize) -> bool {
        let woken = self.leave_sleep(index);
        if woken {
            self.woken.count_one();
            // Only now, since the thread counts itself out of those that search.
            self.lanes[index].bell.ring();
        }
        woken
    }

    /// A lane that slept searches; true if nobody else was faster.
    fn leave_sleep(&self, index: usize) -> bool {
        let word = self.lanes[index].word();
        let left = word.state() == State::Asleep
            && self.lanes[index].change(word, word.with(State::Searching));
        if left {
            self.idle.fetch_add(SEARCHING - ASLEEP, Ordering::Relaxed);
        }
        left
    }

    /// The next job for this lane; none once all is closed. `taken` counts how many jobs the calling thread has had.
    pub(super) fn next(&self, index: usize, taken: &mut u32) -> Option<Found<J>> {
        if self.is_closed() {
            return None;
        }
        *taken = taken.wrapping_add(1);
        let queued = self.look(index, *taken);
        if let Some(queued) = queued {
            let searched = false;
            return Some(Found { queued, searched });
        }
        self.lanes[index].set(State::Searching);
        self.idle.fetch_add(SEARCHING, Ordering::Relaxed);
        let queued = self.search(index)?;
        let searched = true;
        Some(Found { queued, searched })
    }

    fn look(&self, index: usize, taken: u32) -> Option<Queued<J>> {
        let others_first = taken.is_multiple_of(OTHERS_FIRST_EVERY);
        // The first of the others is another one each time.
        let step = (taken / OTHERS_FIRST_EVERY) as usize;
        let queued = match others_first {
            true => self.steal(index, step).or_else(|| self.take(index, false)),
            false => self.take(index, false).or_else(|| self.steal(index, step)),
        };
        queued.inspect(|_| {
            self.queued.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn take(&self, index: usize, steals: bool) -> Option<Queued<J>> {
        self.lanes[index].pop(steals)
    }

    fn steal(&self, index: usize, step: usize) -> Option<Queued<J>> {
        self.from(index + 1 + step)
            .filter(|&other| other != index)
            .find_map(|other| self.take(other, true))
    }

    /// Looks for work, and sleeps if there is none, until there is some or all is closed.
    fn search(&self, index: usize) -> Option<Queued<J>> {
        loop {
            for round in 0..=self.rules.search_rounds {
                if self.is_closed() {
                    self.idle.fetch_sub(SEARCHING, Ordering::Relaxed);
                    self.lanes[index].set(State::Looking);
                    return None;
                }
                if let Some(queued) = self.look(index, 1) {
                    return Some(queued);
                }
                if round < self.rules.search_rounds {
                    spin(round);
                }
            }
            self.sleep(index);
        }
    }

    fn sleep(&self, index: usize) {
        self.idle.fetch_sub(SEARCHING - ASLEEP, Ordering::Relaxed);
        self.lanes[index].set(State::Asleep);
        fence(Ordering::SeqCst);
        let is_needed = self.is_any_queued() || self.is_closed();
        if is_needed && self.leave_sleep(index) {
            return;
        }
        self.lanes[index].bell.sleep();
    }

    fn is_any_queued(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// A job that was found begins. What is given back is wanted when it ends.
    pub(super) fn begin(&self, index: usize, found: &Found<J>, now_ns: u64) -> Word {
        let word = self.lanes[index].begin(found.queued.hold_ns, now_ns);
        if found.searched {
            let idle = self.idle.fetch_sub(SEARCHING, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.watch.wake();
            if idle / SEARCHING == 1 && self.is_any_queued() {
                self.wake_one();
            }
        }
        word
    }

    /// A job has ended. False if the lane was taken from the thread, which then must not touch it any more.
    pub(super) fn finish(&self, index: usize, run: Word, busy_ns: u64) -> bool {
        let lane = &self.lanes[index];
        let is_kept = lane.change(run, run.with(State::Looking));
        if is_kept {
            lane.count_done(busy_ns);
        }
        is_kept
    }

    /// The run of this lane, and since when it goes on.
    pub(super) fn running(&self, index: usize) -> Option<(Word, u64)> {
        let lane = &self.lanes[index];
        let word = lane.word();
        (word.state() == State::Running).then(|| (word, lane.started_ns()))
    }

    /// Takes the lane from its thread, unless the job has ended. Whoever gets true has to give the lane to another thread.
    pub(super) fn relieve(&self, index: usize, run: Word) -> bool {
        self.lanes[index].change(run, run.next(State::Looking))
    }

    #[cfg(test)]
    pub(super) fn state(&self, index: usize) -> State {
        self.lanes[index].state()
    }

    /// No lane has anything to do.
    pub(super) fn is_idle(&self) -> bool {
        let idle = self.idle.load(Ordering::Relaxed);
        idle / SEARCHING + idle % SEARCHING == self.lanes.len() as u64
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes no more jobs. Those that wait will run.
    pub(super) fn seal(&self) {
        for lane in &self.lanes {
            lane.seal();
        }
    }

    /// Takes no more jobs, sends all threads home, and gives back what was not begun.
    pub(super) fn close(&self) -> Vec<J> {
        self.seal();
        self.is_closed.store(true, Ordering::Relaxed);
        let waiting = self.lanes.iter().flat_map(Lane::empty);
        let left: Vec<J> = waiting.map(|queued| queued.job).collect();
        self.queued.fetch_sub(left.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for index in 0..self.lanes.len() {
            self.wake(index);
        }
        self.watch.wake();
        left
    }

    /// How many jobs were taken in so far, and how many of them have ended on a lane of their own. They are read in this order, so that a
    /// job that was submitted by another is never missed.
    pub(super) fn progress(&self, ended_elsewhere: impl FnOnce() -> u64) -> Progress {
        let on_lanes: u64 = self.lanes.iter().map(Lane::done).sum();
        let ended = on_lanes + ended_elsewhere();
        let accepted = self.lanes.iter().map(Lane::pushed).sum();
        Progress { accepted, ended }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn woken(&self) -> u64 {
        self.woken.get()
    }

    pub(super) fn counts(&self, now_ns: u64) -> impl Iterator<Item = LaneCounts> + '_ {
        self.lanes.iter().map(move |lane| lane.counts(now_ns))
    }
}

/// How far all is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) accepted: u64,
    pub(super) ended: u64,
}

impl Progress {
    pub(super) fn is_all_ended(self) -> bool {
        self.ended == self.accepted
    }
}
