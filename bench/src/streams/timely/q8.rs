//! Nexmark's query 8: who joined and sold something within the same second.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::keyed;
use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::q8::{Persons, select};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let deeds = events.flat_map(|event| select(&event).map(|(_, deed)| deed));
    summed(keyed::<Persons, _>(deeds, |deed| deed.person), sum)
}
