//! What the host keeps beside an instance, and what a call may still use up.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use kernel::WorkerAddress;
use kernel::worker::{Failure, FailureKind, Incoming, InstanceLimits, Start, Turn, TurnLimits};
use wasmtime::ResourceLimiter;

use crate::failures::Stopped;
use crate::nobody::Nobody;
use crate::output::Output;
use crate::ticks::{TICK, Ticker};
use crate::wasi::Wasi;

/// Core instances, memories and tables that one instance may have; the pool has limits of its own.
const PARTS_MAX: usize = 1_000;

/// What the host keeps beside an instance.
pub(crate) struct Data {
    /// The turn in progress, or one that allows nothing.
    pub(crate) turn: Turn,
    /// Whether there is a turn in progress.
    pub(crate) in_turn: bool,
    /// What is known of the messages in hand.
    pub(crate) at_hand: AtHand,
    /// The address of the worker.
    pub(crate) address: WorkerAddress,
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryLimit,
    pub(crate) output: Arc<Output>,
    /// What the code said last about a panic of its own.
    pub(crate) panic: Option<String>,
    /// Made when it is first used: most workers never do.
    pub(crate) wasi: Option<Box<Wasi>>,
}

impl Data {
    pub(crate) fn new(start: &Start, ticker: Arc<Ticker>) -> Self {
        Self {
            turn: Turn::new(Nobody::shared(), TurnLimits::default()),
            in_turn: false,
            at_hand: AtHand::default(),
            address: start.address.clone(),
            budget: Budget::new(start.limits.clone(), ticker),
            memory: MemoryLimit::new(start.limits.memory_bytes_max),
            output: Arc::new(Output::default()),
            panic: None,
            wasi: None,
        }
    }

    /// Lets a turn in, or out again.
    pub(crate) fn exchange(&mut self, turn: &mut Turn, enters: bool) {
        std::mem::swap(&mut self.turn, turn);
        self.in_turn = enters;
    }

    /// Hands collected lines to the log, if somebody keeps one now.
    pub(crate) fn hand_out_lines(&self) {
        if self.in_turn {
            self.output
                .hand_out(|level, line| self.turn.log(level, line));
        }
    }
}

/// What is known of the messages in hand.
#[derive(Default)]
pub(crate) struct AtHand {
    messages: usize,
    /// What is needed to answer those that wait for an answer, and their places.
    answerable: Vec<(u32, Incoming)>,
}

impl AtHand {
    /// A list of so many messages comes into hand.
    pub(crate) fn take(&mut self, messages: usize) {
        self.messages = messages;
        self.answerable.clear();
    }

    /// The message at this place, which comes after those before, waits for an answer.
    pub(crate) fn expects(&mut self, place: usize, answerable: Incoming) {
        self.answerable.push((place as u32, answerable));
    }

    /// What is needed to answer the message at this place, if it waits for an answer.
    pub(crate) fn answerable(&self, place: u32) -> Option<&Incoming> {
        let found = self.answerable.binary_search_by_key(&place, |(at, _)| *at);
        found.ok().map(|found| &self.answerable[found].1)
    }

    /// Why there is no answer to what is at this place.
    pub(crate) fn no_answer(&self, place: u32) -> Failure {
        match self.messages {
            count if place as usize >= count => Failure::new(format!(
                "there is no message {place}: `handle` was given {count}"
            )),
            _ => Failure::new("the message names no address for a reply"),
        }
    }
}

/// What a call may still use up.
pub(crate) struct Budget {
    pub(crate) limits: InstanceLimits,
    ticker: Arc<Ticker>,
    ticks_max: u64,
    host_calls_left: u32,
    deadline: u64,
    /// How long the call has waited for its state.
    waited: Cell<Duration>,
}

impl Budget {
    fn new(limits: InstanceLimits, ticker: Arc<Ticker>) -> Self {
        let ticks_max = Ticker::until(limits.call_ms_max);
        Self {
            host_calls_left: limits.host_calls_max,
            deadline: 0,
            waited: Cell::default(),
            limits,
            ticker,
            ticks_max,
        }
    }

    /// A call begins. Gives the ticks that it has.
    pub(crate) fn begin(&mut self) -> u64 {
        self.host_calls_left = self.limits.host_calls_max;
        self.waited.set(Duration::ZERO);
        self.deadline = self.ticker.now().saturating_add(self.ticks_max);
        self.ticks_max
    }

    /// The guest calls the host.
    pub(crate) fn host_call(&mut self) -> Result<(), Stopped> {
        match self.host_calls_left.checked_sub(1) {
            Some(left) => self.host_calls_left = left,
            None => {
                let reason = format!(
                    "one call may call the host {} times, not more: do less in one call, or raise host_calls_max of the stage",
                    self.limits.host_calls_max
                );
                return Err(Stopped(Failure::of(FailureKind::Limit, reason)));
            }
        }
        match self.ticker.now() >= self.deadline {
            true => Err(self.too_late()),
            false => Ok(()),
        }
    }

    /// How long the call may still take.
    pub(crate) fn time_left(&self) -> Duration {
        let ticks = self.deadline.saturating_sub(self.ticker.now());
        TICK.saturating_mul(ticks.try_into().unwrap_or(u32::MAX))
    }

    /// The call has waited for its state since it had so much time left.
    pub(crate) fn waited_since(&self, time_left: Duration) {
        let waited = time_left.saturating_sub(self.time_left());
        self.waited.set(self.waited.get() + waited);
    }

    /// The failure of a call that took too long: its own, unless it waited for its state half of the
    /// time or more.
    pub(crate) fn too_late(&self) -> Stopped {
        if self.waited.get() * 2 >= Duration::from_millis(self.limits.call_ms_max) {
            let reason = format!(
                "its state could not be read within {} ms: it is tried again once the store answers",
                self.limits.call_ms_max
            );
            return Stopped(Failure::of(FailureKind::Host, reason));
        }
        let reason = format!(
            "the call took longer than {} ms: do less in one call, or raise call_ms_max of the stage",
            self.limits.call_ms_max
        );
        Stopped(Failure::of(FailureKind::Deadline, reason))
    }
}

/// Bounds the memory of an instance, over all the memories that it has.
pub(crate) struct MemoryLimit {
    bytes: usize,
    bytes_max: usize,
    /// Whether more was asked for.
    pub(crate) exceeded: bool,
}

impl MemoryLimit {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: 0,
            bytes_max,
            exceeded: false,
        }
    }

    /// The failure of a call that wanted more.
    pub(crate) fn failure(&self) -> Failure {
        let reason = format!(
            "it wanted more than {} bytes of memory: keep less, or raise memory_bytes_max of the stage",
            self.bytes_max
        );
        Failure::of(FailureKind::Limit, reason)
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = self.bytes.saturating_sub(current).saturating_add(desired);
        if bytes > self.bytes_max || maximum.is_some_and(|maximum| desired > maximum) {
            // The guest may cope with it, so this alone is no reason to stop it.
            self.exceeded = true;
            return Ok(false);
        }
        self.bytes = bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The pool bounds every table.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        PARTS_MAX
    }

    fn tables(&self) -> usize {
        PARTS_MAX
    }

    fn memories(&self) -> usize {
        PARTS_MAX
    }
}
