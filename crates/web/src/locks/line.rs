//! Those who wait for one lock, first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;

use super::request::Request;

/// A line of those who wait, and how each wants to hold the lock.
///
/// Tickets are given under the mutexes of all lines that a request joins, so they rise in every line, and one who leaves is
/// found by halving.
pub(super) struct Line<How> {
    waiters: VecDeque<Waiter<How>>,
}

/// One who waits.
pub(super) struct Waiter<How> {
    pub how: How,
    pub request: Arc<Request>,
}

impl<How> Line<How> {
    pub fn new() -> Self {
        Self {
            waiters: VecDeque::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub fn join(&mut self, how: How, request: Arc<Request>) {
        let last = self.waiters.back();
        debug_assert!(last.is_none_or(|last| last.request.ticket < request.ticket));
        self.waiters.push_back(Waiter { how, request });
    }

    /// Whose turn comes next.
    pub fn first(&self) -> Option<&Waiter<How>> {
        self.waiters.front()
    }

    /// The first has its turn.
    pub fn take_first(&mut self) -> Option<Waiter<How>> {
        self.waiters.pop_front()
    }

    /// Takes one out of the line, wherever it stands. It is not there if it has had its turn.
    pub fn leave(&mut self, ticket: u64) -> Option<Waiter<How>> {
        let by_ticket = |waiter: &Waiter<How>| waiter.request.ticket;
        let place = self.waiters.binary_search_by_key(&ticket, by_ticket).ok()?;
        self.waiters.remove(place)
    }
}
