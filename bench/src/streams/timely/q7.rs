//! Nexmark's query 7: the highest bid of each second.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::{keyed, local};
use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::q7::{Highest, select};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let offers = events.flat_map(|event| select(&event));
    // The highest of each worker first, so that few of them have to leave it.
    let of_workers = local::<Highest, _>(offers);
    let highest = keyed::<Highest, _>(of_workers, |offer| offer.window_end_ms);
    summed(highest, sum)
}
