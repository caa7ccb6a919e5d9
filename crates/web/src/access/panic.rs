//! What becomes of a state when a handler panics that holds it exclusively.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::extract::Problem;
use crate::locks::{Mode, Want};

use super::claim::Claim;
use super::storage::{Held, StateCell};

/// What is done with a state after a handler panicked while it held it exclusively, so that it may be half-changed.
///
/// The request that panicked is answered with 500 in any case. A state that was only read is as it was.
#[non_exhaustive]
pub enum OnPanic<T> {
    /// Requests that want the state get 503 with the reason, until it is
    /// [released](crate::service::Running::release) by hand.
    Quarantine,
    /// It is made anew. See [`OnPanic::reset`].
    Reset(Box<dyn Fn() -> T + Send + Sync>),
    /// It becomes what it was before. See [`OnPanic::roll_back`].
    RollBack {
        /// How a snapshot is taken.
        snapshot: fn(&T) -> T,
        /// After so many writes a new snapshot is taken.
        every_writes: u64,
        /// After this time a new snapshot is taken before the next write.
        every: Duration,
    },
}

impl<T> OnPanic<T> {
    /// Makes the state anew.
    pub fn reset(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::Reset(Box::new(make))
    }
}

impl<T: Clone> OnPanic<T> {
    /// Goes back to what the state was before the write that panicked: it is copied before each write.
    pub fn roll_back() -> Self {
        Self::roll_back_every(1, Duration::MAX)
    }

    /// Goes back to the last snapshot. One is taken before a write, if there were so many writes, or so much time passed,
    /// since the one before; writes since then are lost with the panic.
    pub fn roll_back_every(writes: u64, time: Duration) -> Self {
        Self::RollBack {
            snapshot: T::clone,
            every_writes: writes.max(1),
            every: time,
        }
    }
}

/// The policy of a state with what it needs.
pub(super) struct Recovery<T> {
    policy: OnPanic<T>,
    snapshot: Option<Snapshot<T>>,
}

struct Snapshot<T> {
    value: T,
    taken: Instant,
    writes: u64,
}

impl<T> Recovery<T> {
    pub fn new(policy: OnPanic<T>) -> Self {
        Self {
            policy,
            snapshot: None,
        }
    }

    /// Whether it needs copies of the whole state.
    pub fn has_snapshots(&self) -> bool {
        matches!(self.policy, OnPanic::RollBack { .. })
    }

    fn before_write(&mut self, value: &T) {
        let OnPanic::RollBack {
            snapshot,
            every_writes,
            every,
        } = &self.policy
        else {
            return;
        };
        if let Some(last) = &mut self.snapshot
            && last.writes < *every_writes
            && (*every == Duration::MAX || last.taken.elapsed() < *every)
        {
            last.writes += 1;
            return;
        }
        self.snapshot = Some(Snapshot {
            value: snapshot(value),
            taken: Instant::now(),
            writes: 1,
        });
    }

    /// What the state becomes, if it can be mended.
    fn mended(&mut self) -> Option<T> {
        match &self.policy {
            OnPanic::Quarantine => None,
            OnPanic::Reset(make) => Some(make()),
            OnPanic::RollBack { snapshot, .. } => {
                self.snapshot.as_ref().map(|last| snapshot(&last.value))
            }
        }
    }
}

impl<T: Send + Sync + 'static> StateCell<T> {
    /// Whether requests may have it.
    pub(super) fn check_health(&self) -> Result<(), Problem> {
        if !self.is_quarantined.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.quarantine.lock().clone().unwrap_or_default();
        Err(Problem::new(503, "State in quarantine").detail(reason))
    }

    /// The state, to be written by a handler.
    pub(super) fn to_write<'r>(&'r self, held: &'r Held) -> &'r mut T {
        let value = held.write(self);
        self.recovery.lock().before_write(value);
        value
    }

    /// Keeps requests away from it.
    pub(super) fn put_into_quarantine(&self, by: &str) {
        let reason = format!(
            "{by} panicked while it wrote {}. It is kept from all requests until somebody releases it.",
            self.name
        );
        tracing::error!(state = self.name, "{reason}");
        *self.quarantine.lock() = Some(reason);
        self.is_quarantined.store(true, Ordering::Release);
    }

    /// Lets requests have it again. False if they could all the time.
    pub(super) fn release_from_quarantine(&self) -> bool {
        self.is_quarantined.store(false, Ordering::Release);
        self.quarantine.lock().take().is_some()
    }

    /// A handler panicked that had it all for itself, and still has its lock.
    pub(super) fn mend(&self, held: &mut Held, by: &str) {
        held.all_given_back();
        // Making, copying and dropping a state is the user's code, which may panic as well.
        let mend = std::panic::AssertUnwindSafe(|| {
            let mended = self.recovery.lock().mended();
            mended.map(|value| *held.write(self) = value).is_some()
        });
        let is_mended = std::panic::catch_unwind(mend).unwrap_or(false);
        held.all_given_back();
        match is_mended {
            true => tracing::warn!(
                state = self.name,
                "{by} panicked while it wrote this; it is mended"
            ),
            false => self.put_into_quarantine(by),
        }
    }

    /// A handler panicked that had a key of it. Others may have other keys, so it is mended when all are done.
    pub(super) fn mend_later(self: &Arc<Self>, by: &str) {
        self.put_into_quarantine(by);
        let want = Want {
            lock: self.lock,
            mode: Mode::Write,
            key: None,
        };
        let can_be_mended = !matches!(self.recovery.lock().policy, OnPanic::Quarantine);
        let claim = can_be_mended.then(|| Claim::new(&self.locks, &[want]));
        if let Some(Ok(claim)) = claim {
            let cell = Arc::clone(self);
            let by = by.to_owned();
            // If too many wait, it stays in quarantine.
            let _ = claim.take_or_park(move |granted| {
                cell.release_from_quarantine();
                cell.mend(&mut Held::of(granted), &by);
            });
        }
    }
}
