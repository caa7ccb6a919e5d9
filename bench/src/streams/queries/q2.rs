//! Nexmark's query 2: the prices of bids on a few auctions.

use std::mem::size_of;

use bytes::Bytes;
use kernel::worker::Value;
use serde::Serialize;

use crate::streams::checksum::{Summed, mix};
use crate::streams::events::{Event, json};

/// Every auction whose number this divides is looked at.
const DIVISOR: u64 = 123;

/// A bid on one of the auctions.
#[derive(Debug, Clone, Serialize)]
pub struct Selected {
    /// The auction.
    pub auction: u64,
    /// What was bid.
    pub price: u64,
}

impl Summed for Selected {
    fn sum(&self) -> u64 {
        mix(&[self.auction, self.price])
    }
}

impl Value for Selected {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The bid, if it is one on such an auction.
pub fn select(event: &Event) -> Option<Selected> {
    match event {
        Event::Bid(bid) if bid.auction.is_multiple_of(DIVISOR) => Some(Selected {
            auction: bid.auction,
            price: bid.price,
        }),
        _ => None,
    }
}
