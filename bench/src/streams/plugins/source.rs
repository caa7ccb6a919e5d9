//! Gives events as flow documents have them: JSON without bytes.

use std::sync::Arc;

use async_trait::async_trait;
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Provided, Turn, Worker};

use crate::streams::events::Event as Happening;
use crate::streams::{generator, lines};

/// How many events are made in one turn.
const TURN_EVENTS: u32 = 256;

/// Makes the event of a number.
pub type MakeEvent = fn(u64) -> Data;

/// Gives so many events.
pub struct Source {
    next: u32,
    events: u32,
    make: MakeEvent,
}

impl Source {
    pub fn new(events: u32, make: MakeEvent) -> Self {
        Self {
            next: 0,
            events,
            make,
        }
    }
}

#[async_trait]
impl Worker for Source {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a provider has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let end = self.events.min(self.next.saturating_add(TURN_EVENTS));
        for number in self.next..end {
            let event = (self.make)(u64::from(number));
            turn.emit_value("out", Arc::new(Event::new(event)))?;
        }
        self.next = end;
        Ok(match end == self.events {
            true => Provided::Done,
            false => Provided::More,
        })
    }
}

/// An event of the auction house.
pub fn happening(number: u64) -> Data {
    match generator::event(number) {
        Happening::Person(person) => Data::record([
            ("kind", "person".into()),
            ("time", person.time_ms.into()),
            ("id", person.id.into()),
            ("name", person.name.into()),
            ("city", person.city.into()),
            ("state", person.state.into()),
        ]),
        Happening::Auction(auction) => Data::record([
            ("kind", "auction".into()),
            ("time", auction.time_ms.into()),
            ("id", auction.id.into()),
            ("seller", auction.seller.into()),
            ("category", auction.category.into()),
            ("initial_bid", auction.initial_bid.into()),
            ("expires", auction.expires_ms.into()),
        ]),
        Happening::Bid(bid) => Data::record([
            ("kind", "bid".into()),
            ("time", bid.time_ms.into()),
            ("auction", bid.auction.into()),
            ("bidder", bid.bidder.into()),
            ("price", bid.price.into()),
        ]),
    }
}

/// A line of words.
pub fn words(number: u64) -> Data {
    Data::record([("text", lines::line(number).into())])
}
