//! Nexmark's query 4: for how much things of each category are sold on average.
//!
//! An auction is sold to the highest bid until it expires. What is compared are the averages at the end, over all
//! auctions that had a bid.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};

use super::bucketed::Bucketed;
use super::gather::Gather;
use super::keyed::{Given, Keyed};
use super::rig::{self, Step};
use super::select::Selecting;
use crate::streams::Outcome;
use crate::streams::checksum::{Summed, mix};
use crate::streams::events::Event;
use crate::streams::generator::event;
use crate::streams::state::{END_MS, State};
use crate::workers::Result;

/// How often auctions are looked for that have expired.
const CLOSE_EVERY_MS: u64 = 1_000;

/// Something that happens to an auction.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Happening {
    /// The auction.
    pub auction: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum What {
    Begins { category: u64, expires_ms: u64 },
    Bid { time_ms: u64, price: u64 },
}

/// An auction was sold.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Sold {
    /// What kind of thing it is.
    pub category: u64,
    price: u64,
}

/// For how much things of a category were sold.
#[derive(Debug, Clone, Serialize)]
pub struct Average {
    category: u64,
    auctions: u64,
    total: u64,
    average: u64,
}

impl Summed for Average {
    fn sum(&self) -> u64 {
        mix(&[self.category, self.auctions, self.total, self.average])
    }
}

/// The auction and what happens to it, if something does.
pub fn select(event: &Event) -> Option<(u64, Happening)> {
    let (auction, what) = match event {
        Event::Person(_) => return None,
        Event::Auction(auction) => {
            let (category, expires_ms) = (auction.category, auction.expires_ms);
            (
                auction.id,
                What::Begins {
                    category,
                    expires_ms,
                },
            )
        }
        Event::Bid(bid) => {
            let (time_ms, price) = (bid.time_ms, bid.price);
            (bid.auction, What::Bid { time_ms, price })
        }
    };
    Some((auction, Happening { auction, what }))
}

/// What is known of an auction.
enum Auction {
    /// It has begun.
    Open {
        category: u64,
        expires_ms: u64,
        highest: Option<u64>,
    },
    /// Only bids, with their times and prices.
    Unknown(Vec<(u64, u64)>),
}

/// Auctions that have not expired.
#[derive(Default)]
pub struct Auctions {
    auctions: HashMap<u64, Auction>,
    expiring: BinaryHeap<Reverse<(u64, u64)>>,
    /// Auctions that were unknown when a bid came, and when that was.
    unknown: Vec<(u64, u64)>,
}

impl Auctions {
    fn begin(&mut self, auction: u64, category: u64, expires_ms: u64) {
        self.expiring.push(Reverse((expires_ms, auction)));
        let open = Auction::Open {
            category,
            expires_ms,
            highest: None,
        };
        if let Some(Auction::Unknown(bids)) = self.auctions.insert(auction, open) {
            for (time_ms, price) in bids {
                self.bid(auction, time_ms, price);
            }
        }
    }

    fn bid(&mut self, auction: u64, bid_ms: u64, price: u64) {
        let unknown = &mut self.unknown;
        let known = self.auctions.entry(auction).or_insert_with(|| {
            unknown.push((bid_ms, auction));
            Auction::Unknown(Vec::new())
        });
        match known {
            Auction::Unknown(bids) => bids.push((bid_ms, price)),
            Auction::Open {
                expires_ms,
                highest,
                ..
            } => {
                if bid_ms <= *expires_ms {
                    *highest = (*highest).max(Some(price));
                }
            }
        }
    }

    /// An auction begins before there are bids on it. So one that is still unknown has expired.
    fn forget_unknown(&mut self, passed_ms: u64) {
        let auctions = &mut self.auctions;
        self.unknown.retain(|(bid_ms, auction)| {
            let has_passed = *bid_ms < passed_ms;
            if has_passed && let Some(Auction::Unknown(_)) = auctions.get(auction) {
                auctions.remove(auction);
            }
            !has_passed
        });
    }
}

impl State for Auctions {
    type Input = Happening;
    type Output = Sold;

    fn take(&mut self, happening: &Happening, _: impl FnMut(Sold)) {
        let auction = happening.auction;
        match happening.what {
            What::Begins {
                category,
                expires_ms,
            } => self.begin(auction, category, expires_ms),
            What::Bid { time_ms, price } => self.bid(auction, time_ms, price),
        }
    }

    fn pass(&mut self, passed_ms: u64, mut give: impl FnMut(Sold)) {
        while let Some(Reverse((expires_ms, auction))) = self.expiring.peek().copied()
            && expires_ms < passed_ms
        {
            self.expiring.pop();
            if let Some(Auction::Open {
                category,
                highest: Some(price),
                ..
            }) = self.auctions.remove(&auction)
            {
                give(Sold { category, price });
            }
        }
        self.forget_unknown(passed_ms);
    }
}

/// How many were sold, and for how much together.
#[derive(Default)]
pub struct Averages(BTreeMap<u64, (u64, u64)>);

impl State for Averages {
    type Input = Sold;
    type Output = Average;

    fn take(&mut self, sold: &Sold, _: impl FnMut(Average)) {
        let (auctions, total) = self.0.entry(sold.category).or_default();
        *auctions += 1;
        *total += sold.price;
    }

    fn pass(&mut self, time_ms: u64, mut give: impl FnMut(Average)) {
        if time_ms < END_MS {
            return;
        }
        for (category, (auctions, total)) in std::mem::take(&mut self.0) {
            give(Average {
                category,
                auctions,
                total,
                average: total / auctions,
            });
        }
    }
}

pub fn run(events: u32) -> Result<Outcome> {
    let steps = vec![
        Step::single("select", || Selecting::new(select, CLOSE_EVERY_MS)),
        Step::keyed("sell", Bucketed::<Keyed<_>, Auctions>::new),
        Step::single("average", Gather::<Averages>::default),
    ];
    rig::run::<_, Given<Average>>(event, events, steps)
}

/// The checksum that is due. No bid comes before its auction.
pub fn expected(events: u32) -> u64 {
    let mut auctions = HashMap::new();
    for number in 0..u64::from(events) {
        match event(number) {
            Event::Person(_) => {}
            Event::Auction(auction) => {
                auctions.insert(auction.id, (auction, 0));
            }
            Event::Bid(bid) => {
                let (auction, highest) = auctions.get_mut(&bid.auction).expect("it has begun");
                if bid.time_ms <= auction.expires_ms {
                    *highest = bid.price.max(*highest);
                }
            }
        }
    }
    let mut categories: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (auction, highest) in auctions.into_values().filter(|(_, highest)| *highest > 0) {
        let (count, total) = categories.entry(auction.category).or_default();
        *count += 1;
        *total += highest;
    }
    let sums = categories
        .into_iter()
        .map(|(category, (count, total))| mix(&[category, count, total, total / count]));
    sums.fold(0, u64::wrapping_add)
}
