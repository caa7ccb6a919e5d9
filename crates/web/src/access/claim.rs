//! All locks that one callback of a request takes.

use std::sync::Arc;

use crate::locks::{Locks, Mode, Overloaded, Parked, Plan, PlanError, Taken, Want};

/// How many locks one callback can take: one bit for each has to fit into a word.
const WANTS_MAX: usize = 64;

/// What is wanted, ready to be taken.
#[derive(Clone)]
pub struct Claim {
    inner: Arc<Inner>,
}

struct Inner {
    locks: Arc<Locks>,
    wants: Vec<Want>,
    plan: Plan,
}

/// Why wants are no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The whole and a key of one state, or too many of them.
    #[error("a state is wanted as a whole and by key at once, or too much is wanted")]
    Wants,
    /// The locks say so.
    #[error("{0}")]
    Plan(PlanError),
}

impl Claim {
    /// The claim to all of these. The same state wanted more than once for reading is wanted once.
    pub fn new(locks: &Arc<Locks>, all: &[Want]) -> Result<Self, ClaimError> {
        let mut wants: Vec<Want> = Vec::with_capacity(all.len());
        for want in all {
            let whole_and_key =
                |other: &Want| other.lock == want.lock && other.key.is_some() != want.key.is_some();
            if wants.iter().any(whole_and_key) {
                return Err(ClaimError::Wants);
            }
            let is_doubled = want.mode == Mode::Read && wants.contains(want);
            if !is_doubled {
                wants.push(*want);
            }
        }
        if wants.len() > WANTS_MAX {
            return Err(ClaimError::Wants);
        }
        let plan = Plan::new(wants.iter().copied()).map_err(ClaimError::Plan)?;
        let inner = Inner {
            locks: Arc::clone(locks),
            wants,
            plan,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Takes it if all of it is free.
    pub fn try_take(&self) -> Option<Granted> {
        let taken = self.inner.locks.try_take(&self.inner.plan)?;
        Some(Granted {
            _taken: taken,
            claim: self.clone(),
        })
    }

    /// Takes it now or when its turn comes.
    pub fn take_or_park(
        &self,
        on_granted: impl FnOnce(Granted) + Send + 'static,
    ) -> Result<Parked, Overloaded> {
        let claim = self.clone();
        self.inner
            .locks
            .take_or_park(&self.inner.plan, move |taken| {
                on_granted(Granted {
                    _taken: taken,
                    claim,
                });
            })
    }
}

/// A claim whose locks are held, until it is dropped. It is made only of locks taken for just this claim.
pub struct Granted {
    _taken: Taken,
    claim: Claim,
}

impl Granted {
    /// What is held.
    #[inline]
    pub fn wants(&self) -> &[Want] {
        &self.claim.inner.wants
    }

    /// Whether it is held in these locks.
    #[inline]
    pub fn is_of(&self, locks: &Arc<Locks>) -> bool {
        Arc::ptr_eq(&self.claim.inner.locks, locks)
    }
}
