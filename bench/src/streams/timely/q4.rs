//! Nexmark's query 4: for how much things of each category are sold on average.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::keyed;
use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::q4::{Auctions, Averages, select};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let happenings = events.flat_map(|event| select(&event).map(|(_, happening)| happening));
    let sold = keyed::<Auctions, _>(happenings, |happening| happening.auction);
    summed(keyed::<Averages, _>(sold, |sold| sold.category), sum)
}
