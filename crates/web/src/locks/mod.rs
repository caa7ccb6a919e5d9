//! Locks of shared state: all of a request at once, first come, first served, and no thread waits.
//!
//! This is the simplest thing that is correct: one table behind one mutex.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// One lock of a service. Their order is the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(u16);

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Beside others who read.
    Read,
    /// Alone.
    Write,
}

/// One lock that a request wants, or one key of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which lock.
    pub lock: LockId,
    /// How.
    pub mode: Mode,
    /// The hash of a key, if not the whole state is wanted.
    pub key: Option<u64>,
}

impl Want {
    fn conflicts_with(&self, other: &Want) -> bool {
        let apart = matches!((self.key, other.key), (Some(one), Some(two)) if one != two);
        self.lock == other.lock && !apart && (self.mode == Mode::Write || other.mode == Mode::Write)
    }
}

/// Why wants make no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The same is wanted twice, and once alone.
    #[error("the same lock is wanted twice, and once for writing")]
    Twice,
}

/// All that a request wants.
#[derive(Clone, Debug)]
pub struct Plan {
    wants: Arc<[Want]>,
}

impl Plan {
    /// The plan that takes all of these.
    pub fn new(wants: impl IntoIterator<Item = Want>) -> Result<Plan, PlanError> {
        let wants: Vec<Want> = wants.into_iter().collect();
        let twice = wants.iter().enumerate().any(|(place, want)| {
            wants[..place]
                .iter()
                .any(|other| want.conflicts_with(other))
        });
        match twice {
            true => Err(PlanError::Twice),
            false => Ok(Self {
                wants: wants.into(),
            }),
        }
    }

    fn conflicts_with(&self, other: &Plan) -> bool {
        self.wants
            .iter()
            .any(|want| other.wants.iter().any(|held| want.conflicts_with(held)))
    }
}

/// Makes the locks of a service.
#[derive(Debug, Default)]
pub struct LocksBuilder {
    names: Vec<String>,
}

impl LocksBuilder {
    /// Without any lock yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more lock.
    pub fn add(&mut self, name: &str) -> LockId {
        self.names.push(name.to_owned());
        LockId(u16::try_from(self.names.len() - 1).expect("fewer states than 65,536"))
    }

    /// The locks; so many requests may wait for them.
    pub fn build(self, waiting_max: usize) -> Arc<Locks> {
        Arc::new(Locks {
            numbers: Mutex::new(vec![LockNumbers::default(); self.names.len()]),
            table: Mutex::default(),
            waiting_max,
        })
    }
}

/// What happened to one lock.
#[derive(Clone, Debug, Default)]
pub struct LockNumbers {
    /// Taken without waiting.
    pub taken_at_once: u64,
    /// Taken after waiting.
    pub parked: u64,
    /// Refused, since too many waited.
    pub refused: u64,
}

type OnTaken = Box<dyn FnOnce(Taken) + Send>;

#[derive(Default)]
struct Table {
    next: u64,
    held: HashMap<u64, Plan>,
    waiting: Vec<(u64, Plan, OnTaken)>,
}

/// The locks of a service.
pub struct Locks {
    table: Mutex<Table>,
    numbers: Mutex<Vec<LockNumbers>>,
    waiting_max: usize,
}

/// Too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl Locks {
    /// Takes all of a plan, unless something of it is held by others or awaited.
    pub fn try_take(self: &Arc<Self>, plan: &Plan) -> Option<Taken> {
        let mut table = self.table.lock();
        let taken = self.take(&mut table, plan);
        drop(table);
        if taken.is_some() {
            self.count(plan, |numbers| numbers.taken_at_once += 1);
        }
        taken
    }

    fn take(self: &Arc<Self>, table: &mut Table, plan: &Plan) -> Option<Taken> {
        let is_busy = table.held.values().any(|held| plan.conflicts_with(held))
            || table
                .waiting
                .iter()
                .any(|(_, waiting, _)| plan.conflicts_with(waiting));
        (!is_busy).then(|| {
            table.next += 1;
            let id = table.next;
            table.held.insert(id, plan.clone());
            Taken {
                locks: Arc::clone(self),
                id,
            }
        })
    }

    /// Takes all of a plan now or as soon as it is its turn; then `on_taken` is called.
    pub fn take_or_park(
        self: &Arc<Self>,
        plan: &Plan,
        on_taken: impl FnOnce(Taken) + Send + 'static,
    ) -> Result<Parked, Overloaded> {
        let mut table = self.table.lock();
        if let Some(taken) = self.take(&mut table, plan) {
            let id = taken.id;
            drop(table);
            self.count(plan, |numbers| numbers.taken_at_once += 1);
            on_taken(taken);
            return Ok(self.parked(id));
        }
        if table.waiting.len() >= self.waiting_max {
            drop(table);
            self.count(plan, |numbers| numbers.refused += 1);
            return Err(Overloaded);
        }
        table.next += 1;
        let id = table.next;
        table.waiting.push((id, plan.clone(), Box::new(on_taken)));
        drop(table);
        self.count(plan, |numbers| numbers.parked += 1);
        Ok(self.parked(id))
    }

    fn parked(self: &Arc<Self>, id: u64) -> Parked {
        Parked {
            locks: Arc::clone(self),
            id,
        }
    }

    /// What happened to this lock so far.
    pub fn numbers(&self, lock: LockId) -> LockNumbers {
        self.numbers.lock()[usize::from(lock.0)].clone()
    }

    fn count(&self, plan: &Plan, count: impl Fn(&mut LockNumbers)) {
        let mut numbers = self.numbers.lock();
        for want in plan.wants.iter() {
            count(&mut numbers[usize::from(want.lock.0)]);
        }
    }

    /// Gives everybody what became free, first come, first served.
    fn hand_on(self: &Arc<Self>, mut change: impl FnMut(&mut Table) -> bool) -> bool {
        let mut granted = Vec::new();
        let mut table = self.table.lock();
        let changed = change(&mut table);
        let mut still: Vec<(u64, Plan, OnTaken)> = Vec::new();
        for (id, plan, on_taken) in std::mem::take(&mut table.waiting) {
            let is_busy = table.held.values().any(|held| plan.conflicts_with(held))
                || still
                    .iter()
                    .any(|(_, before, _)| plan.conflicts_with(before));
            if is_busy {
                still.push((id, plan, on_taken));
            } else {
                table.held.insert(id, plan);
                granted.push((id, on_taken));
            }
        }
        table.waiting = still;
        drop(table);
        for (id, on_taken) in granted {
            on_taken(Taken {
                locks: Arc::clone(self),
                id,
            });
        }
        changed
    }
}

/// All locks of a plan, until it is dropped.
pub struct Taken {
    locks: Arc<Locks>,
    id: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let locks = Arc::clone(&self.locks);
        locks.hand_on(|table| table.held.remove(&self.id).is_some());
    }
}

/// Somebody who waits for a plan.
pub struct Parked {
    locks: Arc<Locks>,
    id: u64,
}

impl Parked {
    /// Waits no longer. True if it had not been taken yet and now never will be.
    pub fn cancel(&self) -> bool {
        let mut cancelled = Vec::new();
        self.locks.hand_on(|table| {
            let place = table.waiting.iter().position(|(id, ..)| *id == self.id);
            cancelled.extend(place.map(|place| table.waiting.remove(place)));
            place.is_some()
        })
    }
}
