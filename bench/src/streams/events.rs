//! The events of an auction house, and what of them counts towards a checksum.

use std::mem::size_of;

use bytes::Bytes;
use kernel::worker::Value;
use serde::Serialize;

use super::checksum::{Summed, mix, text};

/// Something that happened in the auction house.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// Somebody joined.
    Person(Person),
    /// Something is sold.
    Auction(Auction),
    /// Somebody bids.
    Bid(Bid),
}

/// Somebody who sells and bids.
#[derive(Debug, Clone, Serialize)]
pub struct Person {
    /// When that was.
    pub time_ms: u64,
    /// Numbers all persons.
    pub id: u64,
    /// What they are called.
    pub name: String,
    /// Where they live.
    pub city: &'static str,
    /// In which state that is.
    pub state: &'static str,
}

/// Something that is sold.
#[derive(Debug, Clone, Serialize)]
pub struct Auction {
    /// When that was.
    pub time_ms: u64,
    /// Numbers all auctions.
    pub id: u64,
    /// The person who sells.
    pub seller: u64,
    /// What kind of thing it is.
    pub category: u64,
    /// The least price, in cents.
    pub initial_bid: u64,
    /// When it ends.
    pub expires_ms: u64,
}

/// An offer.
#[derive(Debug, Clone, Serialize)]
pub struct Bid {
    /// When that was.
    pub time_ms: u64,
    /// What is to be bought.
    pub auction: u64,
    /// The person who bids.
    pub bidder: u64,
    /// In cents.
    pub price: u64,
}

impl Event {
    /// When that was.
    pub fn time_ms(&self) -> u64 {
        match self {
            Self::Person(person) => person.time_ms,
            Self::Auction(auction) => auction.time_ms,
            Self::Bid(bid) => bid.time_ms,
        }
    }
}

impl Summed for Event {
    fn sum(&self) -> u64 {
        match self {
            Self::Person(person) => mix(&[
                0,
                person.time_ms,
                person.id,
                text(&person.name),
                text(person.city),
                text(person.state),
            ]),
            Self::Auction(auction) => mix(&[
                1,
                auction.time_ms,
                auction.id,
                auction.seller,
                auction.category,
                auction.initial_bid,
                auction.expires_ms,
            ]),
            Self::Bid(bid) => bid.sum(),
        }
    }
}

impl Summed for Bid {
    fn sum(&self) -> u64 {
        mix(&[2, self.time_ms, self.auction, self.bidder, self.price])
    }
}

impl Value for Event {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Value for Bid {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The JSON of an event or a result.
pub(super) fn json(what: &impl Serialize) -> Bytes {
    // Nothing in our types has no place in JSON.
    serde_json::to_vec(what).expect("it is JSON").into()
}
