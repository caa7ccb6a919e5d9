//! What is known of one connection by all who have to do with it: its deadlines and its numbers.
//!
//! The connection's own task writes nearly all of it; others read. So plain loads and stores of
//! atomics serve, and cost what ordinary memory does.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::task::Waker;

use parking_lot::Mutex;

use super::refusal::Refused;
use super::watch::{Edge, Traffic};

/// No deadline.
const NEVER: u64 = u64::MAX;

/// What is known of a connection.
pub(super) struct Watched {
    pub edge: Arc<Edge>,
    pub id: u64,
    /// Whom it is counted with.
    pub group: IpAddr,
    /// Requests that were given to hyper.
    pub passed: Count,
    /// Requests that the service has seen.
    pub called: Count,
    /// Requests whose answer is done with.
    pub answered: Count,
    pub bytes_read: Count,
    pub bytes_written: Count,
    /// All that hyper has written is with the socket.
    is_flushed: AtomicBool,
    /// A head has begun to come.
    has_part: AtomicBool,
    /// Until when the next request, or the rest of its headers, must have come.
    input_due: AtomicU64,
    /// Until when a handler waits for more of a body.
    body_due: AtomicU64,
    /// Until when the client must have taken what was written.
    write_due: AtomicU64,
    /// What became of a request that might switch to another protocol.
    switch: AtomicU8,
    /// Somebody wants the connection to look at its deadlines and at whether the server ends.
    called_upon: AtomicBool,
    is_refused: AtomicBool,
    refused: Mutex<Option<(Refused, Where)>>,
    wakers: Mutex<[Option<Waker>; 2]>,
}

/// Who waits.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// The task of the connection; once that has switched, whoever reads from it.
    Read,
    /// Whoever writes to a connection that has switched.
    Write,
}

/// Where something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the head of a request, which hyper has not seen.
    Head,
    /// In the body of a request that a handler has already.
    Body,
}

/// What became of a request that might switch to another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// It is not answered yet.
    Unknown,
    /// The connection speaks HTTP as before.
    Stayed,
    /// The connection speaks something else from now on.
    Switched,
}

/// A number that one task counts and others read.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, number: u64) {
        self.0.store(self.get() + number, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Watched {
    pub fn new(edge: Arc<Edge>, id: u64, group: IpAddr) -> Self {
        Self {
            edge,
            id,
            group,
            passed: Count::default(),
            called: Count::default(),
            answered: Count::default(),
            bytes_read: Count::default(),
            bytes_written: Count::default(),
            is_flushed: AtomicBool::new(true),
            has_part: AtomicBool::new(false),
            input_due: AtomicU64::new(NEVER),
            body_due: AtomicU64::new(NEVER),
            write_due: AtomicU64::new(NEVER),
            switch: AtomicU8::new(Switch::Stayed as u8),
            // A server that ends may have called all connections before this one came.
            called_upon: AtomicBool::new(true),
            is_refused: AtomicBool::new(false),
            refused: Mutex::new(None),
            wakers: Mutex::default(),
        }
    }

    pub fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.called.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
        }
    }

    /// Whether all requests that were let through are answered.
    pub fn is_idle(&self) -> bool {
        self.answered.get() == self.passed.get()
    }

    pub fn await_input_until(&self, due: u64) {
        self.input_due.store(due, Relaxed);
    }

    pub fn await_no_input(&self) {
        self.input_due.store(NEVER, Relaxed);
    }

    pub fn await_body_until(&self, due: u64) {
        self.body_due.store(due, Relaxed);
    }

    pub fn await_no_body(&self) {
        self.body_due.store(NEVER, Relaxed);
    }

    /// The client does not take what is written. It must have done so within the limit.
    pub fn write_is_stuck(&self) {
        if self.write_due.load(Relaxed) == NEVER {
            let due = self.edge.in_ms(self.edge.limits.write_timeout_ms);
            self.write_due.store(due, Relaxed);
        }
    }

    /// The client took so many bytes. If it was late, it has gained as much time as it would need for
    /// them at the least speed there may be.
    pub fn wrote(&self, bytes: usize) {
        self.bytes_written.add(bytes as u64);
        let due = self.write_due.load(Relaxed);
        if due != NEVER {
            let limits = &self.edge.limits;
            let gained_ms = bytes as u64 * 1_000 / limits.write_bytes_per_second_min;
            let most = self.edge.in_ms(limits.write_timeout_ms);
            self.write_due.store(most.min(due + gained_ms), Relaxed);
        }
    }

    /// Nothing is left to be written.
    pub fn wrote_all(&self) {
        self.write_due.store(NEVER, Relaxed);
    }

    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.input_is_overdue(now_ms)
            || self.body_is_overdue(now_ms)
            || self.write_is_overdue(now_ms)
    }

    pub fn input_is_overdue(&self, now_ms: u64) -> bool {
        self.input_due.load(Relaxed) <= now_ms
    }

    pub fn body_is_overdue(&self, now_ms: u64) -> bool {
        self.body_due.load(Relaxed) <= now_ms
    }

    pub fn write_is_overdue(&self, now_ms: u64) -> bool {
        self.write_due.load(Relaxed) <= now_ms
    }

    pub fn is_flushed(&self) -> bool {
        self.is_flushed.load(Relaxed)
    }

    pub fn set_flushed(&self, flushed: bool) {
        self.is_flushed.store(flushed, Relaxed);
    }

    pub fn has_part(&self) -> bool {
        self.has_part.load(Relaxed)
    }

    pub fn set_part(&self, part: bool) {
        self.has_part.store(part, Relaxed);
    }

    /// Refuses whatever comes over this connection from now on. The first refusal stands.
    pub fn refuse(&self, refused: Refused, place: Where) {
        let mut slot = self.refused.lock();
        if slot.is_none() {
            *slot = Some((refused, place));
            self.edge.count(refused.reason);
            self.is_refused.store(true, Release);
        }
    }

    pub fn refused(&self) -> Option<(Refused, Where)> {
        match self.is_refused.load(Acquire) {
            true => *self.refused.lock(),
            false => None,
        }
    }

    pub fn switch(&self) -> Switch {
        match self.switch.load(Acquire) {
            stayed if stayed == Switch::Stayed as u8 => Switch::Stayed,
            switched if switched == Switch::Switched as u8 => Switch::Switched,
            _ => Switch::Unknown,
        }
    }

    pub fn set_switch(&self, switch: Switch) {
        self.switch.store(switch as u8, Release);
        if switch == Switch::Stayed {
            // What came meanwhile was held back, and nobody waits for more.
            self.wake(Side::Read);
        }
    }

    /// Has the connection look at its deadlines and at whether the server ends.
    pub fn call(&self) {
        self.called_upon.store(true, Release);
        let wakers = self.wakers.lock();
        for waker in wakers.iter().flatten() {
            waker.wake_by_ref();
        }
    }

    /// Whether it was called upon; only once for each time.
    pub fn take_call(&self) -> bool {
        self.called_upon.load(Relaxed) && self.called_upon.swap(false, Acquire)
    }

    /// Notes whom to wake.
    pub fn wake_me(&self, side: Side, waker: &Waker) {
        let slot = &mut self.wakers.lock()[side as usize];
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    fn wake(&self, side: Side) {
        if let Some(waker) = &self.wakers.lock()[side as usize] {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::EdgeLimits;
    use super::*;

    fn watched() -> Arc<Watched> {
        let edge = Edge::new(EdgeLimits {
            write_timeout_ms: 10_000,
            write_bytes_per_second_min: 1_000,
            ..EdgeLimits::default()
        });
        edge.admit(IpAddr::from([127, 0, 0, 1])).unwrap()
    }

    /// How many seconds a client lasts that takes so many bytes a second.
    fn seconds_lasted(bytes_per_second: usize) -> u64 {
        let watched = watched();
        watched.write_is_stuck();
        for second in 1..100 {
            for _ in 0..4 {
                watched.edge.advance(std::time::Duration::from_millis(250));
            }
            if watched.write_is_overdue(watched.edge.now_ms()) {
                return second;
            }
            watched.wrote(bytes_per_second);
            watched.write_is_stuck();
        }
        100
    }

    #[test]
    fn a_reader_must_keep_to_the_least_speed() {
        assert!(seconds_lasted(0) <= 11);
        assert!((12..100).contains(&seconds_lasted(500)));
        assert_eq!(seconds_lasted(1_000), 100);
        assert_eq!(seconds_lasted(1_000_000), 100);
    }

    #[test]
    fn time_gained_by_speed_is_no_more_than_the_limit() {
        let watched = watched();
        watched.write_is_stuck();
        watched.wrote(1_000_000);
        for _ in 0..41 {
            watched.edge.advance(std::time::Duration::from_millis(250));
        }
        assert!(watched.write_is_overdue(watched.edge.now_ms()));
    }

    #[test]
    fn the_first_refusal_stands_and_is_counted_once() {
        let watched = watched();
        watched.refuse(Refused::malformed("first"), Where::Head);
        watched.refuse(Refused::malformed("second"), Where::Body);
        let refused = watched.refused().unwrap();
        assert_eq!((refused.0.detail, refused.1), ("first", Where::Head));
        let numbers = watched.edge.numbers();
        assert_eq!(numbers.refused(super::super::Refusal::Malformed), 1);
    }
}
