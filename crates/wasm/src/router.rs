//! Components as routers.

use kernel::StageAddress;
use kernel::worker::{CodeInfo, Failure, Incoming, InstanceLimits, Start};
use parking_lot::Mutex;

use crate::bindings::router::hivewire::worker::routing;
use crate::bindings::router::{Router as World, RouterPre};
use crate::data::Data;
use crate::instance::{Instance, Shared};
use crate::worker::{borrowed, header_pairs};

/// A worker in the sight of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The number of the worker in its stage.
    pub worker: u32,
    /// How many messages wait for it.
    pub waiting: u32,
}

/// One's own router, written as a component. It has one instance, which is replaced after a trap.
pub struct Router {
    info: CodeInfo,
    pre: RouterPre<Data>,
    shared: Shared,
    start: Start,
    instance: Mutex<Option<Instance<World>>>,
}

impl Router {
    pub(crate) fn new(
        info: CodeInfo,
        pre: RouterPre<Data>,
        shared: Shared,
        limits: InstanceLimits,
    ) -> Self {
        let stage = StageAddress::new("router", "router").expect("both are names");
        Self {
            info,
            pre,
            shared,
            start: Start {
                address: stage.worker(0),
                limits,
            },
            instance: Mutex::new(None),
        }
    }

    /// What the component says about itself.
    pub fn info(&self) -> &CodeInfo {
        &self.info
    }

    /// The places in `workers` of those that get the message: at least one, and each at most once.
    pub fn select(&self, message: &Incoming, workers: &[Candidate]) -> Result<Vec<u32>, Failure> {
        let message = std::slice::from_ref(message);
        let pairs = header_pairs(message);
        let message = borrowed(message, &pairs)
            .pop()
            .expect("one message was borrowed");
        let candidates: Vec<routing::Candidate> = workers
            .iter()
            .map(|candidate| routing::Candidate {
                worker: candidate.worker,
                waiting: candidate.waiting,
            })
            .collect();
        let mut slot = self.instance.lock();
        let mut instance = match slot.take().filter(Instance::is_sound) {
            Some(instance) => instance,
            None => self.make()?,
        };
        let places =
            instance.call_outside(|world, store| world.call_select(store, message, &candidates));
        *slot = Some(instance);
        drop(slot);
        checked(places?, workers.len())
    }

    pub(crate) fn make(&self) -> Result<Instance<World>, Failure> {
        Instance::new(&self.shared, &self.start, |store| {
            self.pre.instantiate(store)
        })
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// What a router may answer.
fn checked(places: Vec<u32>, workers: usize) -> Result<Vec<u32>, Failure> {
    if places.is_empty() {
        return Err(Failure::new("the router chose no worker"));
    }
    let mut seen = vec![false; workers];
    for place in &places {
        let Some(seen) = seen.get_mut(*place as usize) else {
            let reason = format!("the router chose place {place} among {workers} workers");
            return Err(Failure::new(reason));
        };
        if std::mem::replace(seen, true) {
            let reason = format!("the router chose place {place} twice");
            return Err(Failure::new(reason));
        }
    }
    Ok(places)
}
