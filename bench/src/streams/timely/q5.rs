//! Nexmark's query 5: the auctions with most bids in the last ten seconds, every two seconds.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::keyed;
use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::q5::{Counts, Hottest, select};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let bids = events.flat_map(|event| select(&event).map(|(_, bid)| bid));
    let hot = keyed::<Counts, _>(bids, |bid| bid.auction);
    summed(keyed::<Hottest, _>(hot, |hot| hot.window_end_ms), sum)
}
