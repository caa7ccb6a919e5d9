//! The listeners that a service is served on.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::edge::{EdgeHandle, EdgeNumbers};

/// The listeners that a service is served on.
#[derive(Default)]
pub(super) struct Edges {
    inner: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    next: u64,
    now: Vec<(u64, EdgeHandle)>,
    /// What those did that are not served any more.
    past: EdgeNumbers,
}

impl Edges {
    /// One more is served, until what this gives is dropped. Then it takes no more connections.
    pub fn serve(self: &Arc<Self>, handle: EdgeHandle) -> Served {
        let mut known = self.inner.lock();
        known.next += 1;
        let number = known.next;
        known.now.push((number, handle.clone()));
        Served {
            edges: Arc::clone(self),
            number,
            handle,
        }
    }

    /// How it goes with each that is served now.
    pub fn numbers(&self) -> Vec<EdgeNumbers> {
        let known = self.inner.lock();
        known.now.iter().map(|(_, edge)| edge.numbers()).collect()
    }

    /// What all did together, also those that are not served any more, so that nothing that is counted becomes less.
    pub fn total(&self) -> EdgeNumbers {
        let known = self.inner.lock();
        let mut total = known.past.clone();
        known
            .now
            .iter()
            .for_each(|(_, edge)| total.add(&edge.numbers()));
        total
    }
}

/// A listener that a service is served on.
pub(super) struct Served {
    edges: Arc<Edges>,
    number: u64,
    handle: EdgeHandle,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        let mut known = self.edges.inner.lock();
        known.now.retain(|(number, _)| *number != self.number);
        let last = self.handle.numbers().of_the_past();
        known.past.add(&last);
    }
}
