//! Computations that are under way, and the requests that wait for them.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::extract::Problem;
use crate::outcome::{Answer, DynKey};

/// What comes of a computation.
pub(crate) type Answered = Result<Arc<dyn Answer>, Problem>;

/// The computations of one route that are under way.
pub(crate) struct Flights {
    table: Arc<Mutex<Table>>,
    waiting_max: usize,
}

#[derive(Default)]
struct Table {
    flights: HashMap<Key, Vec<oneshot::Sender<Answered>>>,
    waiting: usize,
}

#[derive(Clone)]
struct Key(Arc<dyn DynKey>);

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash_into(hasher);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&*other.0)
    }
}

impl Eq for Key {}

/// How a request takes part in a computation.
pub(crate) enum Joined {
    /// It is the first, and has it computed.
    Leads(Lead, oneshot::Receiver<Answered>),
    /// Somebody else has it computed already.
    Waits(oneshot::Receiver<Answered>),
}

impl Flights {
    pub fn new(waiting_max: usize) -> Self {
        Self {
            table: Arc::default(),
            waiting_max,
        }
    }

    /// Takes part in the computation of this key. None if too many wait.
    pub fn join(&self, key: Arc<dyn DynKey>) -> Option<Joined> {
        let (sender, receiver) = oneshot::channel();
        let key = Key(key);
        let mut table = self.table.lock();
        if table.waiting >= self.waiting_max {
            return None;
        }
        table.waiting += 1;
        if let Some(waiting) = table.flights.get_mut(&key) {
            waiting.push(sender);
            return Some(Joined::Waits(receiver));
        }
        table.flights.insert(key.clone(), vec![sender]);
        let lead = Lead {
            table: Arc::clone(&self.table),
            key,
        };
        Some(Joined::Leads(lead, receiver))
    }

    /// How many requests wait for computations.
    pub fn waiting(&self) -> usize {
        self.table.lock().waiting
    }
}

/// The computation of one key. If it is dropped, all who wait for it are told that there will be no answer.
pub(crate) struct Lead {
    table: Arc<Mutex<Table>>,
    key: Key,
}

impl Lead {
    /// Gives all who wait this answer.
    pub fn finish(self, answered: &Answered) {
        for waiting in self.leave() {
            let _ = waiting.send(answered.clone());
        }
    }

    fn leave(&self) -> Vec<oneshot::Sender<Answered>> {
        let mut table = self.table.lock();
        let waiting = table.flights.remove(&self.key).unwrap_or_default();
        table.waiting -= waiting.len();
        waiting
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.leave();
    }
}
