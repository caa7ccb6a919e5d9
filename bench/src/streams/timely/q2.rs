//! Nexmark's query 2: the prices of bids on a few auctions.

use timely::dataflow::operators::vec::{Filter, Map};
use timely::dataflow::{ProbeHandle, StreamVec};

use super::{Sum, summed};
use crate::streams::events::Event;
use crate::streams::queries::Selected;

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let bids = events.flat_map(|event| match event {
        Event::Bid(bid) => Some(bid),
        _ => None,
    });
    let few = bids.filter(|bid| bid.auction.is_multiple_of(123));
    let selected = few.map(|bid| Selected {
        auction: bid.auction,
        price: bid.price,
    });
    summed(selected, sum)
}
