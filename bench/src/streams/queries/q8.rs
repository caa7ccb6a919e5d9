//! Nexmark's query 8: who joined and sold something within the same second.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::bucketed::Bucketed;
use super::keyed::{Given, Keyed};
use super::rig::{self, Step};
use super::select::Selecting;
use crate::streams::Outcome;
use crate::streams::checksum::{Summed, mix, text};
use crate::streams::events::Event;
use crate::streams::generator::event;
use crate::streams::state::State;
use crate::workers::Result;

const WINDOW_MS: u64 = 1_000;

/// Something that a person does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deed {
    /// Who does it.
    pub person: u64,
    window_end_ms: u64,
    /// The name of one who joins; others sell.
    joins: Option<String>,
}

/// Somebody who joined and sold something within a window.
#[derive(Debug, Clone, Serialize)]
pub struct Newcomer {
    person: u64,
    name: String,
    window_end_ms: u64,
}

impl Summed for Newcomer {
    fn sum(&self) -> u64 {
        mix(&[self.person, text(&self.name), self.window_end_ms])
    }
}

/// The person and what they do, if the query looks at it.
pub fn select(event: &Event) -> Option<(u64, Deed)> {
    let (person, joins) = match event {
        Event::Person(person) => (person.id, Some(person.name.clone())),
        Event::Auction(auction) => (auction.seller, None),
        Event::Bid(_) => return None,
    };
    let deed = Deed {
        person,
        window_end_ms: window_end_ms(event.time_ms()),
        joins,
    };
    Some((person, deed))
}

fn window_end_ms(time_ms: u64) -> u64 {
    (time_ms / WINDOW_MS + 1) * WINDOW_MS
}

/// What a person has done in a window.
enum Done {
    /// Joined, under this name.
    Joined(String),
    Sold,
    Both,
}

/// What persons have done in windows that have not passed; there are few windows.
#[derive(Default)]
pub struct Persons(Vec<(u64, HashMap<u64, Done>)>);

impl Persons {
    fn window(&mut self, window_end_ms: u64) -> &mut HashMap<u64, Done> {
        let found = self
            .0
            .iter()
            .position(|(end_ms, _)| *end_ms == window_end_ms);
        let place = found.unwrap_or_else(|| {
            self.0.push((window_end_ms, HashMap::new()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl State for Persons {
    type Input = Deed;
    type Output = Newcomer;

    fn take(&mut self, deed: &Deed, mut give: impl FnMut(Newcomer)) {
        let Deed {
            person,
            window_end_ms,
            joins,
        } = deed;
        let mut both = |name| {
            give(Newcomer {
                person: *person,
                name,
                window_end_ms: *window_end_ms,
            });
            Done::Both
        };
        let window = self.window(*window_end_ms);
        let done = match (window.remove(person), joins) {
            (None | Some(Done::Joined(_)), Some(name)) => Done::Joined(name.clone()),
            (Some(Done::Sold), Some(name)) => both(name.clone()),
            (Some(Done::Joined(name)), None) => both(name),
            (None | Some(Done::Sold), None) => Done::Sold,
            (Some(Done::Both), _) => Done::Both,
        };
        window.insert(*person, done);
    }

    fn pass(&mut self, time_ms: u64, _: impl FnMut(Newcomer)) {
        self.0.retain(|(end_ms, _)| *end_ms > time_ms);
    }
}

pub fn run(events: u32) -> Result<Outcome> {
    let steps = vec![
        Step::single("select", || Selecting::new(select, WINDOW_MS)),
        Step::keyed("join", Bucketed::<Keyed<_>, Persons>::new),
    ];
    rig::run::<_, Given<Newcomer>>(event, events, steps)
}

/// The checksum that is due.
pub fn expected(events: u32) -> u64 {
    let mut joined = BTreeMap::new();
    let mut sold = HashSet::new();
    for number in 0..u64::from(events) {
        match event(number) {
            Event::Person(person) => {
                let window = window_end_ms(person.time_ms);
                joined.insert((person.id, window), person.name);
            }
            Event::Auction(auction) => {
                sold.insert((auction.seller, window_end_ms(auction.time_ms)));
            }
            Event::Bid(_) => {}
        }
    }
    let newcomers = joined.iter().filter(|(key, _)| sold.contains(key));
    let sums = newcomers.map(|((person, window), name)| mix(&[*person, text(name), *window]));
    sums.fold(0, u64::wrapping_add)
}
