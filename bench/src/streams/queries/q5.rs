//! Nexmark's query 5: the auctions with most bids in the last ten seconds, every two seconds.
//!
//! Where several have as many, all of them count.

use std::collections::{BTreeMap, HashMap, VecDeque};

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

const SLIDE_MS: u64 = 2_000;
/// A window is so many slides long.
const WINDOW_SLIDES: usize = 5;

/// A bid, as far as it is counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Bid {
    /// What is to be bought.
    pub auction: u64,
    time_ms: u64,
}

/// An auction with as many bids as any in a window.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Hot {
    /// When the window ends.
    pub window_end_ms: u64,
    auction: u64,
    bids: u64,
}

impl Summed for Hot {
    fn sum(&self) -> u64 {
        mix(&[self.window_end_ms, self.auction, self.bids])
    }
}

/// The auction and the bid, if it is a bid.
pub fn select(event: &Event) -> Option<(u64, Bid)> {
    match event {
        Event::Bid(bid) => {
            let (auction, time_ms) = (bid.auction, bid.time_ms);
            Some((auction, Bid { auction, time_ms }))
        }
        Event::Person(_) | Event::Auction(_) => None,
    }
}

/// Bids by auction.
type Bids = HashMap<u64, u64>;

/// How many bids there were on some auctions.
#[derive(Default)]
pub struct Counts {
    /// The bids of slides that have not passed, the first one first.
    slides: VecDeque<Bids>,
    /// How many slides have passed.
    passed: u64,
    /// Those of them that are within the window, and what they have together.
    window: VecDeque<Bids>,
    together: Bids,
}

impl Counts {
    /// The first slide has passed: a window ends with it.
    fn pass_slide(&mut self, mut give: impl FnMut(Hot)) {
        let slide = self.slides.pop_front().unwrap_or_default();
        self.passed += 1;
        for (auction, bids) in &slide {
            *self.together.entry(*auction).or_default() += bids;
        }
        let most = self.together.values().max().copied();
        let hot = self
            .together
            .iter()
            .filter(|(_, bids)| Some(**bids) == most);
        hot.for_each(|(auction, bids)| {
            give(Hot {
                window_end_ms: self.passed * SLIDE_MS,
                auction: *auction,
                bids: *bids,
            });
        });
        self.window.push_back(slide);
        if self.window.len() == WINDOW_SLIDES {
            self.leave_slide();
        }
    }

    /// The first slide of the window is not part of the next one.
    fn leave_slide(&mut self) {
        for (auction, left) in self.window.pop_front().unwrap_or_default() {
            if let Some(bids) = self.together.get_mut(&auction) {
                *bids -= left;
                if *bids == 0 {
                    self.together.remove(&auction);
                }
            }
        }
    }
}

impl State for Counts {
    type Input = Bid;
    type Output = Hot;

    fn take(&mut self, bid: &Bid, _: impl FnMut(Hot)) {
        let slide = (bid.time_ms / SLIDE_MS - self.passed) as usize;
        if slide >= self.slides.len() {
            self.slides.resize_with(slide + 1, Bids::default);
        }
        *self.slides[slide].entry(bid.auction).or_default() += 1;
    }

    fn pass(&mut self, time_ms: u64, mut give: impl FnMut(Hot)) {
        let has_any = |counts: &Self| !counts.slides.is_empty() || !counts.together.is_empty();
        while (self.passed + 1) * SLIDE_MS <= time_ms && (time_ms < END_MS || has_any(self)) {
            self.pass_slide(&mut give);
        }
    }
}

/// The most bids in each window so far, and the auctions that have them.
#[derive(Default)]
pub struct Hottest(BTreeMap<u64, Vec<Hot>>);

impl State for Hottest {
    type Input = Hot;
    type Output = Hot;

    fn take(&mut self, hot: &Hot, _: impl FnMut(Hot)) {
        let hottest = self.0.entry(hot.window_end_ms).or_default();
        let most = hottest.first().map_or(0, |hot| hot.bids);
        if hot.bids > most {
            hottest.clear();
        }
        if hot.bids >= most {
            hottest.push(*hot);
        }
    }

    fn pass(&mut self, time_ms: u64, mut give: impl FnMut(Hot)) {
        while let Some(window) = self.0.first_entry()
            && *window.key() <= time_ms
        {
            window.remove().into_iter().for_each(&mut give);
        }
    }
}

pub fn run(events: u32) -> Result<Outcome> {
    let steps = vec![
        Step::single("select", || Selecting::new(select, SLIDE_MS)),
        Step::keyed("count", Bucketed::<Keyed<_>, Counts>::new),
        Step::single("hottest", Gather::<Hottest>::default),
    ];
    rig::run::<_, Given<Hot>>(event, events, steps)
}

/// The checksum that is due.
pub fn expected(events: u32) -> u64 {
    let mut windows: BTreeMap<u64, Bids> = BTreeMap::new();
    for number in 0..u64::from(events) {
        if let Event::Bid(bid) = event(number) {
            let first = bid.time_ms / SLIDE_MS + 1;
            for window in first..first + WINDOW_SLIDES as u64 {
                let bids = windows.entry(window * SLIDE_MS).or_default();
                *bids.entry(bid.auction).or_default() += 1;
            }
        }
    }
    let mut sum = 0_u64;
    for (window_end_ms, bids) in windows {
        let most = bids.values().max().copied().unwrap_or_default();
        for (auction, _) in bids.into_iter().filter(|(_, bids)| *bids == most) {
            sum = sum.wrapping_add(mix(&[window_end_ms, auction, most]));
        }
    }
    sum
}
