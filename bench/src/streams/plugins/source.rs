//! Gives events as flow documents have them: JSON without bytes.

use std::sync::Arc;

use async_trait::async_trait;
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Provided, Turn, Value, Worker};

use crate::streams::events::Event as Happening;
use crate::streams::{generator, lines};

/// How many events are given in one turn.
const TURN_EVENTS: usize = 256;

/// Makes the event of a number.
pub type MakeEvent = fn(u64) -> Data;

/// Events that were made before, as the peer reads its events before.
pub type Events = Vec<Arc<dyn Value>>;

/// Makes so many events.
pub fn events(count: u32, make: MakeEvent) -> Events {
    let event = |number| Arc::new(Event::new(make(number))) as Arc<dyn Value>;
    (0..u64::from(count)).map(event).collect()
}

/// Gives events, the last one first.
pub struct Source(pub Events);

#[async_trait]
impl Worker for Source {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a provider has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let left = self.0.len().saturating_sub(TURN_EVENTS);
        for event in self.0.drain(left..) {
            turn.emit_value("out", event)?;
        }
        Ok(match self.0.is_empty() {
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
