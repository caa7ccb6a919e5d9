//! All states of a service.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::locks::{LockId, Locks, LocksBuilder};

use super::name::short_name;
use super::panic::{OnPanic, Recovery};
use super::storage::StateCell;

/// A state whose type is not known.
pub(crate) trait AnyCell: Send + Sync {
    fn lock(&self) -> LockId;
    fn quarantine(&self) -> Option<String>;
    fn release(&self) -> bool;
    fn allow_concurrent_use(&self);
}

impl<T: Send + Sync + 'static> AnyCell for StateCell<T> {
    fn lock(&self) -> LockId {
        self.lock
    }

    fn quarantine(&self) -> Option<String> {
        self.quarantine.lock().clone()
    }

    fn release(&self) -> bool {
        self.release_from_quarantine()
    }

    fn allow_concurrent_use(&self) {
        self.is_concurrent.store(true, Ordering::Release);
    }
}

type Made = (Arc<dyn AnyCell>, Box<dyn Any + Send + Sync>);
type Make = dyn FnOnce(LockId, &Arc<Locks>) -> Made + Send;

/// A state that was shared, as long as there are no locks yet.
pub(crate) struct Share {
    pub state: TypeId,
    pub name: String,
    pub has_snapshots: bool,
    make: Box<Make>,
}

/// All that was shared.
#[derive(Default)]
pub(crate) struct Shares {
    all: Vec<Share>,
}

impl Shares {
    pub fn add<T: Send + Sync + 'static>(&mut self, state: T, policy: OnPanic<T>) {
        let name = short_name::<T>();
        let recovery = Recovery::new(policy);
        self.all.push(Share {
            state: TypeId::of::<T>(),
            name: name.clone(),
            has_snapshots: recovery.has_snapshots(),
            make: Box::new(move |lock, locks| {
                let cell = StateCell::new(name, state, lock, Arc::clone(locks), recovery);
                let cell = Arc::new(cell);
                (Arc::clone(&cell) as Arc<dyn AnyCell>, Box::new(cell))
            }),
        });
    }

    pub fn extend(&mut self, other: Shares) {
        self.all.extend(other.all);
    }

    pub fn all(&self) -> &[Share] {
        &self.all
    }

    pub fn find(&self, state: TypeId) -> Option<&Share> {
        self.all.iter().find(|share| share.state == state)
    }

    /// The states with their locks.
    pub fn build(self, waiting_max: usize) -> States {
        let mut builder = LocksBuilder::new();
        let ids: Vec<LockId> = self
            .all
            .iter()
            .map(|share| builder.add(&share.name))
            .collect();
        let locks = builder.build(waiting_max);
        let mut states = States {
            cells: HashMap::new(),
            order: Vec::new(),
            locks: Arc::clone(&locks),
        };
        for (share, lock) in self.all.into_iter().zip(ids) {
            let (known, typed) = (share.make)(lock, &locks);
            states.order.push((share.state, known));
            states.cells.insert(share.state, typed);
        }
        states
    }
}

/// All states of a service, with their locks.
pub struct States {
    cells: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    order: Vec<(TypeId, Arc<dyn AnyCell>)>,
    locks: Arc<Locks>,
}

impl States {
    /// The state of this type, if it was shared.
    pub fn find<T: 'static>(&self) -> Option<Arc<StateCell<T>>> {
        let cell = self.cells.get(&TypeId::of::<T>())?;
        cell.downcast_ref::<Arc<StateCell<T>>>().cloned()
    }

    /// The state of this type, which was found to be shared when the service was checked.
    pub(super) fn get<T: 'static>(&self) -> Arc<StateCell<T>> {
        self.find()
            .unwrap_or_else(|| panic!("{} was not shared", short_name::<T>()))
    }

    /// All of them, in the order in which they were shared.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn AnyCell>> {
        self.order.iter().map(|(_, cell)| cell)
    }

    pub(crate) fn any(&self, state: TypeId) -> Option<&Arc<dyn AnyCell>> {
        let mut all = self.order.iter();
        all.find_map(|(of, cell)| (*of == state).then_some(cell))
    }

    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }
}
