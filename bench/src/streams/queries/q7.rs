//! Nexmark's query 7: the highest bid of each second.
//!
//! Of several that are as high, the one on the auction of the greatest number counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use serde::{Deserialize, Serialize};

use super::bucketed::Out;
use super::end::End;
use super::keyed::Given;
use super::rig::{self, Step};
use crate::streams::Outcome;
use crate::streams::checksum::{Summed, mix};
use crate::streams::events::Event;
use crate::streams::generator::event;
use crate::streams::state::{END_MS, State};
use crate::workers;

const WINDOW_MS: u64 = 1_000;

/// A bid in a window. The order of the fields is that of bids: the last one is the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offer {
    /// When the window ends.
    pub window_end_ms: u64,
    price: u64,
    auction: u64,
    bidder: u64,
}

impl Summed for Offer {
    fn sum(&self) -> u64 {
        mix(&[self.window_end_ms, self.price, self.auction, self.bidder])
    }
}

/// The bid, if it is one.
pub fn select(event: &Event) -> Option<Offer> {
    match event {
        Event::Bid(bid) => Some(Offer {
            window_end_ms: (bid.time_ms / WINDOW_MS + 1) * WINDOW_MS,
            price: bid.price,
            auction: bid.auction,
            bidder: bid.bidder,
        }),
        Event::Person(_) | Event::Auction(_) => None,
    }
}

/// The highest bids of windows that have not passed; there are few.
#[derive(Default)]
pub struct Highest(Vec<Offer>);

impl State for Highest {
    type Input = Offer;
    type Output = Offer;

    fn take(&mut self, offer: &Offer, _: impl FnMut(Offer)) {
        let of_window = |highest: &&mut Offer| highest.window_end_ms == offer.window_end_ms;
        match self.0.iter_mut().find(of_window) {
            Some(highest) => *highest = (*highest).max(*offer),
            None => self.0.push(*offer),
        }
    }

    fn pass(&mut self, time_ms: u64, give: impl FnMut(Offer)) {
        let passed = self
            .0
            .extract_if(.., |offer| offer.window_end_ms <= time_ms);
        passed.for_each(give);
    }
}

/// The only worker of its stage, so that events come in the order of their time and tell how far it is.
#[derive(Default)]
struct Watch {
    highest: Highest,
    next_end_ms: u64,
}

#[async_trait]
impl Worker for Watch {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            let event = message.value::<Event>();
            let time_ms = event.map_or(END_MS, Event::time_ms);
            if time_ms >= self.next_end_ms {
                self.pass(time_ms, turn)?;
            }
            match event.map(select) {
                Some(Some(offer)) => self.highest.take(&offer, |_| {}),
                Some(None) => {}
                None => turn.emit_value("out", Arc::new(End))?,
            }
        }
        Ok(())
    }
}

impl Watch {
    fn pass(&mut self, time_ms: u64, turn: &mut Turn) -> Result<(), Failure> {
        let mut out = Out::new(turn);
        self.highest.pass(time_ms, |offer| out.give(offer));
        self.next_end_ms = (time_ms / WINDOW_MS + 1).saturating_mul(WINDOW_MS);
        out.outcome
    }
}

pub fn run(events: u32) -> workers::Result<Outcome> {
    let steps = vec![Step::single("highest", Watch::default)];
    rig::run::<_, Given<Offer>>(event, events, steps)
}

/// The checksum that is due.
pub fn expected(events: u32) -> u64 {
    let mut windows: BTreeMap<u64, Offer> = BTreeMap::new();
    for offer in (0..u64::from(events)).filter_map(|number| select(&event(number))) {
        let highest = windows.entry(offer.window_end_ms).or_insert(offer);
        *highest = (*highest).max(offer);
    }
    windows
        .into_values()
        .map(|offer| offer.sum())
        .fold(0, u64::wrapping_add)
}
