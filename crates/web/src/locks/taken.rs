//! What a request gets: its locks, or a place where it waits for them.

use std::fmt;
use std::sync::Arc;

use super::locks::Locks;
use super::numbers::Since;
use super::plan::Plan;
use super::request::Request;

/// All locks of a plan, taken. They are released when this is dropped, and handed to those whose turn it is.
#[must_use = "the locks are released when this is dropped"]
pub struct Taken {
    locks: Arc<Locks>,
    plan: Plan,
    since: Since,
}

impl Taken {
    #[inline]
    pub(super) fn new(locks: Arc<Locks>, plan: Plan, since: Since) -> Self {
        Self { locks, plan, since }
    }

    /// What is taken.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        self.locks.release_all(&self.plan, self.since);
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Taken").field(&self.plan).finish()
    }
}

/// A request that was given its locks, or its places in the lines for them. Dropping this changes nothing: it still gets its turn.
pub struct Parked {
    /// None if it did not have to wait.
    place: Option<(Arc<Locks>, Arc<Request>)>,
}

impl Parked {
    pub(super) fn taken_at_once() -> Self {
        Self { place: None }
    }

    pub(super) fn new(locks: Arc<Locks>, request: Arc<Request>) -> Self {
        let place = Some((locks, request));
        Self { place }
    }

    /// Ends the waiting: takes the request out of all lines and hands on what it had been granted. True if `on_taken` was not
    /// called and never will be, also when asked again; false if it has all its locks, and `on_taken` was called or is about to be.
    pub fn cancel(&self) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|(locks, request)| locks.cancel(request))
    }

    /// Whether it still waits.
    pub fn is_waiting(&self) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|(_, request)| !request.has_all() && !request.is_withdrawn())
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Parked");
        shown.field("is_waiting", &self.is_waiting()).finish()
    }
}

/// As many requests wait as may. This one was not given a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait for locks already")]
pub struct Overloaded;
