//! What of results as JSON counts towards the checksum, and how many there are.

use std::collections::HashMap;
use std::sync::Arc;

use flows::{Data, Event};
use kernel::worker::{Failure, Value};

use crate::streams::Query;
use crate::streams::checksum::{mix, text};
use crate::streams::events::Event as Happening;
use crate::streams::generator::event;
use crate::streams::lines::LINE_WORDS;

const PERSON: &[&str] = &["time", "id", "name", "city", "state"];
const AUCTION: &[&str] = &["time", "id", "seller", "category", "initial_bid", "expires"];
const BID: &[&str] = &["time", "auction", "bidder", "price"];
const SELECTED: &[&str] = &["auction", "price"];

/// How many results a query gives.
pub fn count(query: Query, events: u32) -> usize {
    let numbers = 0..u64::from(events);
    match query {
        Query::Q1 => numbers.filter(|number| is_bid(*number, 1)).count(),
        Query::Q2 => numbers.filter(|number| is_bid(*number, 123)).count(),
        // After each word it tells how often that has come.
        Query::WordCount => (u64::from(events) * LINE_WORDS) as usize,
        _ => events as usize,
    }
}

/// Whether this event is a bid on an auction whose number this divides.
fn is_bid(number: u64, divisor: u64) -> bool {
    matches!(event(number), Happening::Bid(bid) if bid.auction.is_multiple_of(divisor))
}

/// One number for the results of a query.
pub fn checksum(query: Query, results: &[Arc<dyn Value>]) -> Result<u64, Failure> {
    let mut sum = Results::of(query);
    for result in results {
        let event = result.downcast_ref::<Event>();
        let event = event.ok_or_else(|| Failure::new("this is no event"))?;
        sum.add(event.data())?;
    }
    Ok(sum.checksum())
}

/// The results of a query so far.
struct Results {
    query: Query,
    sum: u64,
    /// How often each word has come.
    counts: HashMap<String, u64>,
}

impl Results {
    fn of(query: Query) -> Self {
        Self {
            query,
            sum: 0,
            counts: HashMap::new(),
        }
    }

    /// One more.
    fn add(&mut self, result: &Data) -> Result<(), Failure> {
        let sum = match self.query {
            Query::Q1 => summed(&[2], result, BID)?,
            Query::Q2 => summed(&[], result, SELECTED)?,
            Query::WordCount => return self.add_count(result),
            _ => match result.get("kind").and_then(Data::as_text) {
                Some("person") => summed(&[0], result, PERSON)?,
                Some("auction") => summed(&[1], result, AUCTION)?,
                _ => summed(&[2], result, BID)?,
            },
        };
        self.sum = self.sum.wrapping_add(sum);
        Ok(())
    }

    /// The last count of a word is the one that is due.
    fn add_count(&mut self, result: &Data) -> Result<(), Failure> {
        let word = result.get("key").and_then(Data::as_text);
        let count = result.get("count").and_then(Data::as_int);
        let (Some(word), Some(count)) = (word, count) else {
            return Err(Failure::new("a result has no word or no count"));
        };
        match self.counts.get_mut(word) {
            Some(last) => *last = count as u64,
            None => {
                self.counts.insert(word.to_owned(), count as u64);
            }
        }
        Ok(())
    }

    /// One number for all of them.
    fn checksum(&self) -> u64 {
        let words = self.counts.iter();
        words
            .map(|(word, count)| mix(&[text(word), *count]))
            .fold(self.sum, u64::wrapping_add)
    }
}

fn summed(first: &[u64], result: &Data, names: &[&str]) -> Result<u64, Failure> {
    let mut numbers = [0; 8];
    numbers[..first.len()].copy_from_slice(first);
    let numbers = &mut numbers[..first.len() + names.len()];
    for (number, name) in numbers[first.len()..].iter_mut().zip(names) {
        *number = match result.get(name) {
            Some(Data::Text(value)) => text(value.inner()),
            Some(value) => value.as_int().unwrap_or_default() as u64,
            None => return Err(Failure::new(format!("a result has no {name}"))),
        };
    }
    Ok(mix(numbers))
}
