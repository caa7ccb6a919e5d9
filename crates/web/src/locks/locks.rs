//! All locks of a service.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::keys::{KeyWant, Keys, Shard};
use super::line::Line;
use super::numbers::{Clock, LockNumbers, Since};
use super::plan::{LockId, Plan, Step, Target};
use super::request::{HandedOver, Request};
use super::state::State;
use super::sync::MutexGuard;
use super::taken::{Overloaded, Parked, Taken};
use super::word::Kind;

/// How many locks there may be.
pub const LOCKS_MAX: usize = 1 << u16::BITS;

/// Adds up the locks of a service.
#[derive(Debug, Default)]
pub struct LocksBuilder {
    names: Vec<String>,
}

impl LocksBuilder {
    /// No locks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the lock of one state. The name is for people.
    ///
    /// # Panics
    /// If there are [`LOCKS_MAX`] already.
    pub fn add(&mut self, name: &str) -> LockId {
        let place = u16::try_from(self.names.len()).expect("a service has at most 65,536 states");
        self.names.push(name.to_owned());
        LockId(place)
    }

    /// The locks. At most so many requests wait for them at a time.
    pub fn build(self, waiting_max: usize) -> Arc<Locks> {
        let states = self.names.iter().map(|_| State::new()).collect();
        Arc::new(Locks {
            states,
            keys: Keys::new(),
            clock: Clock::new(),
            waiting: AtomicUsize::new(0),
            waiting_max,
            tickets: AtomicU64::new(0),
            names: self.names,
        })
    }
}

/// The locks of a service.
pub struct Locks {
    states: Box<[State]>,
    keys: Keys,
    clock: Clock,
    waiting: AtomicUsize,
    waiting_max: usize,
    tickets: AtomicU64,
    names: Vec<String>,
}

impl Locks {
    /// Takes all of the plan if all of it is free and nobody waits for any of it.
    ///
    /// # Panics
    /// If the plan names a lock that is not among these.
    #[inline]
    pub fn try_take(self: &Arc<Self>, plan: &Plan) -> Option<Taken> {
        let since = self.take_all(plan)?;
        Some(Taken::new(self.clone(), plan.clone(), since))
    }

    /// Takes all of the plan and calls `on_taken`: at once on this thread if all is free, else when it has its turn, on the
    /// thread that releases the last of it. No thread waits. If too many wait already, nothing is called.
    ///
    /// `on_taken` should be short, and put the work elsewhere: others whose turn it is are told after it, on the same thread. It must not
    /// wait for other requests. If it panics when it was not called at once, that is logged, and its locks are released.
    ///
    /// # Panics
    /// If the plan names a lock that is not among these.
    pub fn take_or_park(
        self: &Arc<Self>,
        plan: &Plan,
        on_taken: impl FnOnce(Taken) + Send + 'static,
    ) -> Result<Parked, Overloaded> {
        if let Some(taken) = self.try_take(plan) {
            on_taken(taken);
            return Ok(Parked::taken_at_once());
        }
        if !self.may_wait() {
            self.count_refused(plan);
            return Err(Overloaded);
        }
        let on_taken = Box::new(on_taken);
        let parked_ns = self.clock.now_ns();
        let mut handed_over = HandedOver::new(&self.clock);
        let request = {
            let mut places = Places::lock(self, plan);
            let ticket = self.tickets.fetch_add(1, Relaxed);
            let request = Request::new(ticket, plan.clone(), parked_ns, on_taken);
            places.place(&request, &mut handed_over);
            request
        };
        // It has all its places now, and may be told.
        handed_over.granted(request.clone());
        handed_over.tell(self);
        Ok(Parked::new(self.clone(), request))
    }

    /// What is known of one lock, as of now.
    pub fn numbers(&self, lock: LockId) -> LockNumbers {
        self.states[lock.index()].numbers()
    }

    /// All locks, in their order.
    pub fn ids(&self) -> impl Iterator<Item = LockId> + use<> {
        (0..self.names.len()).map(|place| LockId(place as u16))
    }

    /// What a lock was called when it was added.
    pub fn name(&self, lock: LockId) -> &str {
        &self.names[lock.index()]
    }

    /// How many requests wait now.
    pub fn waiting_now(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// How many requests may wait at a time.
    pub fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    /// How many keys are held or waited for now.
    pub fn keys_now(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// So many wait no longer.
    pub(super) fn no_longer_wait(&self, count: usize) {
        self.waiting.fetch_sub(count, Relaxed);
    }

    /// Takes all of it, or nothing. Says from when on the holding is to be measured.
    #[inline]
    fn take_all(self: &Arc<Self>, plan: &Plan) -> Option<Since> {
        // Checked before anything is taken: a panic between two locks would leave the first one taken.
        assert!(
            plan.reach() <= self.states.len(),
            "the plan names locks of another service"
        );
        if plan.has_more() {
            return self.take_many(plan);
        }
        let mut count = None;
        for (place, state) in plan.first().iter().enumerate() {
            let Some(taken_so_far) = self.states[state.lock().index()].take(state.kind()) else {
                self.give_back(plan, place);
                return None;
            };
            count.get_or_insert(taken_so_far);
        }
        Some(count.map_or(Since::UNMEASURED, |count| self.clock.sample(count)))
    }

    /// The same for a plan with keys or with many states.
    #[inline(never)]
    fn take_many(self: &Arc<Self>, plan: &Plan) -> Option<Since> {
        let mut count = None;
        for (place, step) in plan.steps().enumerate() {
            let Some(taken_so_far) = self.take(step) else {
                self.give_back(plan, place);
                return None;
            };
            count.get_or_insert(taken_so_far);
        }
        Some(count.map_or(Since::UNMEASURED, |count| self.clock.sample(count)))
    }

    /// Takes one; for a state, gives how often it was taken so far.
    fn take(&self, step: Step) -> Option<u64> {
        match step.target {
            Target::State(kind) => self.states[step.lock.index()].take(kind),
            Target::Key { writes } => self.keys.take(key_want(step, writes)).then_some(0),
        }
    }

    /// Gives back the first so many of a plan.
    #[cold]
    fn give_back(self: &Arc<Self>, plan: &Plan, count: usize) {
        let steps: Vec<Step> = plan.steps().take(count).collect();
        self.release_steps(steps.into_iter().rev(), |state, kind| state.give_back(kind));
    }

    /// Releases all of it, and tells those whose turn it is.
    #[inline]
    pub(super) fn release_all(self: &Arc<Self>, plan: &Plan, since: Since) {
        if since.is_measured() {
            self.measure_holding(plan, since);
        }
        if plan.has_more() {
            return self.release_many(plan);
        }
        let mut waited_for = 0u32;
        for (place, state) in plan.first().iter().enumerate() {
            let somebody_waits = self.states[state.lock().index()].release(state.kind());
            waited_for |= u32::from(somebody_waits) << place;
        }
        if waited_for != 0 {
            self.pass_on(plan, waited_for);
        }
    }

    /// Hands on those of the first states for which somebody waits.
    #[cold]
    fn pass_on(self: &Arc<Self>, plan: &Plan, waited_for: u32) {
        let mut handed_over = HandedOver::new(&self.clock);
        for (place, state) in plan.first().iter().enumerate() {
            if waited_for & 1 << place != 0 {
                self.states[state.lock().index()].pass_on(&mut handed_over);
            }
        }
        handed_over.tell(self);
    }

    /// The same as [`Locks::release_all`] for a plan with keys or with many states. Keys are released before their states.
    #[inline(never)]
    fn release_many(self: &Arc<Self>, plan: &Plan) {
        self.release_steps(plan.steps().rev(), |state, kind| state.release(kind));
    }

    /// Releases these, states as is said, and tells those whose turn it is.
    fn release_steps(
        self: &Arc<Self>,
        steps: impl Iterator<Item = Step>,
        release: impl Fn(&State, Kind) -> bool,
    ) {
        let mut handed_over = HandedOver::new(&self.clock);
        for step in steps {
            let state = &self.states[step.lock.index()];
            match step.target {
                Target::State(kind) => {
                    if release(state, kind) {
                        state.pass_on(&mut handed_over);
                    }
                }
                Target::Key { writes } => {
                    let want = key_want(step, writes);
                    self.keys.release(want, &state.counts, &mut handed_over);
                }
            }
        }
        handed_over.tell(self);
    }

    #[cold]
    fn measure_holding(&self, plan: &Plan, since: Since) {
        let (held_ns, weight) = since.elapsed(&self.clock);
        for (lock, _) in plan.on_states() {
            let counts = &self.states[lock.index()].counts;
            counts.holding.add(held_ns, weight);
        }
    }

    /// Ends the waiting of a request. Says whether it was never told and never will be.
    pub(super) fn cancel(self: &Arc<Self>, request: &Arc<Request>) -> bool {
        let mut handed_over = HandedOver::new(&self.clock);
        {
            let mut places = Places::lock(self, &request.plan);
            // Under these mutexes it is granted nothing, so one of the two has come first: the last grant, or this.
            if request.has_all() || request.is_withdrawn() {
                return request.is_withdrawn();
            }
            request.withdraw();
            places.withdraw(request, &mut handed_over);
        }
        self.no_longer_wait(1);
        // What was to be called may own anything, also other locks: it is dropped while no mutex is held.
        drop(request.take_on_taken());
        handed_over.tell(self);
        true
    }

    /// Counts one more that waits, if that is not too many.
    fn may_wait(&self) -> bool {
        let one_more = |waiting| (waiting < self.waiting_max).then(|| waiting + 1);
        self.waiting
            .fetch_update(Relaxed, Relaxed, one_more)
            .is_ok()
    }

    fn count_refused(&self, plan: &Plan) {
        for (lock, _) in plan.on_states() {
            let counts = &self.states[lock.index()].counts;
            counts.refused.fetch_add(1, Relaxed);
        }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Locks")
            .field("names", &self.names)
            .field("waiting_now", &self.waiting_now())
            .finish_non_exhaustive()
    }
}

fn key_want(step: Step, writes: bool) -> KeyWant {
    KeyWant {
        lock: step.lock,
        key: step.key,
        writes,
    }
}

/// The lines of all that a plan wants, under their mutexes. So a request takes its places in all of them in one step, and if it is
/// before another in one of them, it is before it in all. That is why no two wait for each other.
///
/// The mutexes are taken in the order of the states, then of the shards of the table of keys: whoever waits for one holds
/// only earlier ones.
struct Places<'locks> {
    locks: &'locks Locks,
    states: Vec<(&'locks State, Kind, MutexGuard<'locks, Line<Kind>>)>,
    keys: Vec<(usize, KeyWant)>,
    shards: Vec<(usize, MutexGuard<'locks, Shard>)>,
}

impl<'locks> Places<'locks> {
    fn lock(locks: &'locks Locks, plan: &Plan) -> Self {
        let states = plan.on_states().map(|(lock, kind)| {
            let state = &locks.states[lock.index()];
            (state, kind, state.line())
        });
        let states = states.collect();
        let keys = plan.steps().filter_map(|step| match step.target {
            Target::State(_) => None,
            Target::Key { writes } => {
                let want = key_want(step, writes);
                Some((locks.keys.shard_of(want), want))
            }
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_by_key(|&(shard, _)| shard);
        let mut shards: Vec<(usize, MutexGuard<'_, Shard>)> = Vec::new();
        for &(shard, _) in &keys {
            if shards.last().is_none_or(|&(last, _)| last != shard) {
                shards.push((shard, locks.keys.shard(shard)));
            }
        }
        Self {
            locks,
            states,
            keys,
            shards,
        }
    }

    fn place(&mut self, request: &Arc<Request>, handed_over: &mut HandedOver<'_>) {
        for (state, kind, line) in &mut self.states {
            state.place(*kind, request, line, handed_over);
        }
        self.each_key(|shard, want, state| shard.place(want, request, &state.counts, handed_over));
    }

    fn withdraw(&mut self, request: &Arc<Request>, handed_over: &mut HandedOver<'_>) {
        let ticket = request.ticket;
        self.each_key(|shard, want, state| {
            shard.withdraw(want, Some(ticket), &state.counts, handed_over);
        });
        for (state, kind, line) in &mut self.states {
            state.withdraw(*kind, ticket, line, handed_over);
        }
    }

    fn each_key(&mut self, mut act: impl FnMut(&mut Shard, KeyWant, &State)) {
        for &(place, want) in &self.keys {
            let shard = self.shards.iter_mut().find(|(shard, _)| *shard == place);
            if let Some((_, shard)) = shard {
                act(shard, want, &self.locks.states[want.lock.index()]);
            }
        }
    }
}
