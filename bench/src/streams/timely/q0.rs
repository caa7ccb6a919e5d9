//! Nexmark's query 0: every event as it came.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::{Sum, summed};
use crate::streams::events::Event;

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    summed(events.map(|event| event), sum)
}
