//! Makes the events of the auction house, each from its number alone.
//!
//! Of fifty events in a row the first is a person, three are auctions and the others are bids; ten thousand
//! events make a second of event time. Bids and sellers prefer what is recent.

use super::dice::Dice;
use super::events::{Auction, Bid, Event, Person};

const ROUND_EVENTS: u64 = 50;
const ROUND_AUCTIONS: u64 = 3;
const EVENTS_PER_MS: u64 = 10;
const CATEGORIES: u64 = 5;
/// How far back a bid looks for an auction, and an auction for its seller.
const RECENT_AUCTIONS: u64 = 100;
const RECENT_PERSONS: u64 = 100;
const AUCTION_MS_MAX: u64 = 10_000;

const FIRST_NAMES: [&str; 8] = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"];
const LAST_NAMES: [&str; 8] = [
    "Abel", "Brook", "Cole", "Dorn", "Ek", "Frost", "Gray", "Holm",
];
/// Cities and the states where they are.
const PLACES: [(&str, &str); 8] = [
    ("Phoenix", "AZ"),
    ("Palo Alto", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Seattle", "WA"),
    ("Cheyenne", "WY"),
];

/// When the event of this number happens. Those after it do not happen before.
pub fn time_ms(number: u64) -> u64 {
    number / EVENTS_PER_MS
}

/// The event of this number.
pub fn event(number: u64) -> Event {
    let (round, place) = (number / ROUND_EVENTS, number % ROUND_EVENTS);
    let time_ms = time_ms(number);
    let mut dice = Dice::new(number);
    match place {
        0 => Event::Person(person(time_ms, round, &mut dice)),
        1..=ROUND_AUCTIONS => {
            let id = round * ROUND_AUCTIONS + place - 1;
            Event::Auction(auction(time_ms, id, round, &mut dice))
        }
        _ => Event::Bid(Bid {
            time_ms,
            auction: dice.recent((round + 1) * ROUND_AUCTIONS - 1, RECENT_AUCTIONS),
            bidder: dice.recent(round, RECENT_PERSONS),
            price: 100 + dice.below(1_000_000),
        }),
    }
}

fn person(time_ms: u64, id: u64, dice: &mut Dice) -> Person {
    let (city, state) = dice.one_of(&PLACES);
    let name = [dice.one_of(&FIRST_NAMES), " ", dice.one_of(&LAST_NAMES)].concat();
    Person {
        time_ms,
        id,
        name,
        city,
        state,
    }
}

fn auction(time_ms: u64, id: u64, round: u64, dice: &mut Dice) -> Auction {
    Auction {
        time_ms,
        id,
        seller: dice.recent(round, RECENT_PERSONS),
        category: dice.below(CATEGORIES),
        initial_bid: 100 + dice.below(10_000),
        expires_ms: time_ms + 1 + dice.below(AUCTION_MS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_are_those_of_the_description() {
        let mut counts = [0; 3];
        for number in 0..5_000 {
            match event(number) {
                Event::Person(_) => counts[0] += 1,
                Event::Auction(_) => counts[1] += 1,
                Event::Bid(_) => counts[2] += 1,
            }
        }
        assert_eq!(counts, [100, 300, 4_600]);
    }

    #[test]
    fn bids_are_for_auctions_that_there_are_and_time_advances() {
        let (mut auctions, mut persons, mut last_ms) = (0, 0, 0);
        for number in 0..10_000 {
            let time_ms = match event(number) {
                Event::Person(person) => {
                    persons = person.id + 1;
                    person.time_ms
                }
                Event::Auction(auction) => {
                    assert!(auction.seller < persons && auction.expires_ms > auction.time_ms);
                    auctions = auction.id + 1;
                    auction.time_ms
                }
                Event::Bid(bid) => {
                    assert!(bid.auction < auctions && bid.bidder < persons);
                    bid.time_ms
                }
            };
            assert!(time_ms >= last_ms);
            last_ms = time_ms;
        }
    }
}
