//! Nexmark's queries as stages of ours: a provider, one stage for the query, one that checks.

mod end;
mod q0;
mod q1;
mod q2;
mod rig;
mod sink;
mod source;

pub use q2::Selected;

use super::checksum::Summed;
use super::events::Event;
use super::generator::event;
use super::{Outcome, Query};
use crate::workers::Result;

/// Runs a query over so many events.
pub fn run(query: Query, events: u32) -> Result<Outcome> {
    match query {
        Query::Q0 => rig::run::<_, Event>(events, || q0::PassOn),
        Query::Q1 => rig::run::<_, super::events::Bid>(events, || q1::Convert),
        Query::Q2 => rig::run::<_, Selected>(events, || q2::Select),
    }
}

/// The checksum that every engine has to come to, found by a plain loop.
pub fn expected(query: Query, events: u32) -> u64 {
    let events = (0..u64::from(events)).map(event);
    let sums = events.map(|event| match query {
        Query::Q0 => event.sum(),
        Query::Q1 => q1::convert(&event).map_or(0, |bid| bid.sum()),
        Query::Q2 => q2::select(&event).map_or(0, |selected| selected.sum()),
    });
    sums.fold(0, u64::wrapping_add)
}
