//! Queries as stages of ours: a provider, stages for the query, one that checks.
//!
//! What is divided by key goes through a keyed stage of two workers. What these keep is in their memory, bucket by bucket,
//! as other engines keep it in the memory of their operators (`streams/state.rs`).

mod bucketed;
mod each;
mod end;
mod gather;
mod key;
mod keyed;
mod q0;
mod q1;
mod q2;
pub(super) mod q3;
pub(super) mod q4;
pub(super) mod q5;
pub(super) mod q7;
pub(super) mod q8;
mod rig;
mod select;
mod sink;
mod source;
pub(super) mod word_count;

pub use q2::Selected;

use super::checksum::Summed;
use super::events::Event;
use super::generator::event;
use super::{Outcome, Query};
use crate::workers::Result;
use each::Each;
use kernel::worker::Value;
use rig::Step;

/// How many make events where order does not matter; timely has as many.
const SOURCES: u32 = 2;

/// Runs a query over so many events.
pub fn run(query: Query, events: u32) -> Result<Outcome> {
    match query {
        Query::Q0 => {
            let step = Step::single("query", || q0::PassOn);
            rig::run_from::<_, Event>(SOURCES, event, events, vec![step])
        }
        Query::Q1 => each(q1::convert, events),
        Query::Q2 => each(q2::select, events),
        Query::Q3 => q3::run(events),
        Query::Q4 => q4::run(events),
        Query::Q5 => q5::run(events),
        Query::Q7 => q7::run(events),
        Query::Q8 => q8::run(events),
        Query::WordCount => word_count::run(events),
    }
}

/// Runs a query that looks at each event by itself.
fn each<R: Value + Clone + Summed>(query: fn(&Event) -> Option<R>, events: u32) -> Result<Outcome> {
    let step = Step::single("query", move || Each::new(query));
    rig::run_from::<_, R>(SOURCES, event, events, vec![step])
}

/// The checksum that every engine has to come to, found by a plain loop.
pub fn expected(query: Query, events: u32) -> u64 {
    match query {
        Query::Q0 => summed(events, |event| event.sum()),
        Query::Q1 => summed(events, |event| {
            q1::convert(event).map_or(0, |bid| bid.sum())
        }),
        Query::Q2 => summed(events, |event| {
            q2::select(event).map_or(0, |selected| selected.sum())
        }),
        Query::Q3 => q3::expected(events),
        Query::Q4 => q4::expected(events),
        Query::Q5 => q5::expected(events),
        Query::Q7 => q7::expected(events),
        Query::Q8 => q8::expected(events),
        Query::WordCount => word_count::expected(events),
    }
}

/// The sum of what each event gives by itself.
fn summed(events: u32, sum: fn(&Event) -> u64) -> u64 {
    let sums = (0..u64::from(events)).map(|number| sum(&event(number)));
    sums.fold(0, u64::wrapping_add)
}
