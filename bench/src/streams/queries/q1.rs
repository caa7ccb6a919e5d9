//! Nexmark's query 1: every bid with its price in another currency.

use crate::streams::events::{Bid, Event};

/// What a hundred cents become.
const CONVERTED: u64 = 89;

/// The bid with its new price, if it is a bid.
pub fn convert(event: &Event) -> Option<Bid> {
    match event {
        Event::Bid(bid) => Some(Bid {
            price: bid.price * CONVERTED / 100,
            ..bid.clone()
        }),
        Event::Person(_) | Event::Auction(_) => None,
    }
}
