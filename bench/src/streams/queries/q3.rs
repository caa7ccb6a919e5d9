//! Nexmark's query 3: who sells things of one category in three states.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::bucketed::Bucketed;
use super::keyed::{Given, Keyed};
use super::rig::{self, Step};
use super::select::Selecting;
use crate::streams::Outcome;
use crate::streams::checksum::{Summed, mix, text};
use crate::streams::events::Event;
use crate::streams::generator::event;
use crate::streams::state::{END_MS, State};
use crate::workers::Result;

const STATES: [&str; 3] = ["OR", "ID", "CA"];
const CATEGORY: u64 = 3;

/// One of the two sides that are joined.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Side {
    /// Somebody in one of the states.
    Person(Person),
    /// The number of an auction of the category.
    Auction(u64),
}

/// Somebody in one of the states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Person {
    name: String,
    city: Cow<'static, str>,
    state: Cow<'static, str>,
}

/// Somebody in one of the states sells something of the category.
#[derive(Debug, Clone, Serialize)]
pub struct Suggestion {
    person: Person,
    auction: u64,
}

impl Summed for Suggestion {
    fn sum(&self) -> u64 {
        let Person { name, city, state } = &self.person;
        mix(&[text(name), text(city), text(state), self.auction])
    }
}

/// The seller and the side, if the query looks at it.
pub fn select(event: &Event) -> Option<(u64, (u64, Side))> {
    match event {
        Event::Person(person) if STATES.contains(&person.state) => {
            let side = Side::Person(Person {
                name: person.name.clone(),
                city: person.city.into(),
                state: person.state.into(),
            });
            Some((person.id, (person.id, side)))
        }
        Event::Auction(auction) if auction.category == CATEGORY => {
            let side = Side::Auction(auction.id);
            Some((auction.seller, (auction.seller, side)))
        }
        _ => None,
    }
}

/// What is known of one seller.
enum Seller {
    Known(Person),
    /// Only what they sell.
    Unknown(Vec<u64>),
}

/// Both sides by seller, for ever, as either may come first.
#[derive(Default)]
pub struct Sellers(HashMap<u64, Seller>);

impl State for Sellers {
    type Input = (u64, Side);
    type Output = Suggestion;

    fn take(&mut self, (seller, side): &Self::Input, mut give: impl FnMut(Suggestion)) {
        let known = self.0.entry(*seller);
        let known = known.or_insert_with(|| Seller::Unknown(Vec::new()));
        match (side, known) {
            (Side::Person(person), known) => {
                if let Seller::Unknown(auctions) = known {
                    auctions.drain(..).for_each(|auction| {
                        give(Suggestion {
                            person: person.clone(),
                            auction,
                        });
                    });
                }
                *known = Seller::Known(person.clone());
            }
            (Side::Auction(auction), Seller::Known(person)) => give(Suggestion {
                person: person.clone(),
                auction: *auction,
            }),
            (Side::Auction(auction), Seller::Unknown(auctions)) => auctions.push(*auction),
        }
    }

    fn pass(&mut self, _: u64, _: impl FnMut(Suggestion)) {}
}

pub fn run(events: u32) -> Result<Outcome> {
    let steps = vec![
        Step::single("select", || Selecting::new(select, END_MS)),
        Step::keyed("join", Bucketed::<Keyed<_>, Sellers>::new),
    ];
    rig::run::<_, Given<Suggestion>>(event, events, steps)
}

/// The checksum that is due. Nobody sells anything before they are known.
pub fn expected(events: u32) -> u64 {
    let mut persons = HashMap::new();
    let mut sum = 0_u64;
    for number in 0..u64::from(events) {
        match event(number) {
            Event::Person(person) => {
                persons.insert(person.id, person);
            }
            Event::Auction(auction) if auction.category == CATEGORY => {
                let person = &persons[&auction.seller];
                if STATES.contains(&person.state) {
                    let fields = [&person.name, person.city, person.state].map(text);
                    let [name, city, state] = fields;
                    sum = sum.wrapping_add(mix(&[name, city, state, auction.id]));
                }
            }
            _ => {}
        }
    }
    sum
}
