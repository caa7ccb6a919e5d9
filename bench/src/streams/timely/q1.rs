//! Nexmark's query 1: every bid with its price in another currency.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::{Sum, summed};
use crate::streams::events::{Bid, Event};

pub(super) fn build(events: StreamVec<'_, u64, Event>, sum: Sum) -> ProbeHandle<u64> {
    let converted = events.flat_map(|event| match event {
        Event::Bid(bid) => Some(Bid {
            price: bid.price * 89 / 100,
            ..bid
        }),
        _ => None,
    });
    summed(converted, sum)
}
