//! Streams of events through stages in memory on one node, ours and those of other engines.
//!
//! [`chain`] sends small events through three stages and checks that every one comes out in order. The others
//! run queries of Nexmark over the same events ([`generator`]): [`queries`] with our stages, [`timely`] and
//! [`bytewax`] with those engines. The results of a query make one checksum, which must be the same for all.

pub mod bytewax;
pub mod chain;
pub mod checksum;
mod code;
pub mod events;
pub mod generator;
pub mod queries;
pub mod timely;

use std::time::Duration;

use crate::workers::{Result, WorkerError};

/// The queries of Nexmark that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Every event as it came.
    Q0,
    /// Every bid with its price in another currency.
    Q1,
    /// The prices of bids on a few auctions.
    Q2,
}

impl Query {
    fn name(self) -> &'static str {
        match self {
            Self::Q0 => "q0",
            Self::Q1 => "q1",
            Self::Q2 => "q2",
        }
    }
}

/// How a query went.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// How long it took, until the last result.
    pub elapsed: Duration,
    /// One number for all results.
    pub checksum: u64,
}

/// Runs a query with one of the engines. Other results than those that are due are an error.
pub fn checked(
    query: Query,
    events: u32,
    engine: fn(Query, u32) -> Result<Outcome>,
) -> Result<Duration> {
    let outcome = engine(query, events)?;
    let expected = queries::expected(query, events);
    if outcome.checksum == expected {
        return Ok(outcome.elapsed);
    }
    Err(WorkerError::Refused {
        action: format!("run {} over {events} events", query.name()),
        reason: format!(
            "the checksum of the results is {:x} and not {expected:x}",
            outcome.checksum
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: u32 = 20_000;

    #[test]
    fn ours_and_timely_come_to_the_same_results() {
        for query in [Query::Q0, Query::Q1, Query::Q2] {
            checked(query, EVENTS, queries::run).expect("ours is right");
            checked(query, EVENTS, timely::run).expect("timely is right");
        }
    }

    #[test]
    fn one_lost_result_is_found() {
        let loses_one = |query, events| queries::run(query, events - 1);
        let error = checked(Query::Q0, EVENTS, loses_one).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}
