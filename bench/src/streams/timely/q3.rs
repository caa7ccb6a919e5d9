//! Nexmark's query 3: who sells things of one category in three states.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::keyed;
use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::q3::{Sellers, select};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let sides = events.flat_map(|event| select(&event).map(|(_, side)| side));
    summed(keyed::<Sellers, _>(sides, |(seller, _)| *seller), sum)
}
