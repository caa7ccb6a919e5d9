//! What a request wants to lock, known before it runs.

use std::fmt;
use std::sync::Arc;

use super::word::Kind;

/// How many wants a plan may have.
pub const WANTS_MAX: usize = 64;

/// So many states stand in a plan itself: taking it copies it, and then no count of references has to be touched.
const STATES_INLINE: usize = 5;

/// One lock among those that a [`LocksBuilder`](super::LocksBuilder) has made. Their order is the order in which all take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub(super) u16);

impl LockId {
    /// The place of the lock among all, counted from 0 in the order in which they were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Together with others who read.
    Read,
    /// By one alone.
    Write,
}

/// One thing that a request wants to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The lock of the state.
    pub lock: LockId,
    /// How it is to be held.
    pub mode: Mode,
    /// The hash of a key, if only what belongs to this key is wanted and not the whole state. Keys with the same hash share a lock.
    pub key: Option<u64>,
}

/// Why wants do not make a plan: the request would wait for itself, or would hold the same thing exclusively twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The whole of a state is wanted to be written, and it is wanted a second time.
    #[error("lock {} is wanted twice, and once for writing: a handler must take a state for writing only once", .lock.0)]
    Twice {
        /// The lock.
        lock: LockId,
    },
    /// One key of a state is wanted twice, and at least once for writing.
    #[error("one key of lock {} is wanted twice, and once for writing: the two keys of a request must differ", .lock.0)]
    SameKey {
        /// The lock.
        lock: LockId,
        /// The hash of the key.
        key: u64,
    },
    /// There are more wants than a plan may have.
    #[error("more than {WANTS_MAX} wants: take a state as a whole instead of many of its keys")]
    TooMany,
}

/// What has to be taken in one place: on a state as a whole, or on one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    /// States come before keys, so that whoever holds the mutexes of states may wait for one of the table of keys.
    pub target: Target,
    pub lock: LockId,
    pub key: u64,
}

/// In which place, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    State(Kind),
    Key { writes: bool },
}

/// What a request takes, sorted in the order that holds for all, without doubles.
///
/// A want that names a key becomes two steps: an intention on the state, which conflicts only with those who want the whole of
/// it, and the lock of the key.
#[derive(Clone)]
pub struct Plan {
    /// How many of the first states there are.
    count: u8,
    /// The last of all locks; there is one if there is a first state.
    last: LockId,
    first: [StateStep; STATES_INLINE],
    /// What comes after them: more states, then keys.
    rest: Option<Arc<[Step]>>,
}

/// What is taken on a state as a whole, in one number: the lock, and in the lowest bits how.
#[derive(Clone, Copy)]
pub(super) struct StateStep(u32);

impl StateStep {
    const NONE: Self = Self(0);

    fn new(lock: LockId, kind: Kind) -> Self {
        Self(u32::from(lock.0) << 2 | kind.to_bits())
    }

    #[inline]
    pub fn lock(self) -> LockId {
        LockId((self.0 >> 2) as u16)
    }

    #[inline]
    pub fn kind(self) -> Kind {
        Kind::from_bits(self.0)
    }

    fn step(self) -> Step {
        Step {
            target: Target::State(self.kind()),
            lock: self.lock(),
            key: 0,
        }
    }
}

impl Plan {
    /// The plan that takes all of these, or why there is none.
    ///
    /// Wanting the same twice for reading is wanting it once; so is wanting to read a whole state and one of its keys.
    pub fn new(wants: impl IntoIterator<Item = Want>) -> Result<Plan, PlanError> {
        let mut wants: Vec<Want> = wants.into_iter().take(WANTS_MAX + 1).collect();
        if wants.len() > WANTS_MAX {
            return Err(PlanError::TooMany);
        }
        // The whole of a state comes before its keys.
        wants.sort_unstable_by_key(|want| (want.lock, want.key));
        let mut steps = StepList::with_room(wants.len());
        let mut before: Option<Want> = None;
        for want in wants {
            let same_lock = before.filter(|before| before.lock == want.lock);
            if let Some(before) = same_lock
                && is_covered(before, want)?
            {
                continue;
            }
            before = Some(want);
            steps.add(want);
        }
        Ok(steps.finish())
    }

    /// Whether nothing is wanted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many locks there have to be, so that all of these are among them.
    #[inline]
    pub(super) fn reach(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.last.index() + 1
        }
    }

    /// The first states, and all if [`Plan::has_more`] does not say otherwise.
    #[inline]
    pub(super) fn first(&self) -> &[StateStep] {
        // A count beyond the array would be a mistake here; cutting it costs less than checking it.
        &self.first[..usize::from(self.count).min(STATES_INLINE)]
    }

    /// Whether more than the first states are wanted.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.rest.is_some()
    }

    fn rest(&self) -> &[Step] {
        self.rest.as_deref().unwrap_or_default()
    }

    /// All that has to be taken, in order.
    pub(super) fn steps(&self) -> impl DoubleEndedIterator<Item = Step> {
        let first = self.first().iter().map(|state| state.step());
        first.chain(self.rest().iter().copied())
    }

    /// How many steps there are.
    pub(super) fn steps_count(&self) -> usize {
        self.first().len() + self.rest().len()
    }

    /// What of it is taken on states as a whole.
    pub(super) fn on_states(&self) -> impl Iterator<Item = (LockId, Kind)> {
        self.steps().filter_map(|step| match step.target {
            Target::State(kind) => Some((step.lock, kind)),
            Target::Key { .. } => None,
        })
    }

    /// Whether whoever has taken this plan may use this: a whole state also by one of its keys, and what it may write it may also read.
    pub fn covers(&self, want: Want) -> bool {
        let enough = |writes: bool| writes || want.mode == Mode::Read;
        self.steps()
            .filter(|step| step.lock == want.lock)
            .any(|step| match step.target {
                Target::State(Kind::Read) => enough(false),
                Target::State(Kind::Write) => true,
                Target::State(_) => false,
                Target::Key { writes } => want.key == Some(step.key) && enough(writes),
            })
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.steps()).finish()
    }
}

/// Whether the second of two wants of one lock, the first of which sorts before it, adds nothing to the first.
fn is_covered(first: Want, second: Want) -> Result<bool, PlanError> {
    let lock = first.lock;
    let both_read = first.mode == Mode::Read && second.mode == Mode::Read;
    match (first.key, second.key) {
        (None, _) if both_read => Ok(true),
        (None, _) => Err(PlanError::Twice { lock }),
        (Some(first), Some(second)) if first != second => Ok(false),
        (Some(_), _) if both_read => Ok(true),
        (Some(key), _) => Err(PlanError::SameKey { lock, key }),
    }
}

/// Steps of wants that come in order.
struct StepList {
    steps: Vec<Step>,
}

impl StepList {
    fn with_room(wants: usize) -> Self {
        Self {
            steps: Vec::with_capacity(2 * wants),
        }
    }

    fn add(&mut self, want: Want) {
        let writes = want.mode == Mode::Write;
        let kind = match (want.key, want.mode) {
            (None, Mode::Read) => Kind::Read,
            (None, Mode::Write) => Kind::Write,
            (Some(_), Mode::Read) => Kind::KeyRead,
            (Some(_), Mode::Write) => Kind::KeyWrite,
        };
        self.add_kind(want.lock, kind);
        if let Some(key) = want.key {
            let target = Target::Key { writes };
            let lock = want.lock;
            self.steps.push(Step { target, lock, key });
        }
    }

    /// One intention serves all keys of a state; the one to write conflicts with all that the one to read conflicts with.
    fn add_kind(&mut self, lock: LockId, kind: Kind) {
        let same = |step: &&mut Step| step.lock == lock && matches!(step.target, Target::State(_));
        if let Some(step) = self.steps.iter_mut().find(same) {
            if kind == Kind::KeyWrite {
                step.target = Target::State(kind);
            }
            return;
        }
        let target = Target::State(kind);
        self.steps.push(Step {
            target,
            lock,
            key: 0,
        });
    }

    fn finish(mut self) -> Plan {
        let is_key = |step: &Step| matches!(step.target, Target::Key { .. });
        self.steps
            .sort_unstable_by_key(|step| (is_key(step), step.lock, step.key));
        let is_state = |step: &&Step| !is_key(step);
        let last = self.steps.iter().rfind(is_state);
        let mut plan = Plan {
            count: 0,
            last: last.map_or(LockId(0), |step| step.lock),
            first: [StateStep::NONE; STATES_INLINE],
            rest: None,
        };
        for (place, step) in plan.first.iter_mut().zip(&self.steps) {
            if let Target::State(kind) = step.target {
                *place = StateStep::new(step.lock, kind);
                plan.count += 1;
            }
        }
        let rest = &self.steps[usize::from(plan.count)..];
        plan.rest = (!rest.is_empty()).then(|| rest.into());
        plan
    }
}
